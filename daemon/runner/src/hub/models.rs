//! A model of the hub. Only settings, tokenizer and safetensors are fetched; pickle files can run
//! code when they are read.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use traind_job_file::Model as ModelSection;

use super::asked::{Asked, Origin};
use super::cache::Cache;
use super::client::{self, Client, Info};
use super::download::Download;
use super::repository::Repository;
use super::{HubProblem, files};
use crate::context::Context;
use crate::failure::RunResult;
use crate::fetching;

const CONFIG: &str = "config.json";
const FIELD: &str = "model.name_or_path";

fn asked(section: &ModelSection, id: &str) -> Asked {
    let (repository, revision) = (Repository::model(id), section.revision.clone());
    Asked { repository, revision, field: FIELD }
}

/// The folder of the model's files: what the job began with, or what the hub has now.
pub(crate) fn fetch(section: &ModelSection, id: &str, context: &Context) -> RunResult<PathBuf> {
    let (asked, from_config) = (asked(section, id), section.from_config);
    fetching::unless_stopped(context, move |context| fetch_now(asked, from_config, context))?
}

fn fetch_now(mut asked: Asked, from_config: bool, context: &Context) -> RunResult<PathBuf> {
    let caches = Cache::all(Some(&context.spec.cache_dir));
    let pin = asked.pin(context);
    let found = |asked: &Asked, revision: &str| {
        caches.iter().find_map(|cache| {
            let folder = cache.model(&asked.repository, revision, from_config)?;
            // One that is not ours is removed by nobody.
            let _ = context.held.hold(&cache.repository(&asked.repository));
            cache.model(&asked.repository, revision, from_config).map(|_| folder)
        })
    };
    match asked.origin(context, |asked| found(asked, asked.revision()).is_some())? {
        Origin::Cache { why } => {
            found(&asked, asked.revision()).ok_or_else(|| asked.not_cached(&caches, why))
        }
        Origin::Hub { client, info } => {
            let folder = match found(&asked, &info.commit) {
                Some(folder) => folder,
                None => complete(&asked, from_config, &client, &info, &caches[0], context)
                    .map_err(|problem| asked.error(problem))?,
            };
            pin.write(&info.commit)?;
            Ok(folder)
        }
    }
}

/// Fetches what the cache lacks of a commit.
fn complete(
    asked: &Asked,
    from_config: bool,
    client: &Client,
    info: &Info,
    cache: &Cache,
    context: &Context,
) -> Result<PathBuf, HubProblem> {
    let (repository, commit) = (&asked.repository, info.commit.as_str());
    let snapshot = cache.begin(repository, commit, &context.held)?;
    let watcher = &*fetching::watcher(context);
    let download = Download { client, repository, commit, snapshot: &snapshot, watcher };
    for file in files::first(info, from_config)? {
        download.fetch(file)?;
    }
    for file in files::shards(&snapshot.folder, from_config)? {
        download.fetch(&file)?;
    }
    snapshot.finish(asked.revision(), commit)?;
    Ok(snapshot.folder)
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
