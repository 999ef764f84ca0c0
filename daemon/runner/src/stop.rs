//! The wish that the run end, from SIGTERM, SIGINT or the service. The
//! training loop looks at it between two steps.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// A cloneable handle; the first reason given is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    reason: Arc<OnceLock<String>>,
}

impl Stop {
    pub(crate) fn request(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
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
                        _ = terminate.recv() => stop.request("SIGTERM"),
                        _ = interrupt.recv() => stop.request("SIGINT"),
                    }
                }
            });
        })?;
        Ok(())
    }
}
