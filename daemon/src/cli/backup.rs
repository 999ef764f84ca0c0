//! `traind backup`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use traind_wording::counted;

use super::endings;
use super::exit::Exit;
use super::runner_command::Interrupts;
use crate::jobs::backup::back_up;
use crate::paths;

/// The content of the file.
const BACKUPS: &str = "backups are archives of tar, compressed by zstd";

/// Back up the job store, records and logs to a file, while the daemon runs
#[derive(clap::Args)]
pub(crate) struct Backup {
    /// The new file, a compressed archive that only its owner can read
    file: PathBuf,
    /// The daemon's state folder
    /// [default: $TRAIND_STATE_DIR, systemd's state folder, or ~/.local/state/traind]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The daemon's access file, to back it up too
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,
}

impl Backup {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        endings::refuse_others(&self.file, BACKUPS, &["zst"])?;
        let state_dir = self.state_dir.or_else(paths::state_dir);
        let state_dir = state_dir.context("no state folder: HOME is not set; set --state-dir")?;
        let (mut interrupts, stop) = (Interrupts::watch()?, Arc::new(AtomicBool::new(false)));
        let (file, interrupted) = (self.file.clone(), Arc::clone(&stop));
        let work = move || back_up(&state_dir, self.access.as_deref(), &file, &interrupted);
        let mut work = tokio::task::spawn_blocking(work);
        let manifest = tokio::select! {
            manifest = &mut work => manifest??,
            interrupted = interrupts.next() => {
                stop.store(true, Ordering::Relaxed);
                // It removes the file, unless that is complete.
                let _ = work.await;
                return Err(interrupted.into());
            }
        };
        println!("backed up {} to {}", counted(manifest.jobs, "job"), self.file.display());
        Ok(Exit::Done)
    }
}
