//! Finds the checkpoint that a run resumes from.
//!
//! A later attempt of a job resumes from its own newest checkpoint. Otherwise the job file names a
//! folder, or the newest checkpoint of the output folder. A damaged one is skipped with a warning
//! where the newest is looked for.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use traind_job_file::{DataFiles, ResumeFrom, RunSpec, Train};
use traind_models::Model;
use traind_proto::v1::Resumed as ResumedEvent;
use traind_proto::v1::event::Kind;

use super::list::{self, partial_folder};
use super::load::{load_parameters, open_slots};
use super::manifest::Manifest;
use super::training_state::{Recipe, TRAINER_STATE, TRAINING_STATE, TrainingState};
use crate::error::{CheckpointProblem, RunError, RunResult};
use crate::output::{self, MANIFEST, TrainerState, checkpoint_folder, failed};
use crate::progress::{Best, Meter, Progress, Timetable};
use crate::remote::{Publication, Remote};
use crate::reporting::Journal;
use crate::state::StartValues;

/// A checkpoint that was checked.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(super) path: PathBuf,
    training: TrainingState,
    trainer: TrainerState,
    /// Whether an earlier attempt of the same job wrote it.
    pub(super) is_own: bool,
}

/// Returns the checkpoint to resume from, if any, as this host alone finds it.
pub(super) fn find_alone(source: &CheckpointSource<'_>) -> RunResult<Option<Resumed>> {
    let found = find_any(source)?;
    if let Some(resumed) = &found {
        source.fetch_best(resumed)?;
    }
    Ok(found)
}

fn find_any(source: &CheckpointSource<'_>) -> RunResult<Option<Resumed>> {
    let spec = source.spec;
    if spec.attempt > 1 {
        let is_own = |manifest: &Manifest| manifest.job_id == spec.job_id;
        if let Some(found) = source.newest(&is_own)? {
            return Ok(Some(Resumed { is_own: true, ..found }));
        }
    }
    match &spec.job.train.resume_from_checkpoint {
        None | Some(ResumeFrom::Nowhere) => Ok(None),
        Some(ResumeFrom::Folder(folder)) => {
            open_folder(&source.local(folder)?, source.journal).map(Some)
        }
        Some(ResumeFrom::NewestIfAny) => source.newest(&|_| true),
        Some(ResumeFrom::Newest) => {
            let folder = source.remote.checkpoints_name(spec.job.checkpoints());
            let missing = || RunError::CheckpointNotFound { folder };
            source.newest(&|_| true)?.ok_or_else(missing).map(Some)
        }
    }
}

/// The places where a run looks for checkpoints.
pub(crate) struct CheckpointSource<'a> {
    pub spec: &'a RunSpec,
    pub run_dir: &'a Path,
    pub remote: &'a Remote,
    pub journal: &'a Journal,
    /// Whether other hosts resume from the same checkpoint.
    pub is_for_hosts: bool,
}

