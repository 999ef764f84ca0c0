//! Models by hub id: from the Hugging Face cache if it has them, else from the hub.
//!
//! What is fetched lies in the cache as `huggingface_hub` lays it out, so that either finds what
//! the other fetched. A run remembers the commit that it began with: when it goes on after a
//! restart, the model is the same one, whatever became of the branch. Only settings, tokenizer
//! and safetensors are fetched; pickle files can run code when they are read.

mod cache;
mod client;
mod download;
mod files;
mod pin;

use std::path::PathBuf;

use traind_job_file::Model as ModelSection;

use crate::context::Context;
use crate::failure::{RunError, RunResult};
use cache::Cache;
use client::{Client, Info};
use pin::Pin;

/// Why there is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HubProblem {
    #[error(
        "the hub shows no such model; a private one takes HF_TOKEN in the daemon's environment, \
         and a folder begins with / or ./"
    )]
    NotFound,
    #[error("it has no revision {revision:?}")]
    NoRevision { revision: String },
    #[error(
        "its owner grants access one by one: ask for it on the hub, and set HF_TOKEN in the \
         daemon's environment"
    )]
    Gated,
    #[error("the hub does not accept the token in HF_TOKEN")]
    BadToken,
    #[error("it has no {file}")]
    NoFile { file: &'static str },
    #[error(
        "its weights are pickle files alone, which can run code when they are read; save it again \
         as safetensors"
    )]
    PickleOnly,
    #[error("{file} came otherwise than the hub says it is")]
    Corrupt { file: String },
    #[error("it is not in the cache {}, and {why}", .cache.display())]
    NotCached { cache: PathBuf, why: &'static str },
    #[error("the hub cannot be reached: {message}")]
    Unreachable { message: String },
    #[error("the hub answered with {status} to the request for {what}")]
    Refused { status: u16, what: String },
    #[error("the disk of {} has {available} bytes left, {file} has {bytes}", .cache.display())]
    DiskFull { cache: PathBuf, file: String, bytes: u64, available: u64 },
    #[error("{action} {}: {message}", .path.display())]
    Io { action: &'static str, path: PathBuf, message: String },
}

/// The folder of the model's files. With a `context` they may be fetched.
pub(crate) fn snapshot(
    section: &ModelSection,
    id: &str,
    context: Option<&Context>,
) -> RunResult<PathBuf> {
    let found = match context {
        Some(context) => fetched(section, id, context)?,
        None => cached(section, id, &Cache::all(None), "a plan fetches nothing"),
    };
    found.map_err(|problem| RunError::Hub { id: id.to_owned(), problem: Box::new(problem) })
}

fn cached(
    section: &ModelSection,
    id: &str,
    caches: &[Cache],
    why: &'static str,
) -> Result<PathBuf, HubProblem> {
    let wanted = section.revision.as_deref().unwrap_or("main");
    let complete = |cache: &Cache| cache.snapshot(id, wanted, section.from_config);
    let missing = || HubProblem::NotCached { cache: caches[0].folder().to_owned(), why };
    caches.iter().find_map(complete).ok_or_else(missing)
}

/// What the job began with, or what the hub has now.
fn fetched(
    section: &ModelSection,
    id: &str,
    context: &Context,
) -> RunResult<Result<PathBuf, HubProblem>> {
    let caches = Cache::all(Some(&context.spec.cache_dir));
    let pin = Pin::read(&context.run_dir, id, section.revision.as_deref());
    let pinned = pin.commit().map(str::to_owned);
    let section =
        &ModelSection { revision: pinned.or(section.revision.clone()), ..section.clone() };
    if client::is_offline() {
        return Ok(cached(section, id, &caches, "HF_HUB_OFFLINE is set"));
    }
    if section.revision.as_deref().is_some_and(cache::is_commit)
        && let Ok(folder) = cached(section, id, &caches, "")
    {
        return Ok(Ok(folder));
    }
    let client = match Client::new() {
        Ok(client) => client,
        Err(problem) => return Ok(Err(problem)),
    };
    let info = match client.info(id, section.revision.as_deref().unwrap_or("main")) {
        Ok(info) => info,
        Err(HubProblem::Unreachable { message }) => {
            let Ok(folder) = cached(section, id, &caches, "") else {
                return Ok(Err(HubProblem::Unreachable { message }));
            };
            let message = format!("{message}; {id} is taken from the cache as it is there");
            context.journal.warn("HUB_UNREACHABLE", message)?;
            return Ok(Ok(folder));
        }
        Err(problem) => return Ok(Err(problem)),
    };
    context.journal.info(format!("the model is {id} at {}", info.commit))?;
    let folder = complete(section, id, &client, &info, &caches);
    if folder.is_ok() {
        pin.write(&info.commit)?;
    }
    Ok(folder)
}

/// Fetches what the caches lack of a commit.
fn complete(
    section: &ModelSection,
    id: &str,
    client: &Client,
    info: &Info,
    caches: &[Cache],
) -> Result<PathBuf, HubProblem> {
    let whole = |cache: &Cache| cache.snapshot(id, &info.commit, section.from_config);
    if let Some(folder) = caches.iter().find_map(whole) {
        return Ok(folder);
    }
    let snapshot = caches[0].begin(id, &info.commit)?;
    for file in files::first(info, section.from_config)? {
        download::fetch(client, id, info, file, &snapshot)?;
    }
    for file in files::shards(&snapshot.folder, section.from_config)? {
        download::fetch(client, id, info, &file, &snapshot)?;
    }
    snapshot.finish(section.revision.as_deref().unwrap_or("main"), &info.commit)?;
    Ok(snapshot.folder)
}
