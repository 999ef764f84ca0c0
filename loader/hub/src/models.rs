//! A model of the hub: settings, tokenizer and safetensors. Pickle files, which can run code when
//! they are read, are never fetched.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::cache::Cache;
use super::client::{self, Client, Revision};
use super::download::Download;
use super::fetch::{Hub, Notice, Selection, Target};
use super::model_files::{self, CONFIG};
use super::{Problem, Repository, Result};

/// A model that a job names.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub id: String,
    /// `None` for the main branch.
    pub revision: Option<String>,
    /// False where the job draws the weights itself.
    pub with_weights: bool,
}

impl Hub {
    /// Returns the folder with the files of a model.
    pub fn fetch_model(
        &self,
        request: &ModelRequest,
        notify: &dyn Fn(Notice<'_>),
    ) -> Result<PathBuf> {
        self.fetch(request.target(), request, notify)
    }
}

impl ModelRequest {
    pub(crate) fn target(&self) -> Target {
        Target { repository: Repository::model(&self.id), revision: self.revision.clone() }
    }
}

impl Selection for ModelRequest {
    /// The folder of the files.
    type Files = PathBuf;

    fn cached(&self, cache: &Cache, repository: &Repository, revision: &str) -> Option<PathBuf> {
        let snapshot = cache.snapshot(repository, revision);
        model_files::are_complete(&snapshot, self.with_weights).then_some(snapshot)
    }

    fn complete(
        &self,
        _cache: &Cache,
        revision: &Revision,
        download: &Download<'_>,
    ) -> std::result::Result<PathBuf, Problem> {
        let folder = &download.snapshot.folder;
        for file in model_files::listed(revision, self.with_weights)? {
            download.fetch(file)?;
        }
        for file in model_files::shards(folder, self.with_weights)? {
            download.fetch(&file)?;
        }
        Ok(folder.clone())
    }
}

/// Returns the folder of a model that is in the cache of this host, of which `cache_dir` may have a part. Fetches
/// nothing.
pub fn cached_model(request: &ModelRequest, cache_dir: &Path) -> Result<PathBuf> {
    let (target, caches) = (request.target(), Cache::all(Some(cache_dir)));
    let cached = |cache: &Cache| request.cached(cache, &target.repository, target.revision());
    caches
        .iter()
        .find_map(cached)
        .ok_or_else(|| target.not_cached(&caches, "it is not fetched now"))
}

/// Returns the path and content of a model's `config.json`, from the cache or, where it
/// `may_fetch`, from the hub. Writes nothing.
pub fn model_config(
    request: &ModelRequest,
    may_fetch: bool,
) -> Result<(PathBuf, Map<String, Value>)> {
    let target = request.target();
    let caches = Cache::all(None);
    let cached = caches.iter().find_map(|cache| {
        let path = cache.snapshot(&target.repository, target.revision()).join(CONFIG);
        Some((std::fs::read(&path).ok()?, path))
    });
    let (json, path) = match cached {
        Some(found) => found,
        None if !may_fetch => return Err(target.not_cached(&caches, "it may not be fetched now")),
        None if client::is_offline() => {
            return Err(target.not_cached(&caches, "HF_HUB_OFFLINE is set"));
        }
        None => {
            let json = fetch_config(&target).map_err(|problem| target.error(problem))?;
            (json, Path::new(&request.id).join(CONFIG))
        }
    };
    let corrupt = |_| target.error(Problem::Corrupt { file: CONFIG.to_owned() });
    Ok((path, serde_json::from_slice(&json).map_err(corrupt)?))
}

fn fetch_config(target: &Target) -> std::result::Result<Vec<u8>, Problem> {
    let client = Client::for_plan()?;
    let revision = client.revision(&target.repository, target.revision())?;
    if !revision.has(CONFIG) {
        return Err(Problem::NoFile { file: CONFIG });
    }
    client.small_file(&target.repository, &revision.commit, CONFIG)
}
