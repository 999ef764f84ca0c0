//! What a run asks of the hub, and from where it gets that: the hub, or the cache alone.

use super::HubProblem;
use super::cache::{self, Cache};
use super::client::{self, Client, Info};
use super::download::Download;
use super::pin::Pin;
use super::repository::{Kind, Repository};
use crate::control::Context;
use crate::control::fetching;
use crate::error::{RunError, RunResult};

/// A revision of a repository.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) repository: Repository,
    /// `None` for its main branch.
    pub(super) revision: Option<String>,
    /// Of the job file, which names it.
    pub(super) field: &'static str,
}

/// Which files of a repository a run takes.
pub(super) trait Selection: Send + 'static {
    /// What they are to the run.
    type Files: Send + 'static;

    /// The files of a revision, if the cache has all of them.
    fn cached(&self, cache: &Cache, repository: &Repository, revision: &str)
    -> Option<Self::Files>;

    /// Fetches what the snapshot lacks of them.
    fn complete(
        &self,
        cache: &Cache,
        info: &Info,
        download: &Download<'_>,
    ) -> Result<Self::Files, HubProblem>;
}

/// Where the files come from.
enum Origin {
    /// The revision's commit as the cache knows it.
    Cache {
        why: &'static str,
    },
    Hub {
        client: Box<Client>,
        info: Info,
    },
}

impl Asked {
    pub(super) fn error(&self, problem: HubProblem) -> RunError {
        let what = match self.repository.kind {
            Kind::Model => "model",
            Kind::DataSet => "data set",
        };
        let (id, problem) = (self.repository.id.clone(), Box::new(problem));
        RunError::Hub { what, id, field: self.field, problem }
    }

    pub(super) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    pub(super) fn not_cached(&self, caches: &[Cache], why: &'static str) -> RunError {
        self.error(HubProblem::NotCached { cache: caches[0].folder().to_owned(), why })
    }

    /// The files: what the job began with, or what the hub has now.
    pub(super) fn fetch<S: Selection>(
        self,
        selection: S,
        context: &Context,
    ) -> RunResult<S::Files> {
        fetching::unless_stopped(context, move |context| self.fetch_now(&selection, context))?
    }

    fn fetch_now<S: Selection>(mut self, selection: &S, context: &Context) -> RunResult<S::Files> {
        let caches = Cache::all(Some(&context.spec.cache_dir));
        let pin = self.pin(context);
        let found = |asked: &Asked, revision: &str| {
            caches.iter().find_map(|cache| {
                selection.cached(cache, &asked.repository, revision)?;
                // One that is not ours is removed by nobody.
                let _ = context.locks.lock(&cache.repository(&asked.repository));
                selection.cached(cache, &asked.repository, revision)
            })
        };
        match self.origin(context, |asked| found(asked, asked.revision()).is_some())? {
            Origin::Cache { why } => {
                found(&self, self.revision()).ok_or_else(|| self.not_cached(&caches, why))
            }
            Origin::Hub { client, info } => {
                let files = match found(&self, &info.commit) {
                    Some(files) => files,
                    None => self
                        .complete(selection, &client, &info, &caches[0], context)
                        .map_err(|problem| self.error(problem))?,
                };
                pin.write(&info.commit)?;
                Ok(files)
            }
        }
    }

    /// Fetches what the cache lacks of a commit.
    fn complete<S: Selection>(
        &self,
        selection: &S,
        client: &Client,
        info: &Info,
        cache: &Cache,
        context: &Context,
    ) -> Result<S::Files, HubProblem> {
        let (repository, commit) = (&self.repository, info.commit.as_str());
        let snapshot = cache.begin(repository, commit, &context.locks)?;
        let observer = &*fetching::observer(context);
        let download = Download { client, repository, commit, snapshot: &snapshot, observer };
        let files = selection.complete(cache, info, &download)?;
        snapshot.finish(self.revision(), commit)?;
        Ok(files)
    }

    /// Takes what the run began with, where it did. What is to note the commit.
    fn pin(&mut self, context: &Context) -> Pin {
        let pin = Pin::read(&context.run_dir, &self.repository, self.revision.as_deref());
        if let Some(commit) = pin.commit() {
            self.revision = Some(commit.to_owned());
        }
        pin
    }

    /// Asks the hub, unless it is not to be asked or the cache `has` the very commit. The cache
    /// stands in for a hub that cannot be reached.
    fn origin(&self, context: &Context, has: impl Fn(&Asked) -> bool) -> RunResult<Origin> {
        if client::is_offline() {
            return Ok(Origin::Cache { why: "HF_HUB_OFFLINE is set" });
        }
        if self.revision.as_deref().is_some_and(cache::is_commit) && has(self) {
            return Ok(Origin::Cache { why: "it was a moment ago" });
        }
        let client = Client::new().map_err(|problem| self.error(problem))?;
        match client.info(&self.repository, self.revision()) {
            Ok(info) => {
                let (what, commit) = (&self.repository, &info.commit);
                context.journal.info(format!("{} is {what} at {commit}", self.field))?;
                Ok(Origin::Hub { client: Box::new(client), info })
            }
            Err(HubProblem::Unreachable { message }) if has(self) => {
                let what = &self.repository;
                let message = format!("{message}; {what} is taken from the cache as it is there");
                context.journal.warn("HUB_UNREACHABLE", message)?;
                Ok(Origin::Cache { why: "it was a moment ago" })
            }
            Err(problem) => Err(self.error(problem)),
        }
    }
}
