//! The commits of a run to the hub, as the Trainer makes them.

use std::path::Path;

use traind_hub::{Commit, CommitFile};
use traind_job_file::{HubStrategy, JobFile, SaveStrategy};

use super::folder_upload::files;
use crate::error::RunResult;
use crate::output::{CHECKPOINT_PREFIX, MANIFEST, failed};

/// The folder of the newest checkpoint in the repository.
const LAST_CHECKPOINT: &str = "last-checkpoint";
/// Files of a checkpoint that are no part of its model, by the starts of their names.
const STATE: [&str; 4] = ["optimizer", "trainer_state.json", "training_state.json", MANIFEST];

/// Repository, and the commits to make.
#[derive(Clone, Debug)]
pub(super) struct PushRule {
    pub id: String,
    pub branch: Option<String>,
    pub is_private: Option<bool>,
    pub always: bool,
    strategy: HubStrategy,
    save_strategy: SaveStrategy,
}

impl PushRule {
    pub(super) fn of(job: &JobFile) -> Option<PushRule> {
        let train = &job.train;
        job.hub_repository().map(|id| PushRule {
            id,
            branch: train.hub_revision.clone(),
            is_private: train.hub_private_repo,
            always: train.hub_always_push,
            strategy: train.hub_strategy,
            save_strategy: train.save_strategy,
        })
    }

    /// Whether checkpoints are committed.
    pub(super) fn has_checkpoints(&self) -> bool {
        self.strategy != HubStrategy::End
    }

    /// The commits of a checkpoint, whose files are kept open: its model, and itself.
    pub(super) fn checkpoint(
        &self,
        folder: &Path,
        step: u64,
        epoch: f64,
    ) -> RunResult<Vec<Commit>> {
        let message = match self.save_strategy {
            SaveStrategy::Epoch => format!("Training in progress, epoch {}", epoch as u64),
            _ => format!("Training in progress, step {step}"),
        };
        let is_model = |name: &str| !STATE.iter().any(|state| name.starts_with(state));
        let mut commits = vec![Commit::new(message.clone(), open(folder, "", is_model)?)];
        let name = match self.strategy {
            HubStrategy::Checkpoint => LAST_CHECKPOINT.to_owned(),
            HubStrategy::AllCheckpoints => format!("{CHECKPOINT_PREFIX}{step}"),
            HubStrategy::End | HubStrategy::EverySave => return Ok(commits),
        };
        let whole = open(folder, &format!("{name}/"), |_| true)?;
        commits.push(Commit::new(format!("{message}, checkpoint"), whole).replacing(&name));
        Ok(commits)
    }
}

/// The commit of the output folder, without its checkpoints and hidden files.
pub(super) fn output(folder: &Path) -> RunResult<Commit> {
    let is_output =
        |name: &str| !name.starts_with(CHECKPOINT_PREFIX) && !name.starts_with(['_', '.']);
    Ok(Commit::new("End of training".to_owned(), open(folder, "", is_output)?))
}

/// Opens the files of a folder whose names in it are selected.
fn open(
    folder: &Path,
    prefix: &str,
    is_selected: impl Fn(&str) -> bool,
) -> RunResult<Vec<CommitFile>> {
    let names = files(folder)?.into_iter().map(|file| file.display().to_string());
    let selected = names.filter(|name| is_selected(name));
    let open = |name: String| {
        let path = folder.join(&name);
        CommitFile::open(&path, &format!("{prefix}{name}")).map_err(failed("read", &path))
    };
    selected.map(open).collect()
}
