//! Training rows that are tokenized while a run trains on its first ones.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rayon::ThreadPoolBuilder;
use traind_loader::{OpenSet, TextTokenizer, TokenizedSet, panic_message};

use super::tokenize::Tokenizing;
use crate::error::{RunError, RunResult};
use crate::reporting::StepGates;
use crate::session::priority;

/// The training rows, all of which are still to be tokenized.
pub(crate) struct LaterRows {
    pub(super) tokenizing: Tokenizing,
    pub(super) gates: StepGates,
    pub(super) open: OpenSet,
    pub(super) tokenizer: Arc<dyn TextTokenizer>,
    /// The same rows, of which those to begin with have tokens.
    pub(super) first: Arc<TokenizedSet>,
}

/// Abandons the tokenizing when it is dropped.
#[derive(Debug)]
pub(crate) struct Abandon {
    abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Waits for the whole set.
#[derive(Debug)]
pub(crate) struct Awaited {
    first: Arc<TokenizedSet>,
    whole: Receiver<RunResult<Arc<TokenizedSet>>>,
}

impl LaterRows {
    /// Starts to tokenize them on a thread. Returns the set to wait for, and what ends the tokenizing.
    pub(crate) fn start(self) -> RunResult<(Awaited, Abandon)> {
        let LaterRows { tokenizing, gates, open, tokenizer, first } = self;
        let abandoned = Arc::new(AtomicBool::new(false));
        let (sender, whole) = sync_channel(1);
        let is_abandoned = Arc::clone(&abandoned);
        let work = move || {
            gates.wait_for_later_rows(&tokenizing.stop);
            let prepare = || tokenize(&tokenizing, open, tokenizer.as_ref(), &is_abandoned);
            send(&sender, catch_unwind(AssertUnwindSafe(prepare)));
        };
        let thread = std::thread::Builder::new().name("tokenize".to_owned());
        let thread = Some(thread.spawn(work).map_err(RunError::Thread)?);
        Ok((Awaited { first, whole }, Abandon { abandoned, thread }))
    }
}

impl fmt::Debug for LaterRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LaterRows").field("first", &self.first).finish_non_exhaustive()
    }
}

impl Awaited {
    /// Returns the whole set once it is tokenized.
    pub(crate) fn wait(self) -> RunResult<Arc<TokenizedSet>> {
        let ended = |_| RunError::Panicked("the thread that tokenizes ended".to_owned());
        let whole = self.whole.recv().map_err(ended)??;
        match whole.continues(&self.first) {
            true => Ok(whole),
            // Files do not change, or tokenizing has failed already.
            false => Err(RunError::Panicked("the first rows differ from the whole set".to_owned())),
        }
    }
}

impl Drop for Abandon {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was caught inside and has been sent.
            let _ = thread.join();
        }
    }
}

/// Tokenizes on a pool of its own, at a low priority: neither batches nor steps must wait for all rows.
fn tokenize(
    tokenizing: &Tokenizing,
    open: OpenSet,
    tokenizer: &dyn TextTokenizer,
    abandoned: &AtomicBool,
) -> RunResult<Arc<TokenizedSet>> {
    priority::lower(priority::BEHIND_STEPS);
    let pool = ThreadPoolBuilder::new().thread_name(|index| format!("tokenize-{index}"));
    let pool = pool.build();
    let pool = pool.map_err(|error| RunError::Thread(std::io::Error::other(error)))?;
    pool.install(|| {
        let is_wanted = || !abandoned.load(Ordering::Relaxed);
        let prepared = tokenizing.prepare(open, tokenizer, is_wanted)?;
        tokenizing.report(&prepared.set, &prepared)?;
        Ok(prepared.set)
    })
}

fn send(
    sender: &SyncSender<RunResult<Arc<TokenizedSet>>>,
    outcome: std::thread::Result<RunResult<Arc<TokenizedSet>>>,
) {
    let outcome =
        outcome.unwrap_or_else(|panic| Err(RunError::Panicked(panic_message(panic.as_ref()))));
    // The receiver is gone where the run has ended.
    let _ = sender.send(outcome);
}
