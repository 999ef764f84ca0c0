//! Requests that end with the daemon that makes them.

use std::io::{self, BufRead, Read};

use anyhow::Context as _;
use rustix::process::{Signal, getpid, kill_process};
use serde::de::DeserializeOwned;

use crate::session::end_compilers;

/// Reads a line of JSON from standard input, and from then on ends this process with the daemon.
pub(crate) fn read_request<T: DeserializeOwned>() -> anyhow::Result<T> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("read the request")?;
    let request = serde_json::from_str(&line).context("parse the request")?;
    end_with_daemon()?;
    Ok(request)
}

/// Kills this process when the daemon closes standard input. A process must not exit by itself while its
/// plugin compiles.
fn end_with_daemon() -> anyhow::Result<()> {
    let watch = || {
        let _ = io::stdin().lock().read(&mut [0]);
        end_compilers();
        let _ = kill_process(getpid(), Signal::KILL);
    };
    std::thread::Builder::new()
        .name("daemon".to_owned())
        .spawn(watch)
        .context("watch the daemon")?;
    Ok(())
}
