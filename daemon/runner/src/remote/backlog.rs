//! The uploads that a thread has yet to make, and how the thread is to end.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use traind_loader::panic_message;

use crate::error::{RunError, RunResult};

/// A queue that training fills and a thread empties.
#[derive(Debug, Default)]
pub(super) struct Backlog<Q> {
    state: Mutex<State<Q>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State<Q> {
    queue: Q,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing more will be added.
    Finish,
    /// Nothing more is to be uploaded.
    Abandon,
}

impl<Q> Backlog<Q> {
    /// Reads or changes the queue, and wakes the thread.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Q) -> T) -> T {
        let done = change(&mut self.state().queue);
        self.changed.notify_all();
        done
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.state().ending
    }

    /// Waits until `take` finds something in the queue; `None` once there will be nothing.
    pub(super) fn next<T>(&self, take: impl Fn(&mut Q) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        loop {
            if state.ending == Some(Ending::Abandon) {
                return None;
            }
            if let Some(found) = take(&mut state.queue) {
                return Some(found);
            }
            if state.ending.is_some() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread, unless that was done before, and returns its result.
    pub(super) fn end(
        &self,
        ending: Ending,
        thread: Option<JoinHandle<RunResult<()>>>,
    ) -> RunResult<()> {
        self.state().ending = Some(ending);
        self.changed.notify_all();
        let Some(thread) = thread else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| Err(RunError::Panicked(panic_message(panic.as_ref()))))
    }

    fn state(&self) -> MutexGuard<'_, State<Q>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