impl CheckpointSource<'_> {
    /// Returns the newest undamaged checkpoint among those that `accepts`, of the folder or of the
    /// bucket, from which it is fetched into the folder.
    fn newest(&self, accepts: &dyn Fn(&Manifest) -> bool) -> RunResult<Option<Resumed>> {
        let (folder, in_bucket) =
            (self.spec.job.checkpoints(), self.remote.complete_checkpoints()?);
        // Other hosts may not see the folder.
        let is_bucket_alone = self.is_for_hosts && self.remote.checkpoints.is_some();
        let is_there = |step| !is_bucket_alone || in_bucket.contains(&step);
        let accepts_here = |manifest: &Manifest| is_there(manifest.step) && accepts(manifest);
        let found = newest(folder, self.journal, &accepts_here)?;
        let after = found.as_ref().map(Resumed::step);
        for step in in_bucket.iter().copied().rev() {
            if after.is_some_and(|after| step <= after) {
                break;
            }
            if let Some(fetched) = self.fetch(step, accepts)? {
                return Ok(Some(fetched));
            }
        }
        Ok(found)
    }

    /// Whether hosts that do not see the folder of a checkpoint can fetch it.
    pub(super) fn is_in_bucket(&self) -> bool {
        self.remote.checkpoints.is_some() || self.named_object().is_some()
    }

    /// The checkpoint of a bucket that the job file names.
    fn named_object(&self) -> Option<&Path> {
        match &self.spec.job.train.resume_from_checkpoint {
            Some(ResumeFrom::Folder(folder)) if DataFiles::is_object(folder) => Some(folder),
            _ => None,
        }
    }

    /// Fetches the checkpoint of a step that another host has found; `None` if there is none, or a damaged one.
    pub(super) fn fetch_found(&self, step: u64, is_own: bool) -> RunResult<Option<Resumed>> {
        let fetched = match self.named_object().filter(|_| !is_own) {
            Some(folder) => Some(open_folder(&self.local(folder)?, self.journal)?),
            None => self.fetch(step, &|_| true)?,
        };
        if let Some(resumed) = &fetched {
            self.fetch_best(resumed)?;
        }
        Ok(fetched.map(|fetched| Resumed { is_own, ..fetched }))
    }

    /// Fetches a checkpoint; `None` if it is not accepted, or damaged.
    fn fetch(&self, step: u64, accepts: &dyn Fn(&Manifest) -> bool) -> RunResult<Option<Resumed>> {
        let folder = self.spec.job.checkpoints();
        let (partial, path) = (partial_folder(folder, step), checkpoint_folder(folder, step));
        for aside in list::make_room(folder, step)? {
            let message =
                format!("traind did not write checkpoint-{step}, which is now {}", aside.display());
            self.journal.warn("CHECKPOINT_SET_ASIDE", message)?;
        }
        self.remote.fetch_checkpoint(step, &partial)?;
        let opened = match Manifest::read(&partial) {
            Ok(manifest) if !accepts(&manifest) || !manifest.has(TRAINING_STATE) => Ok(None),
            Ok(manifest) => open(&partial, &manifest).map(Some),
            Err(problem) => Err(problem),
        };
        if let Ok(Some(found)) = opened {
            fs::rename(&partial, &path).map_err(failed("rename", &partial))?;
            output::sync_folder(folder)?;
            return Ok(Some(Resumed { path, ..found }));
        }
        fs::remove_dir_all(&partial).map_err(failed("remove", &partial))?;
        if let Err(problem) = opened {
            let name = self.remote.checkpoints_name(folder);
            warn_of_damage(self.journal, &checkpoint_folder(&name, step), &problem)?;
        }
        Ok(None)
    }

    /// Fetches the best checkpoint so far, with which the run may end.
    fn fetch_best(&self, resumed: &Resumed) -> RunResult<()> {
        let folder = self.spec.job.checkpoints();
        let is_here = resumed.path.parent() == Some(folder);
        let wanted = is_here && self.spec.job.train.load_best_model_at_end;
        let Some(best) = resumed.training.best.checkpoint.filter(|_| wanted) else { return Ok(()) };
        let path = checkpoint_folder(folder, best);
        let is_there = path.exists() || best == resumed.step();
        if is_there || !self.remote.complete_checkpoints()?.contains(&best) {
            return Ok(());
        }
        self.remote.fetch_checkpoint(best, &path)
    }

    /// The folder of a checkpoint, which is fetched into the run directory if it is a bucket's.
    fn local(&self, folder: &Path) -> RunResult<PathBuf> {
        if !DataFiles::is_object(folder) {
            return Ok(folder.to_owned());
        }
        let local = self.run_dir.join("resumed-from");
        if local.exists() {
            fs::remove_dir_all(&local).map_err(failed("remove", &local))?;
        }
        self.remote.fetch_named("train.resume_from_checkpoint", folder, &local)?;
        Ok(local)
    }
}

/// Opens the checkpoint that another host has found.
pub(super) fn open_found(folder: &Path, is_own: bool) -> RunResult<Resumed> {
    let corrupt = |problem| RunError::CheckpointCorrupt { path: folder.to_owned(), problem };
    let opened = Manifest::read(folder).and_then(|manifest| open(folder, &manifest));
    Ok(Resumed { is_own, ..opened.map_err(corrupt)? })
}

