//! The wish that the run end, from a signal or the service. The training loop
//! looks at it between two steps.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Why the run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The job is not wanted any more. SIGINT.
    Cancelled,
    /// The runner has to leave and the job is to go on later: a checkpoint is
    /// worth its time. SIGTERM, as a machine tells all its processes.
    Interrupted,
}

/// A cloneable handle; the first reason given is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    reason: Arc<OnceLock<StopReason>>,
}

impl Stop {
    pub(crate) fn request(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }

    /// Makes SIGTERM and SIGINT requests to stop, from a thread of its own.
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
