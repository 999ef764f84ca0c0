//! A data set of the hub: the files of one split, as `load_dataset` finds them.

use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::client::Revision;
use super::download::Download;
use super::fetch::{Hub, Notice, Selection, Target};
use super::repository::DATA_SETS;
use super::splits::{DataSetRequest, choose};
use super::{Problem, Repository, Result};

/// Assigns files to splits.
const CARD: &str = "README.md";

/// A file in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    pub local: PathBuf,
    /// Its address on the hub.
    pub name: PathBuf,
}

impl Hub {
    /// Returns the files of a split, in order.
    pub fn fetch_data(
        &self,
        request: &DataSetRequest,
        notify: &dyn Fn(Notice<'_>),
    ) -> Result<Vec<DataFile>> {
        self.fetch(request.target(), request, notify)
    }
}

impl DataSetRequest {
    pub(crate) fn target(&self) -> Target {
        Target { repository: Repository::data_set(&self.id), revision: self.revision.clone() }
    }
}

impl Selection for DataSetRequest {
    type Files = Vec<DataFile>;

    /// Needs the commit's listing: without it the split may have more files than the cache.
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
        revision: &Revision,
        download: &Download<'_>,
    ) -> std::result::Result<Vec<DataFile>, Problem> {
        let (folder, repository) = (&download.snapshot.folder, download.repository);
        let card = match revision.has(CARD) {
            true => {
                download.fetch(CARD)?;
                std::fs::read_to_string(folder.join(CARD)).ok()
            }
            false => None,
        };
        let files = choose(&revision.files, card.as_deref(), self)?;
        files.iter().try_for_each(|file| download.fetch(file))?;
        cache.write_listing(repository, revision)?;
        Ok(files.iter().map(|file| data_file(folder, repository, file)).collect())
    }
}

fn data_file(folder: &Path, repository: &Repository, file: &str) -> DataFile {
    let name = format!("{DATA_SETS}{}/{file}", repository.id).into();
    DataFile { local: folder.join(file), name }
}
