//! The end of the daemon that asked for an answer.

use std::io::{self, Read};

use anyhow::Context as _;
use rustix::process::{Signal, getpid, kill_process};

use crate::session::end_compilers;

/// Kills this process when the daemon closes standard input. A process must not exit by itself while its
/// plugin compiles.
pub(crate) fn end_with_daemon() -> anyhow::Result<()> {
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
