//! A copy of the run's state on the host, from which a checkpoint is written during training.

use traind_job_file::JobFile;
use traind_xla::runtime::HostArray;

use super::training_state::{Recipe, TrainingState};
use crate::error::RunResult;
use crate::output::TrainerState;
use crate::progress::{Progress, Timetable};
use crate::session::Session;
use crate::state::SlotArrays;

#[derive(Debug)]
pub(super) struct Snapshot {
    pub step: u64,
    /// Those that are saved, in the order of the model's parameters.
    pub parameters: Vec<HostArray>,
    /// What a run resumes from besides; absent with `save_only_model`.
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
    pub slots: SlotArrays,
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
        Ok(Resumption { slots: session.slots()?, training })
    }
}
