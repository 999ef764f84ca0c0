//! Finds the checkpoint that a run resumes from.
//!
//! A later attempt of a job resumes from its own newest checkpoint. Otherwise the job file names a
//! folder, or the newest checkpoint of the output folder. A damaged one is skipped with a warning
//! where the newest is looked for.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use traind_job_file::{ResumeFrom, RunSpec, Train};
use traind_models::Model;
use traind_proto::v1::Resumed as ResumedEvent;
use traind_proto::v1::event::Kind;

use super::list;
use super::load::{load_parameters, load_slots};
use super::manifest::{MANIFEST, Manifest};
use super::training_state::{Recipe, TRAINER_STATE, TRAINING_STATE, TrainingState};
use crate::control::Journal;
use crate::error::{CheckpointProblem, RunError, RunResult};
use crate::output::TrainerState;
use crate::progress::{Best, Meter, Progress, Timetable};
use crate::state::StartValues;

/// A checkpoint that was checked.
#[derive(Debug)]
pub(crate) struct Resumed {
    path: PathBuf,
    training: TrainingState,
    trainer: TrainerState,
    /// Whether an earlier attempt of the same job wrote it.
    is_own: bool,
}

/// Returns the checkpoint to resume from, if any.
pub(crate) fn find(spec: &RunSpec, journal: &Journal) -> RunResult<Option<Resumed>> {
    let output_dir = &spec.job.output_dir;
    if spec.attempt > 1 {
        let is_own = |manifest: &Manifest| manifest.job_id == spec.job_id;
        if let Some(found) = newest(output_dir, journal, is_own)? {
            return Ok(Some(Resumed { is_own: true, ..found }));
        }
    }
    match &spec.job.train.resume_from_checkpoint {
        None | Some(ResumeFrom::Nowhere) => Ok(None),
        Some(ResumeFrom::Folder(folder)) => open_folder(folder, journal).map(Some),
        Some(ResumeFrom::Newest) => {
            let found = newest(output_dir, journal, |_| true)?;
            let missing = || RunError::CheckpointNotFound { folder: output_dir.clone() };
            found.ok_or_else(missing).map(Some)
        }
    }
}

/// Opens a checkpoint, or the newest of another job's output folder.
fn open_folder(folder: &Path, journal: &Journal) -> RunResult<Resumed> {
    let missing = || RunError::CheckpointNotFound { folder: folder.to_owned() };
    if !folder.is_dir() {
        return Err(missing());
    }
    if !folder.join(MANIFEST).exists() && !list::newest_first(folder)?.is_empty() {
        return newest(folder, journal, |_| true)?.ok_or_else(missing);
    }
    let corrupt = |problem| RunError::CheckpointCorrupt { path: folder.to_owned(), problem };
    Manifest::read(folder).and_then(|manifest| open(folder, &manifest)).map_err(corrupt)
}

/// Returns the newest undamaged checkpoint among those that `accepts`.
fn newest(
    output_dir: &Path,
    journal: &Journal,
    accepts: impl Fn(&Manifest) -> bool,
) -> RunResult<Option<Resumed>> {
    for (_, folder) in list::newest_first(output_dir)? {
        let opened = match Manifest::read(&folder) {
            Ok(manifest) if !accepts(&manifest) || !manifest.has(TRAINING_STATE) => continue,
            Ok(manifest) => open(&folder, &manifest),
            Err(problem) => Err(problem),
        };
        match opened {
            Ok(found) => return Ok(Some(found)),
            Err(problem) => {
                let message = format!("skipped {}: {problem}", folder.display());
                journal.warn("CHECKPOINT_CORRUPT", message)?;
            }
        }
    }
    Ok(None)
}

/// Checks all files of a checkpoint and reads its counts.
fn open(folder: &Path, manifest: &Manifest) -> Result<Resumed, CheckpointProblem> {
    manifest.check(folder)?;
    if !manifest.has(TRAINING_STATE) {
        return Err(CheckpointProblem::ModelOnly);
    }
    let training: TrainingState = read_json(folder, TRAINING_STATE)?;
    if training.step != manifest.step {
        let (found, expected) = (training.step, manifest.step);
        return Err(CheckpointProblem::OtherStep { found, expected });
    }
    let trainer = read_json(folder, TRAINER_STATE)?;
    Ok(Resumed { path: folder.to_owned(), training, trainer, is_own: false })
}

fn read_json<T: DeserializeOwned>(
    folder: &Path,
    file: &'static str,
) -> Result<T, CheckpointProblem> {
    let text = std::fs::read(folder.join(file))
        .map_err(|source| CheckpointProblem::Unreadable { file: file.into(), source })?;
    serde_json::from_slice(&text).map_err(|source| CheckpointProblem::Invalid { file, source })
}

impl Resumed {
    /// The steps done before.
    pub(crate) fn step(&self) -> u64 {
        self.training.step
    }

    /// Returns the steps by which the rows of a step lie behind its number. `ignore_data_skip` begins
    /// the checkpoint's epoch again, but continues with the next row where the job itself is restarted.
    pub(crate) fn data_lag(&self, train: &Train, timetable: &Timetable) -> u64 {
        let lag = self.training.data_lag;
        match train.ignore_data_skip && !self.is_own {
            true => lag + self.step().saturating_sub(lag) % timetable.steps_per_epoch.max(1),
            false => lag,
        }
    }

    /// Returns the checkpoints of `output_dir` that led to this one, the oldest first. The run rotates
    /// them as its own.
    pub(super) fn kept(&self, output_dir: &Path) -> Vec<u64> {
        if self.path.parent() != Some(output_dir) {
            return Vec::new();
        }
        let found = list::newest_first(output_dir).unwrap_or_default().into_iter().rev();
        found.map(|(step, _)| step).filter(|step| *step <= self.step()).collect()
    }

    /// The progress of the run so far. The best model is one of `output_dir`, so that of another folder
    /// does not count.
    pub(crate) fn progress(&self, output_dir: &Path) -> Progress {
        let is_here = self.path.parent() == Some(output_dir);
        Progress {
            steps: self.training.step,
            totals: self.training.totals,
            meter: Meter::resume(self.training.window),
            log_history: self.trainer.log_history.clone(),
            best: if is_here { self.training.best.clone() } else { Best::default() },
            plateau: self.training.plateau,
            loss_scale: self.training.loss_scale.map(|values| values.scale),
            ..Progress::default()
        }
    }

    /// Loads parameters and slots, and records the event.
    pub(crate) fn load(
        &self,
        journal: &Journal,
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
            let message = format!(
                "steps after {} differ from those of an uninterrupted run: {difference}",
                self.step()
            );
            journal.warn("RESUME_INEXACT", message)?;
        }
        let path = self.path.display().to_string();
        journal.record(Kind::Resumed(ResumedEvent { path, step: self.step() }))?;
        let loss_scale = self.training.loss_scale.unwrap_or_default();
        Ok(StartValues { parameters, slots, loss_scale })
    }
}
