//! Commits files to a model's repository.
//!
//! The hub decides for each file whether its content is a part of the commit, or is uploaded to the hub's
//! storage first. A commit is complete or absent, and one that broke off is continued: files that the
//! storage has, and parts of a file that it has, are not sent again.

mod batch;
mod commit;
mod content;
mod file;
mod requests;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::client::{self, Client};
use super::{Error, Problem, Repository, Result};

pub use commit::Commit;
pub use file::CommitFile;

/// The time between two looks at the caller's [`Keep`].
const LOOK: Duration = Duration::from_millis(50);
const MAIN: &str = "main";

/// Returns false once a call is to end early.
pub type Keep<'a> = &'a (dyn Fn() -> bool + Sync);

/// A branch of a repository that files are committed to.
#[derive(Clone, Debug)]
pub struct Publisher {
    client: Arc<Client>,
    repository: Repository,
    branch: String,
}

impl Publisher {
    /// Names the branch. A repository without a namespace is that of the token's account, which the hub
    /// is asked for.
    pub fn open(id: &str, branch: Option<&str>, keep: Keep<'_>) -> Result<Self> {
        let repository = Repository::model(id);
        let open = || {
            if client::is_offline() {
                return Err(Problem::Offline);
            }
            let client = Arc::new(Client::new()?);
            if !client.has_token() {
                return Err(Problem::NoToken);
            }
            let asked = Arc::clone(&client);
            let id = match id.contains('/') {
                true => id.to_owned(),
                false => format!("{}/{id}", unless_abandoned(keep, move || asked.account())?),
            };
            let branch = branch.unwrap_or(MAIN).to_owned();
            Ok(Self { client, repository: Repository::model(&id), branch })
        };
        open().map_err(|problem| Error { repository, problem: Box::new(problem) })
    }

    /// The repository with its account.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Creates the repository and the branch, unless the hub has them. Without `is_private` the account's
    /// settings decide who may see a new repository.
    pub fn create(&self, is_private: Option<bool>, keep: Keep<'_>) -> Result<()> {
        let publisher = self.clone();
        let create = move || {
            let Self { client, repository, branch } = &publisher;
            client.create_repository(repository, is_private)?;
            match client.revision(repository, branch) {
                Err(Problem::NoRevision { .. }) => client.create_branch(repository, branch),
                found => found.map(drop),
            }
        };
        unless_abandoned(keep, create).map_err(|problem| self.error(problem))
    }

    /// Sends what the hub lacks of a commit. Returns the address of the commit, or `None` if the branch has
    /// all of its files. After an error, the same commit continues.
    pub fn send(&self, commit: &Arc<Commit>, keep: Keep<'_>) -> Result<Option<String>> {
        let (publisher, work) = (self.clone(), Arc::clone(commit));
        let sent = unless_abandoned(keep, move || {
            let Self { client, repository, branch } = &publisher;
            work.send(client, repository, branch)
        });
        sent.map_err(|problem| {
            if matches!(problem, Problem::Abandoned) {
                commit.abandon();
            }
            self.error(problem)
        })
    }

    fn error(&self, problem: Problem) -> Error {
        Error { repository: self.repository.clone(), problem: Box::new(problem) }
    }
}

/// Runs `work` on a thread of its own, which is left to itself once the caller no longer keeps to it.
fn unless_abandoned<T: Send + 'static>(
    keep: Keep<'_>,
    work: impl FnOnce() -> std::result::Result<T, Problem> + Send + 'static,
) -> std::result::Result<T, Problem> {
    let (sender, receiver) = sync_channel(1);
    let work = move || {
        // The receiver is gone once the work was abandoned.
        let _ = sender.send(work());
    };
    let thread = std::thread::Builder::new().name("hub".to_owned()).spawn(work);
    thread.map_err(|error| Problem::Unreachable { message: format!("start a thread: {error}") })?;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) if keep() => {}
            Err(RecvTimeoutError::Timeout) => return Err(Problem::Abandoned),
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the thread that uploads ended".to_owned();
                return Err(Problem::Unreachable { message });
            }
        }
    }
}
