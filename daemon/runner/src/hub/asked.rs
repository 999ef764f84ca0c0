//! What a run asks of the hub, and from where it gets that: the hub, or the cache alone.

use super::HubProblem;
use super::cache::{self, Cache};
use super::client::{self, Client, Info};
use super::pin::Pin;
use super::repository::{Kind, Repository};
use crate::context::Context;
use crate::failure::{RunError, RunResult};

/// A revision of a repository.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) repository: Repository,
    /// `None` for its main branch.
    pub(super) revision: Option<String>,
    /// Of the job file, which names it.
    pub(super) field: &'static str,
}

/// Where the files come from.
pub(super) enum Origin {
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

    /// Takes what the run began with, where it did. What is to note the commit.
    pub(super) fn pin(&mut self, context: &Context) -> Pin {
        let pin = Pin::read(&context.run_dir, &self.repository, self.revision.as_deref());
        if let Some(commit) = pin.commit() {
            self.revision = Some(commit.to_owned());
        }
        pin
    }

    /// Asks the hub, unless it is not to be asked or the cache `has` the very commit. The cache
    /// stands in for a hub that cannot be reached.
    pub(super) fn origin(
        &self,
        context: &Context,
        has: impl Fn(&Asked) -> bool,
    ) -> RunResult<Origin> {
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
