//! `traind doctor`: diagnoses a daemon that refuses to start.

use std::path::PathBuf;

use anyhow::Context;

use super::Global;
use super::exit::Exit;
use crate::jobs::doctor::{self, StoppedState};
use crate::paths;

/// Check the job store of a stopped daemon, or rebuild it from the job folders
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// The daemon's state folder
    /// [default: $TRAIND_STATE_DIR, systemd's state folder, or ~/.local/state/traind]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Rebuild the store and keep the old one beside it. Tokens must be created again
    #[arg(long)]
    rebuild: bool,
}

impl Doctor {
    pub(crate) async fn run(self, _: Global) -> anyhow::Result<Exit> {
        let state_dir = self.state_dir.or_else(paths::state_dir);
        let state_dir = state_dir.context("no state folder: HOME is not set; set --state-dir")?;
        let state = StoppedState::lock(&state_dir)?;
        if self.rebuild { rebuild(&state) } else { check(&state) }
    }
}

fn check(state: &StoppedState) -> anyhow::Result<Exit> {
    let problems = state.check()?;
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("{} is sound", state.store_path().display());
        return Ok(Exit::Done);
    }
    println!("`traind doctor --rebuild` rebuilds it from the job folders");
    Ok(Exit::Failed)
}

fn rebuild(state: &StoppedState) -> anyhow::Result<Exit> {
    let rebuilt = doctor::rebuild(state)?;
    println!("restored {} jobs in {}", rebuilt.jobs, state.store_path().display());
    if let Some(kept) = &rebuilt.kept {
        println!("kept the old store as {}", kept.display());
    }
    for (id, why) in &rebuilt.lost {
        println!("job {id} could not be restored: {why}");
    }
    Ok(if rebuilt.lost.is_empty() { Exit::Done } else { Exit::Failed })
}
