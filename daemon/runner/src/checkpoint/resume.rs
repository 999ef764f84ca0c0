//! Finds the checkpoint that a run goes on from.
//!
//! A job that is started again goes on from its own newest one. Otherwise the
//! job file says which: a folder, or the newest of the output folder. Where the
//! newest is damaged, the one before it is taken, with a warning.

use std::path::{Path, PathBuf};

use traind_job_file::ResumeFrom;
use traind_models::Model;
use traind_proto::v1::Resumed as ResumedEvent;
use traind_proto::v1::event::Kind;

use super::list;
use super::load::{load_parameters, load_slots};
use super::manifest::Manifest;
use super::training_state::{Recipe, TRAINER_STATE, TrainingState};
use crate::control::{Context, Journal};
use crate::error::{RunError, RunResult};
use crate::output::TrainerState;
use crate::progress::{Meter, Progress};
use crate::state::StartValues;

/// A checkpoint that is whole.
#[derive(Debug)]
pub(crate) struct Resumed {
    path: PathBuf,
    training: TrainingState,
    trainer: TrainerState,
}

/// The checkpoint to go on from, if there is to be one.
pub(crate) fn find(context: &Context) -> RunResult<Option<Resumed>> {
    let (spec, journal) = (&context.spec, &context.journal);
    let output_dir = &spec.job.output_dir;
    if spec.attempt > 1 {
        let own = |manifest: &Manifest| manifest.job_id == spec.job_id;
        if let Some(found) = newest(output_dir, journal, own)? {
            return Ok(Some(found));
        }
    }
    match &spec.job.train.resume_from_checkpoint {
        None | Some(ResumeFrom::Nowhere) => Ok(None),
        Some(ResumeFrom::Folder(folder)) => open_asked(folder).map(Some),
        Some(ResumeFrom::Newest) => {
            let found = newest(output_dir, journal, |_| true)?;
            let missing = || RunError::CheckpointNotFound { folder: output_dir.clone() };
            found.ok_or_else(missing).map(Some)
        }
    }
}

fn open_asked(folder: &Path) -> RunResult<Resumed> {
    if !folder.is_dir() {
        return Err(RunError::CheckpointNotFound { folder: folder.to_owned() });
    }
    let corrupt = |problem| RunError::CheckpointCorrupt { path: folder.to_owned(), problem };
    Manifest::read(folder).and_then(|manifest| open(folder, &manifest)).map_err(corrupt)
}

/// The newest whole checkpoint whose manifest is `wanted`.
fn newest(
    output_dir: &Path,
    journal: &Journal,
    wanted: impl Fn(&Manifest) -> bool,
) -> RunResult<Option<Resumed>> {
    for (_, folder) in list::newest_first(output_dir)? {
        let opened = match Manifest::read(&folder) {
            Ok(manifest) if !wanted(&manifest) => continue,
            Ok(manifest) => open(&folder, &manifest),
            Err(problem) => Err(problem),
        };
        match opened {
            Ok(found) => return Ok(Some(found)),
            Err(problem) => {
                let message = format!("{} is passed over: {problem}", folder.display());
                journal.warn("CHECKPOINT_CORRUPT", message)?;
            }
        }
    }
    Ok(None)
}

/// Reads what is small of a checkpoint, after all of it was checked.
fn open(folder: &Path, manifest: &Manifest) -> Result<Resumed, String> {
    manifest.check(folder)?;
    let training = TrainingState::read(folder)?;
    if training.step != manifest.step {
        return Err(format!("it is of step {}, not {}", training.step, manifest.step));
    }
    let wrong = |error: &dyn std::fmt::Display| format!("its {TRAINER_STATE}: {error}");
    let text = std::fs::read(folder.join(TRAINER_STATE)).map_err(|error| wrong(&error))?;
    let trainer = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    Ok(Resumed { path: folder.to_owned(), training, trainer })
}

impl Resumed {
    /// Steps done.
    pub(crate) fn step(&self) -> u64 {
        self.training.step
    }

    /// The checkpoints of `output_dir` that this run counts as its own, the
    /// oldest first: those that led to this one.
    pub(super) fn kept(&self, output_dir: &Path) -> Vec<u64> {
        if self.path.parent() != Some(output_dir) {
            return Vec::new();
        }
        let found = list::newest_first(output_dir).unwrap_or_default().into_iter().rev();
        found.map(|(step, _)| step).filter(|step| *step <= self.step()).collect()
    }

    /// What was done before.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            steps: self.training.step,
            totals: self.training.totals,
            meter: Meter::resume(self.training.window),
            log_history: self.trainer.log_history.clone(),
            best: self.training.best.clone(),
            loss_scale: self.training.loss_scale.map(|values| values.scale),
            ..Progress::default()
        }
    }

    /// Weights and slots, and the event that says where they come from.
    pub(crate) fn load(
        &self,
        context: &Context,
        model: &dyn Model,
        recipe: &Recipe,
    ) -> RunResult<StartValues> {
        let stored = &self.training.recipe;
        if stored.optim != recipe.optim {
            let problem = format!("its optimizer is {}, not {}", stored.optim, recipe.optim);
            return Err(RunError::CheckpointMismatch { path: self.path.clone(), problem });
        }
        let parameters = load_parameters(&self.path, model)?;
        let slots = Some(load_slots(&self.path)?);
        for difference in recipe.differences(stored) {
            let message =
                format!("what follows step {} is not what would have: {difference}", self.step());
            context.journal.warn("RESUME_INEXACT", message)?;
        }
        let path = self.path.display().to_string();
        context.journal.record(Kind::Resumed(ResumedEvent { path, step: self.step() }))?;
        let loss_scale = self.training.loss_scale.unwrap_or_default();
        Ok(StartValues { parameters, slots, loss_scale })
    }
}
