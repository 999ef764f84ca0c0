//! The lease of a location: an object that names who writes there.
//!
//! The holder renews it, so a lease that stays the same for a while belongs to nobody any longer. Nobody's clock is
//! read: a program that wants the location watches the object.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Bucket, Keep, Problem, Result};

/// The most bytes of a lease.
const BYTES_MAX: u64 = 64 << 10;
/// The time for which the end of a lease waits for the server.
const RELEASE: Duration = Duration::from_secs(10);

/// The times of a lease.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The interval between renewals.
    pub renewal: Duration,
    /// The time after which a lease that was not renewed is free; several renewals.
    pub patience: Duration,
}

/// A location that is leased until this is dropped.
#[derive(Debug)]
pub struct Lease {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The outcome of asking for a lease.
#[derive(Debug)]
pub enum Taken {
    /// The caller holds it.
    Held(Lease),
    /// Another holder renews it; this is its line.
    By(String),
}

impl Lease {
    /// Leases the location of `bucket` by the object `name`. `holder` is a line that describes the caller. A lease
    /// whose line `is_own` accepts is taken over at once: it is one of an earlier attempt of the same job.
    pub fn take(
        bucket: Bucket,
        name: &str,
        holder: &str,
        is_own: impl Fn(&str) -> bool,
        timing: Timing,
        keep: Keep<'_>,
    ) -> Result<Taken> {
        loop {
            let Some(found) = bucket.read(name, BYTES_MAX, keep)? else {
                if bucket.create(name, text(holder, 0), keep)? {
                    break;
                }
                continue;
            };
            if is_own(line(&found)) {
                bucket.write(name, text(holder, 0), keep)?;
                break;
            }
            if is_renewed(&bucket, name, &found, timing, keep)? {
                return Ok(Taken::By(line(&found).to_owned()));
            }
            bucket.remove(name, keep)?;
        }
        Ok(Taken::Held(Lease::start(bucket, name.to_owned(), holder.to_owned(), timing)?))
    }

    fn start(bucket: Bucket, name: String, holder: String, timing: Timing) -> Result<Lease> {
        let (end, ended) = mpsc::channel();
        let url = bucket.location().url(&name);
        let renew = move || {
            for renewal in 1.. {
                if ended.recv_timeout(timing.renewal) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                let start = Instant::now();
                let keep = || start.elapsed() < timing.patience;
                // A server that does not answer now may do so at the next renewal.
                match is_held(&bucket, &name, &holder, &keep) {
                    Ok(true) => drop(bucket.write(&name, text(&holder, renewal), &keep)),
                    // The next upload finds the record of another job.
                    Ok(false) => return,
                    Err(_) => {}
                }
            }
            let start = Instant::now();
            let keep = || start.elapsed() < RELEASE;
            // Where this fails, the lease ends by itself.
            if matches!(is_held(&bucket, &name, &holder, &keep), Ok(true)) {
                drop(bucket.remove(&name, &keep));
            }
        };
        let thread = std::thread::Builder::new().name("lease".to_owned()).spawn(renew);
        let thread = thread.map_err(|error| {
            let problem = Problem::Failed { action: "start a thread", message: error.to_string() };
            super::Error { url, problem: Box::new(problem) }
        })?;
        Ok(Lease { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether nobody else has taken the lease.
fn is_held(bucket: &Bucket, name: &str, holder: &str, keep: Keep<'_>) -> Result<bool> {
    let found = bucket.read(name, BYTES_MAX, keep)?;
    Ok(found.is_none_or(|found| line(&found) == holder))
}

/// Watches a lease until it changes, or has not changed for long enough.
fn is_renewed(
    bucket: &Bucket,
    name: &str,
    found: &[u8],
    timing: Timing,
    keep: Keep<'_>,
) -> Result<bool> {
    let start = Instant::now();
    while start.elapsed() < timing.patience {
        let pause = Instant::now();
        while pause.elapsed() < timing.renewal / 2 && keep() {
            std::thread::sleep(Duration::from_millis(50).min(timing.renewal / 4));
        }
        match bucket.read(name, BYTES_MAX, keep)? {
            Some(now) if now == found => {}
            now => return Ok(now.is_some()),
        }
    }
    Ok(false)
}

/// The content of a lease: its holder's line, and a number that changes with each renewal.
fn text(holder: &str, renewal: u64) -> Vec<u8> {
    format!("{holder}\n{renewal}\n").into_bytes()
}

/// The line of the holder; empty for something else.
fn line(content: &[u8]) -> &str {
    std::str::from_utf8(content).unwrap_or_default().lines().next().unwrap_or_default()
}
