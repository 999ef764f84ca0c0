//! The thread that commits checkpoints and the trained model to the hub while training continues.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use traind_hub::{Commit, Error as HubError, Problem, Publisher};
use traind_loader::Error as LoaderError;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{SavedKind, Uploaded};

use super::Remote;
use super::backlog::{Backlog, Ending};
use super::patience::{Urgency, persist};
use super::pushes::{self, PushRule};
use crate::error::{RunError, RunResult};
use crate::reporting::{Journal, Stop};

/// A handle to the thread. Dropping the last one abandons what is not committed.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    rule: PushRule,
    shared: Arc<Shared>,
    thread: Arc<Thread>,
}

#[derive(Debug)]
struct Shared {
    backlog: Backlog<Pushes>,
    journal: Journal,
    stop: Stop,
}

#[derive(Debug, Default)]
struct Pushes {
    waiting: VecDeque<Push>,
    is_busy: bool,
}

/// A commit to make.
#[derive(Debug)]
struct Push {
    commit: Arc<Commit>,
    kind: SavedKind,
    step: u64,
}

#[derive(Debug)]
struct Thread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<RunResult<()>>>>,
}

impl Remote {
    /// Creates the repository of the hub, where the job has one, and starts the thread.
    pub(crate) fn publish(&self) -> RunResult<Option<Publication>> {
        let Some(rule) = self.pushes.clone() else { return Ok(None) };
        let keep = || self.keeps();
        let publisher =
            Publisher::open(&rule.id, rule.branch.as_deref(), &keep).map_err(run_error)?;
        publisher.create(rule.is_private, &keep).map_err(run_error)?;
        self.journal
            .info(format!("checkpoints and the model belong to {}", publisher.repository()))?;
        let (journal, stop) = (self.journal.clone(), self.stop.clone());
        let shared = Arc::new(Shared { backlog: Backlog::default(), journal, stop });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("pushes".to_owned());
        let thread = thread.spawn(move || worker.run(&publisher)).map_err(RunError::Thread)?;
        let handle = Mutex::new(Some(thread));
        let thread = Arc::new(Thread { shared: Arc::clone(&shared), handle });
        Ok(Some(Publication { rule, shared, thread }))
    }
}

impl Publication {
    /// Commits a checkpoint that was written, if the job asks for it.
    pub(crate) fn add(&self, folder: &Path, step: u64, epoch: f64) -> RunResult<()> {
        if !self.rule.has_checkpoints() {
            return Ok(());
        }
        if !self.rule.always && self.shared.backlog.with(|pushes| pushes.is_pushing()) {
            let message = format!(
                "checkpoint-{step} is not committed to the hub, since another one is still being \
                 uploaded; hub_always_push commits all"
            );
            return Ok(self.shared.journal.info(message)?);
        }
        let commits = self.rule.checkpoint(folder, step, epoch)?;
        commits.into_iter().for_each(|commit| self.push(commit, SavedKind::Checkpoint, step));
        Ok(())
    }

    /// Commits the output folder, which is complete, and waits until the hub has everything.
    pub(crate) fn finish(&self, folder: &Path, step: u64) -> RunResult<()> {
        self.push(pushes::output(folder)?, SavedKind::Final, step);
        self.thread.end(Ending::Finish)
    }

    fn push(&self, commit: Commit, kind: SavedKind, step: u64) {
        let push = Push { commit: Arc::new(commit), kind, step };
        self.shared.backlog.with(|pushes| pushes.waiting.push_back(push));
    }
}

impl Pushes {
    fn is_pushing(&self) -> bool {
        self.is_busy || !self.waiting.is_empty()
    }

    /// Takes the next commit to make.
    fn begin(&mut self) -> Option<Push> {
        let push = self.waiting.pop_front();
        self.is_busy |= push.is_some();
        push
    }

    /// Notes that the commit under way has ended.
    fn end(&mut self) {
        self.is_busy = false;
    }
}

impl Thread {
    fn end(&self, ending: Ending) -> RunResult<()> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.backlog.end(ending, handle)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // The run ends otherwise.
        let _ = self.end(Ending::Abandon);
    }
}

impl Shared {
    fn run(&self, publisher: &Publisher) -> RunResult<()> {
        while let Some(push) = self.backlog.next(Pushes::begin) {
            match self.send(publisher, &push) {
                Err(RunError::Data(LoaderError::Abandoned)) => return Ok(()),
                sent => sent?,
            }
            self.backlog.with(Pushes::end);
        }
        Ok(())
    }

    fn send(&self, publisher: &Publisher, push: &Push) -> RunResult<()> {
        let start = Instant::now();
        let urgency = || self.urgency();
        let keep = || self.urgency() != Urgency::Abandoned;
        let sent = persist(&self.journal, &urgency, || publisher.send(&push.commit, &keep))
            .map_err(run_error)?;
        let Some(url) = sent else {
            let message = format!("{} has the files of step {}", publisher.repository(), push.step);
            return Ok(self.journal.info(message)?);
        };
        Ok(self.journal.record(Kind::Uploaded(Uploaded {
            url,
            kind: push.kind.into(),
            step: push.step,
            bytes: push.commit.bytes(),
            seconds: start.elapsed().as_secs_f64(),
        }))?)
    }

    fn urgency(&self) -> Urgency {
        match (self.backlog.ending(), self.stop.reason()) {
            (Some(Ending::Abandon), _) => Urgency::Abandoned,
            // The next attempt commits what it resumes from.
            (Some(Ending::Finish), Some(_)) => Urgency::Abandoned,
            (Some(Ending::Finish), None) => Urgency::Last,
            (None, _) => Urgency::None,
        }
    }
}

fn run_error(source: HubError) -> RunError {
    match *source.problem {
        Problem::Abandoned => LoaderError::Abandoned.into(),
        _ => RunError::Publish { source },
    }
}
