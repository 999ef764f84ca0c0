//! `traind doctor`: for a daemon that refuses to start.

use std::path::PathBuf;

use anyhow::Context;

use super::Global;
use super::exit::Exit;
use crate::jobs::doctor::{self, Patient};
use crate::paths;

/// Examine the job store of a stopped daemon, or make it anew from the job folders
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// The daemon's state folder
    /// [default: $TRAIND_STATE_DIR, systemd's state folder, or ~/.local/state/traind]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Make the store anew, and keep the old one beside it. Tokens have to be made again
    #[arg(long)]
    rebuild: bool,
}

impl Doctor {
    pub(crate) async fn run(self, _: Global) -> anyhow::Result<Exit> {
        let state_dir = self.state_dir.or_else(paths::state_dir);
        let state_dir = state_dir.context("no state folder: HOME is not set; give --state-dir")?;
        let patient = Patient::admit(&state_dir)?;
        if self.rebuild { rebuild(&patient) } else { examine(&patient) }
    }
}

fn examine(patient: &Patient) -> anyhow::Result<Exit> {
    let found = patient.examine()?;
    for finding in &found {
        println!("{finding}");
    }
    if found.is_empty() {
        println!("{} is sound", patient.store_path().display());
        return Ok(Exit::Done);
    }
    println!("`traind doctor --rebuild` makes it anew from the job folders");
    Ok(Exit::Failed)
}

fn rebuild(patient: &Patient) -> anyhow::Result<Exit> {
    let rebuilt = doctor::rebuild(patient)?;
    println!("{} jobs are in {} again", rebuilt.jobs, patient.store_path().display());
    if let Some(kept) = &rebuilt.kept {
        println!("the old store is {}", kept.display());
    }
    for (id, why) in &rebuilt.lost {
        println!("job {id} could not be told again: {why}");
    }
    Ok(if rebuilt.lost.is_empty() { Exit::Done } else { Exit::Failed })
}
