//! Requests to stop the run, from a signal or the service. The training loop checks for one
//! between two steps.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use traind_loader::Error as LoaderError;

use crate::error::{RunError, RunResult};

/// The time between two checks for a stop request.
const POLL_EVERY: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// SIGINT: the job was cancelled.
    Cancelled,
    /// SIGTERM: the runner must exit and the job resumes later, so a checkpoint is worth its time.
    Interrupted,
}

/// A cloneable handle that keeps the first reason it is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    reason: Arc<OnceLock<StopReason>>,
}

impl Stop {
    pub(crate) fn request(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
    }

    /// The reason to stop, once there is one.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }

    /// Runs `work` on a thread of its own. If it does not end within `patience` after a stop request, it is
    /// abandoned, and continues until the process ends.
    pub(crate) fn abandon<T: Send + 'static>(
        &self,
        name: &str,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> RunResult<T> {
        let (sender, receiver) = sync_channel(1);
        let work = move || {
            // The receiver is gone once the work was abandoned.
            let _ = sender.send(work());
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(work).map_err(RunError::Thread)?;
        let mut asked = None;
        loop {
            match receiver.recv_timeout(POLL_EVERY) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) if self.reason().is_some() => {
                    if asked.get_or_insert_with(Instant::now).elapsed() >= patience {
                        return Err(LoaderError::Abandoned.into());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RunError::Panicked(format!("the thread {name:?} ended")));
                }
            }
        }
    }

    /// Turns SIGTERM and SIGINT into requests, on a thread of its own.
    pub(crate) fn on_signals(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut terminate, mut interrupt) = {
            let _entered = runtime.enter();
            let terminate = signal(SignalKind::terminate()).context("watch for SIGTERM")?;
            (terminate, signal(SignalKind::interrupt()).context("watch for SIGINT")?)
        };
        let stop = self.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async move {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => stop.request(StopReason::Interrupted),
                        _ = interrupt.recv() => stop.request(StopReason::Cancelled),
                    }
                }
            });
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn work_is_abandoned_when_its_patience_after_a_request_ends() {
        let (_keeps, blocked) = channel::<()>();
        let stop = Stop::default();
        assert_eq!(stop.abandon("work", Duration::ZERO, || 7).unwrap(), 7);
        stop.request(StopReason::Interrupted);
        let error = stop.abandon("work", Duration::ZERO, move || blocked.recv()).unwrap_err();
        assert!(matches!(error, RunError::Data(LoaderError::Abandoned)), "{error}");
        assert_eq!(stop.abandon("work", LONG, || 7).unwrap(), 7);
    }
}
