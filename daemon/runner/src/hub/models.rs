//! A model of the hub. Only settings, tokenizer and safetensors are fetched; pickle files can run
//! code when they are read.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use traind_job_file::Model as ModelSection;

use super::asked::{Asked, Selection};
use super::cache::Cache;
use super::client::{self, Client, Info};
use super::download::Download;
use super::repository::Repository;
use super::{HubProblem, files};
use crate::control::Context;
use crate::error::RunResult;

const CONFIG: &str = "config.json";
const FIELD: &str = "model.name_or_path";

fn asked(section: &ModelSection, id: &str) -> Asked {
    let (repository, revision) = (Repository::model(id), section.revision.clone());
    Asked { repository, revision, field: FIELD }
}

/// The folder of the model's files: what the job began with, or what the hub has now.
pub(crate) fn fetch(section: &ModelSection, id: &str, context: &Context) -> RunResult<PathBuf> {
    asked(section, id).fetch(ModelFiles { from_config: section.from_config }, context)
}

struct ModelFiles {
    /// Without weights.
    from_config: bool,
}

/// The folder that they are in.
impl Selection for ModelFiles {
    type Files = PathBuf;

    fn cached(&self, cache: &Cache, repository: &Repository, revision: &str) -> Option<PathBuf> {
        cache.model(repository, revision, self.from_config)
    }

    fn complete(
        &self,
        _cache: &Cache,
        info: &Info,
        download: &Download<'_>,
    ) -> Result<PathBuf, HubProblem> {
        let folder = &download.snapshot.folder;
        for file in files::first(info, self.from_config)? {
            download.fetch(file)?;
        }
        for file in files::shards(folder, self.from_config)? {
            download.fetch(&file)?;
        }
        Ok(folder.clone())
    }
}

/// The model's settings alone, which are all that a plan takes: from the cache, else from the
/// hub where it `may_fetch`, and in either case without writing anything. With them the name of their file.
pub(crate) fn config(
    section: &ModelSection,
    id: &str,
    may_fetch: bool,
) -> RunResult<(PathBuf, Map<String, Value>)> {
    let asked = asked(section, id);
    let caches = Cache::all(None);
    let cached = caches.iter().find_map(|cache| {
        let path = cache.snapshot(&asked.repository, asked.revision()).join(CONFIG);
        Some((std::fs::read(&path).ok()?, path))
    });
    let (json, path) = match cached {
        Some(found) => found,
        None if !may_fetch => return Err(asked.not_cached(&caches, "it may not be fetched now")),
        None if client::is_offline() => {
            return Err(asked.not_cached(&caches, "HF_HUB_OFFLINE is set"));
        }
        None => {
            let json = fetch_config(&asked).map_err(|problem| asked.error(problem))?;
            (json, Path::new(id).join(CONFIG))
        }
    };
    let corrupt = |_| asked.error(HubProblem::Corrupt { file: CONFIG.to_owned() });
    Ok((path, serde_json::from_slice(&json).map_err(corrupt)?))
}

fn fetch_config(asked: &Asked) -> Result<Vec<u8>, HubProblem> {
    let client = Client::of_plan()?;
    let info = client.info(&asked.repository, asked.revision())?;
    match info.files.iter().any(|file| file == CONFIG) {
        true => client.small(&asked.repository, &info.commit, CONFIG),
        false => Err(HubProblem::NoFile { file: CONFIG }),
    }
}
