//! `traind restore`.

use std::path::PathBuf;

use anyhow::Context;
use traind_wording::counted;

use super::exit::Exit;
use crate::jobs::backup::restore;
use crate::paths;

/// Restore a backup into an empty state folder, on this host or another
#[derive(clap::Args)]
pub(crate) struct Restore {
    /// The file that `traind backup` wrote
    file: PathBuf,
    /// The new state folder, absent or empty
    /// [default: $TRAIND_STATE_DIR, systemd's state folder, or ~/.local/state/traind]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl Restore {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let state_dir = self.state_dir.or_else(paths::state_dir);
        let state_dir = state_dir.context("no state folder: HOME is not set; set --state-dir")?;
        let manifest = restore(&self.file, &state_dir)?;
        println!("restored {} in {}", counted(manifest.jobs, "job"), state_dir.display());
        let access = state_dir.join("access.yaml");
        if access.exists() {
            println!("the access file is {}: name it with `serve --access`", access.display());
        }
        Ok(Exit::Done)
    }
}
