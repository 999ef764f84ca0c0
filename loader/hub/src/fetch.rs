//! Fetches a repository for a run: from the cache, or from the hub into the cache.

use std::path::PathBuf;
use std::sync::Arc;

use traind_cache::{DownloadObserver, EntryLocks};

use super::cache::{self, Cache};
use super::client::{self, Client, Revision};
use super::download::{Download, Patience};
use super::pin::Pin;
use super::{Error, Problem, Repository, Result};

const OFFLINE: &str = "HF_HUB_OFFLINE is set";
const REMOVED: &str = "it was removed while the run began to read it";

/// The hub and its cache, as one run uses them.
#[derive(Clone, Debug)]
pub struct Hub {
    /// The daemon's cache folder.
    pub cache_dir: PathBuf,
    /// Holds the pinned commits.
    pub run_dir: PathBuf,
    /// Locks the entries that the run reads.
    pub locks: EntryLocks,
    pub observer: Arc<dyn DownloadObserver>,
}

/// The origin of a repository's files.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// The requested revision is this commit.
    Resolved { repository: &'a Repository, commit: &'a str },
    /// The hub cannot be reached, and the cache has the files.
    Unreachable { repository: &'a Repository, message: &'a str },
}

impl Hub {
    pub(crate) fn fetch<S: Selection>(
        &self,
        mut target: Target,
        selection: &S,
        notify: &dyn Fn(Notice<'_>),
    ) -> Result<S::Files> {
        let caches = Cache::all(Some(&self.cache_dir));
        let pin = Pin::read(&self.run_dir, &target.repository, target.revision.as_deref());
        if let Some(commit) = pin.commit() {
            target.revision = Some(commit.to_owned());
        }
        let cached = |revision: &str| {
            caches.iter().find_map(|cache| {
                selection.cached(cache, &target.repository, revision)?;
                // Another user's cache cannot be locked, and is not evicted from either.
                let _ = self.locks.lock(&cache.repository(&target.repository));
                selection.cached(cache, &target.repository, revision)
            })
        };
        match target.origin(notify, || cached(target.revision()).is_some())? {
            Origin::Cache { reason } => {
                cached(target.revision()).ok_or_else(|| target.not_cached(&caches, reason))
            }
            Origin::Hub { client, revision } => {
                let files = match cached(&revision.commit) {
                    Some(files) => Ok(files),
                    None => self.download(&target, selection, &client, &revision, &caches[0]),
                };
                let files = files.map_err(|problem| target.error(problem))?;
                pin.write(&revision.commit).map_err(|problem| target.error(problem))?;
                Ok(files)
            }
        }
    }

    /// Downloads the files of a commit that the cache lacks.
    fn download<S: Selection>(
        &self,
        target: &Target,
        selection: &S,
        client: &Client,
        revision: &Revision,
        cache: &Cache,
    ) -> std::result::Result<S::Files, Problem> {
        let (repository, commit) = (&target.repository, revision.commit.as_str());
        let snapshot = cache.begin(repository, commit, &self.locks)?;
        let observer = self.observer.as_ref();
        let (snapshot, patience) = (&snapshot, Patience::default());
        let download = Download { client, repository, commit, snapshot, observer, patience };
        let files = selection.complete(cache, revision, &download)?;
        snapshot.set_reference(target.revision(), commit)?;
        Ok(files)
    }
}

/// A revision of a repository.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) repository: Repository,
    /// `None` for the main branch.
    pub(crate) revision: Option<String>,
}

/// The files of a repository that a run needs.
pub(crate) trait Selection {
    type Files;

    /// Returns the files of a revision where the cache has all of them.
    fn cached(&self, cache: &Cache, repository: &Repository, revision: &str)
    -> Option<Self::Files>;

    /// Downloads those that the snapshot lacks.
    fn complete(
        &self,
        cache: &Cache,
        revision: &Revision,
        download: &Download<'_>,
    ) -> std::result::Result<Self::Files, Problem>;
}

enum Origin {
    /// The cache, at the commit that it has for the revision.
    Cache {
        /// Why the hub is not asked.
        reason: &'static str,
    },
    Hub {
        client: Box<Client>,
        revision: Revision,
    },
}

impl Target {
    pub(crate) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    pub(crate) fn error(&self, problem: Problem) -> Error {
        Error { repository: self.repository.clone(), problem: Box::new(problem) }
    }

    pub(crate) fn not_cached(&self, caches: &[Cache], reason: &'static str) -> Error {
        self.error(Problem::NotCached { cache: caches[0].folder().to_owned(), reason })
    }

    /// Asks the hub for the revision, unless it is offline or the very commit `is_cached`. The
    /// cache also replaces a hub that cannot be reached.
    fn origin(&self, notify: &dyn Fn(Notice<'_>), is_cached: impl Fn() -> bool) -> Result<Origin> {
        if client::is_offline() {
            return Ok(Origin::Cache { reason: OFFLINE });
        }
        if self.revision.as_deref().is_some_and(cache::is_commit) && is_cached() {
            return Ok(Origin::Cache { reason: REMOVED });
        }
        let client = Client::new().map_err(|problem| self.error(problem))?;
        let repository = &self.repository;
        match client.revision(repository, self.revision()) {
            Ok(revision) => {
                notify(Notice::Resolved { repository, commit: &revision.commit });
                Ok(Origin::Hub { client: Box::new(client), revision })
            }
            Err(Problem::Unreachable { message }) if is_cached() => {
                notify(Notice::Unreachable { repository, message: &message });
                Ok(Origin::Cache { reason: REMOVED })
            }
            Err(problem) => Err(self.error(problem)),
        }
    }
}
