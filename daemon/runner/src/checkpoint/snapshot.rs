//! A copy of the run's state on the host, from which a checkpoint is written during training.

use traind_job_file::JobFile;
use traind_models::weights::ArrayParts;

use super::shares::Share;
use super::training_state::{Recipe, TrainingState};
use crate::error::RunResult;
use crate::output::TrainerState;
use crate::progress::{Progress, Timetable};
use crate::session::Session;

#[derive(Debug)]
pub(super) struct Snapshot {
    pub step: u64,
    /// The parts of the parameters that this host saves.
    pub parameters: ArrayParts,
    /// The rest of the state that a run resumes from; absent with `save_only_model`.
    pub resumption: Option<Resumption>,
    pub trainer: TrainerState,
    /// The steps of the best checkpoint so far.
    pub best: Option<u64>,
    /// How long training stalled for the copy.
    pub stall_seconds: f64,
}

/// The state of the optimizer and of training.
#[derive(Debug)]
pub(super) struct Resumption {
    /// The parts of them that this host saves.
    pub slots: ArrayParts,
    pub training: TrainingState,
}

impl Snapshot {
    /// Without `resumes`, no run can resume from it.
    pub(super) fn take(
        job: &JobFile,
        resumes: bool,
        session: &Session,
        recipe: &Recipe,
        timetable: &Timetable,
        progress: &Progress,
    ) -> RunResult<Snapshot> {
        let resumption = resumes.then(|| Resumption::take(session, recipe, timetable, progress));
        Ok(Snapshot {
            step: progress.steps,
            parameters: session.saved_parameters()?,
            resumption: resumption.transpose()?,
            trainer: progress.trainer_state(job, timetable),
            best: progress.best.checkpoint,
            stall_seconds: 0.0,
        })
    }
}

impl Snapshot {
    /// Returns the part of the state that this host writes, where hosts hold different parts.
    pub(super) fn share(&self) -> Share<'_> {
        let slots = self.resumption.as_ref().map(|resumption| &resumption.slots);
        Share { parameters: &self.parameters, slots }
    }
}

impl Resumption {
    fn take(
        session: &Session,
        recipe: &Recipe,
        timetable: &Timetable,
        progress: &Progress,
    ) -> RunResult<Resumption> {
        let training = TrainingState {
            step: progress.steps,
            recipe: recipe.clone(),
            totals: progress.totals(),
            window: progress.meter.window(),
            best: progress.best.clone(),
            plateau: progress.plateau,
            data_lag: timetable.data_lag(),
            loss_scale: session.loss_scale()?,
        };
        Ok(Resumption { slots: session.saved_slots()?, training })
    }
}
