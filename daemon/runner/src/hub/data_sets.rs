//! A data set of the hub: the files of one split, as `load_dataset` would find them.

use std::path::{Path, PathBuf};

use traind_job_file::DataSetUrl;

use super::asked::{Asked, Selection};
use super::cache::Cache;
use super::client::Info;
use super::download::Download;
use super::repository::Repository;
use super::splits::{Wanted, choose};
use super::{DATA_SETS, HubProblem};
use crate::control::Context;
use crate::error::RunResult;

/// Says which files belong to which split.
const CARD: &str = "README.md";

/// A file that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataFile {
    pub local: PathBuf,
    /// As people call it.
    pub name: PathBuf,
}

/// The files of `split` that `url` names, in order. `field` of the job file names the URL.
pub(crate) fn fetch(
    context: &Context,
    field: &'static str,
    url: &DataSetUrl,
    split: &str,
) -> RunResult<Vec<DataFile>> {
    let data = &context.spec.job.data;
    let revision = url.revision.clone().or_else(|| data.revision.clone());
    let asked = Asked { repository: Repository::data_set(&url.id), revision, field };
    let config = data.dataset_config_name.clone();
    let wanted = Wanted { split: split.to_owned(), config, path: url.path.clone() };
    asked.fetch(wanted, context)
}

impl Selection for Wanted {
    type Files = Vec<DataFile>;

    /// The cache has to know that there are no others.
    fn cached(
        &self,
        cache: &Cache,
        repository: &Repository,
        revision: &str,
    ) -> Option<Vec<DataFile>> {
        let listing = cache.listing(repository, &cache.commit(repository, revision))?;
        let folder = cache.snapshot(repository, revision);
        let card = std::fs::read_to_string(folder.join(CARD)).ok();
        let files = choose(&listing, card.as_deref(), self).ok()?;
        let files: Vec<DataFile> =
            files.iter().map(|file| data_file(&folder, repository, file)).collect();
        files.iter().all(|file| file.local.exists()).then_some(files)
    }

    fn complete(
        &self,
        cache: &Cache,
        info: &Info,
        download: &Download<'_>,
    ) -> Result<Vec<DataFile>, HubProblem> {
        let (folder, repository) = (&download.snapshot.folder, download.repository);
        let card = match info.files.iter().any(|file| file == CARD) {
            true => {
                download.fetch(CARD)?;
                std::fs::read_to_string(folder.join(CARD)).ok()
            }
            false => None,
        };
        let files = choose(&info.files, card.as_deref(), self)?;
        files.iter().try_for_each(|file| download.fetch(file))?;
        cache.keep_listing(repository, info)?;
        Ok(files.iter().map(|file| data_file(folder, repository, file)).collect())
    }
}

fn data_file(folder: &Path, repository: &Repository, file: &str) -> DataFile {
    let name = format!("{DATA_SETS}{}/{file}", repository.id).into();
    DataFile { local: folder.join(file), name }
}
