//! Requests to stop the run, from a signal or the service. The training loop checks for one
//! between two steps.

use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

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
