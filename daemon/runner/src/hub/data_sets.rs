//! A data set of the hub: the files of one split, as `load_dataset` would find them.

use std::path::PathBuf;

use traind_job_file::DataSetUrl;

use super::asked::{Asked, Origin};
use super::cache::Cache;
use super::client::{Client, Info};
use super::download::Download;
use super::repository::Repository;
use super::splits::{Wanted, choose};
use super::{DATA_SETS, HubProblem};
use crate::context::Context;
use crate::failure::RunResult;
use crate::fetching;

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
    fetching::unless_stopped(context, move |context| fetch_now(asked, &wanted, context))?
}

fn fetch_now(mut asked: Asked, wanted: &Wanted, context: &Context) -> RunResult<Vec<DataFile>> {
    let caches = Cache::all(Some(&context.spec.cache_dir));
    let pin = asked.pin(context);
    let found = |asked: &Asked, revision: &str| {
        caches.iter().find_map(|cache| {
            // One that is not ours is removed by nobody.
            let _ = context.held.hold(&cache.repository(&asked.repository));
            cached(cache, &asked.repository, revision, wanted)
        })
    };
    match asked.origin(context, |asked| found(asked, asked.revision()).is_some())? {
        Origin::Cache { why } => {
            found(&asked, asked.revision()).ok_or_else(|| asked.not_cached(&caches, why))
        }
        Origin::Hub { client, info } => {
            let files = match found(&asked, &info.commit) {
                Some(files) => files,
                None => complete(&asked, wanted, &client, &info, &caches[0], context)
                    .map_err(|problem| asked.error(problem))?,
            };
            pin.write(&info.commit)?;
            Ok(files)
        }
    }
}

/// The files, if the cache has all of them and knows that there are no others.
fn cached(
    cache: &Cache,
    repository: &Repository,
    revision: &str,
    wanted: &Wanted,
) -> Option<Vec<DataFile>> {
    let listing = cache.listing(repository, &cache.commit(repository, revision))?;
    let folder = cache.snapshot(repository, revision);
    let card = std::fs::read_to_string(folder.join(CARD)).ok();
    let files = choose(&listing, card.as_deref(), wanted).ok()?;
    let files: Vec<DataFile> =
        files.iter().map(|file| data_file(&folder, repository, file)).collect();
    files.iter().all(|file| file.local.exists()).then_some(files)
}

fn data_file(folder: &std::path::Path, repository: &Repository, file: &str) -> DataFile {
    let name = format!("{DATA_SETS}{}/{file}", repository.id).into();
    DataFile { local: folder.join(file), name }
}

/// Fetches what the cache lacks of a commit.
fn complete(
    asked: &Asked,
    wanted: &Wanted,
    client: &Client,
    info: &Info,
    cache: &Cache,
    context: &Context,
) -> Result<Vec<DataFile>, HubProblem> {
    let (repository, commit) = (&asked.repository, info.commit.as_str());
    let snapshot = cache.begin(repository, commit, &context.held)?;
    let watcher = &*fetching::watcher(context);
    let download = Download { client, repository, commit, snapshot: &snapshot, watcher };
    let card = match info.files.iter().any(|file| file == CARD) {
        true => {
            download.fetch(CARD)?;
            std::fs::read_to_string(snapshot.folder.join(CARD)).ok()
        }
        false => None,
    };
    let files = choose(&info.files, card.as_deref(), wanted)?;
    files.iter().try_for_each(|file| download.fetch(file))?;
    cache.keep_listing(repository, info)?;
    snapshot.finish(asked.revision(), commit)?;
    Ok(files.iter().map(|file| data_file(&snapshot.folder, repository, file)).collect())
}
