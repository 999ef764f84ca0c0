//! Syncs a file to disk in the background, a bounded time after it was written,
//! so that a training step does not wait for the disk.

use std::fs::File;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that syncs one file. Dropping it syncs what is outstanding.
#[derive(Debug)]
pub(super) struct Syncer {
    requests: Option<SyncSender<()>>,
    failure: Arc<Mutex<Option<io::Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread; `file` is a handle of its own.
    pub(super) fn start(file: File, delay: Duration) -> io::Result<Self> {
        // Room for one request: those made before its sync are served by it.
        let (requests, inbox) = mpsc::sync_channel(1);
        let failure = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&failure);
        let thread = thread::Builder::new()
            .name("event-log-sync".to_owned())
            .spawn(move || sync_on_request(&file, delay, &inbox, &slot))?;
        Ok(Self { requests: Some(requests), failure, thread: Some(thread) })
    }

    /// Asks for a sync within the delay.
    pub(super) fn request(&self) {
        if let Some(requests) = &self.requests {
            // Full: a sync is due already. Closed: `failure` has the error.
            let _ = requests.try_send(());
        }
    }

    /// An error of an earlier sync, once.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and a drop could not report it.
            let _ = thread.join();
        }
    }
}

fn sync_on_request(
    file: &File,
    delay: Duration,
    inbox: &Receiver<()>,
    failure: &Mutex<Option<io::Error>>,
) {
    while inbox.recv().is_ok() {
        // Collects more to sync at once; wakes up early when the writer is dropped.
        // The request stays served: what it asked for is synced below.
        let closing = wait_or_closed(inbox, delay);
        if let Err(error) = file.sync_data() {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        if closing {
            return;
        }
    }
}

/// Waits for `delay`, ignoring further requests. Returns true if the writer was dropped.
fn wait_or_closed(inbox: &Receiver<()>, delay: Duration) -> bool {
    let deadline = std::time::Instant::now() + delay;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        match inbox.recv_timeout(left) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => return false,
            Err(mpsc::RecvTimeoutError::Disconnected) => return true,
        }
    }
}