/// Opens a checkpoint, or the newest of another job's output folder.
fn open_folder(folder: &Path, journal: &Journal) -> RunResult<Resumed> {
    let missing = || RunError::CheckpointNotFound { folder: folder.to_owned() };
    if !folder.is_dir() {
        return Err(missing());
    }
    if !folder.join(MANIFEST).exists() && !list::newest_first(folder)?.is_empty() {
        return newest(folder, journal, &|_| true)?.ok_or_else(missing);
    }
    let corrupt = |problem| RunError::CheckpointCorrupt { path: folder.to_owned(), problem };
    Manifest::read(folder).and_then(|manifest| open(folder, &manifest)).map_err(corrupt)
}

/// Returns the newest undamaged checkpoint among those that `accepts`.
fn newest(
    output_dir: &Path,
    journal: &Journal,
    accepts: &dyn Fn(&Manifest) -> bool,
) -> RunResult<Option<Resumed>> {
    for (_, folder) in list::newest_first(output_dir)? {
        let opened = match Manifest::read(&folder) {
            Ok(manifest) if !accepts(&manifest) || !manifest.has(TRAINING_STATE) => continue,
            Ok(manifest) => open(&folder, &manifest),
            Err(problem) => Err(problem),
        };
        match opened {
            Ok(found) => return Ok(Some(found)),
            Err(problem) => warn_of_damage(journal, &folder, &problem)?,
        }
    }
    Ok(None)
}

fn warn_of_damage(journal: &Journal, folder: &Path, problem: &CheckpointProblem) -> RunResult<()> {
    let message = format!("skipped {}: {problem}", folder.display());
    Ok(journal.warn("CHECKPOINT_CORRUPT", message)?)
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
    /// Commits a checkpoint of an earlier attempt, which may have ended before that was done.
    pub(super) fn publish(&self, publication: &Publication) -> RunResult<()> {
        match self.is_own {
            true => publication.add(&self.path, self.step(), self.trainer.epoch),
            false => Ok(()),
        }
    }

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

    /// Whether the run orders the rows of a step by their lengths.
    pub(crate) fn deals_rows(&self) -> bool {
        self.training.recipe.deals_rows
    }

    /// The steps of the best checkpoint before.
    pub(super) fn best(&self) -> Option<u64> {
        self.training.best.checkpoint
    }

    /// Returns the checkpoints of `output_dir` that led to this one, the oldest first. The run rotates
    /// them as its own.
    pub(super) fn kept(&self, output_dir: &Path) -> Vec<u64> {
        if self.path.parent() != Some(output_dir) {
            return Vec::new();
        }
        let record = list::read_record(output_dir).ok().flatten();
        let is_own = |step: u64| record.as_ref().is_none_or(|it| it.has_checkpoint(step));
        let found = list::newest_first(output_dir).unwrap_or_default().into_iter().rev();
        let steps = found.map(|(step, _)| step);
        steps.filter(|step| *step <= self.step() && is_own(*step)).collect()
    }

    /// The progress of the run so far. The best model is one of `folder`, so that of another folder
    /// does not count.
    pub(crate) fn progress(&self, folder: &Path) -> Progress {
        let is_here = self.path.parent() == Some(folder);
        Progress {
            steps: self.training.step,
            totals: self.training.totals,
            meter: Meter::resume(self.training.window.clone()),
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
        model: &Model,
        recipe: &Recipe,
    ) -> RunResult<StartValues> {
        let stored = &self.training.recipe;
        if stored.optim != recipe.optim {
            let problem = format!("its optimizer is {}, not {}", stored.optim, recipe.optim);
            return Err(RunError::CheckpointMismatch { path: self.path.clone(), problem });
        }
        if stored.group_optims != recipe.group_optims {
            let problem = format!(
                "its train.param_groups have the optimizers {:?}, not {:?}",
                stored.group_optims, recipe.group_optims
            );
            return Err(RunError::CheckpointMismatch { path: self.path.clone(), problem });
        }
        let mut parameters = load_parameters(&self.path, model)?;
        let slots = open_slots(&self.path)?;
        let saved = model.parameters().iter().filter(|spec| model.adapters().saves(spec));
        slots.take_trained(saved.map(|spec| spec.name.as_str()), &mut parameters)?;
        let slots = Some(slots);
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
        Ok(StartValues { parameters, reference: None, slots, loss_scale })
    }
}
