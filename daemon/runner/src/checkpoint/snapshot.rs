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
    /// In the order of the model's parameters.
    pub parameters: Vec<HostArray>,
    pub slots: SlotArrays,
    pub training: TrainingState,
    pub trainer: TrainerState,
    /// The steps of the best checkpoint so far.
    pub best: Option<u64>,
    /// How long training stalled for the copy.
    pub stall_seconds: f64,
}

impl Snapshot {
    pub(super) fn take(
        job: &JobFile,
        session: &Session,
        recipe: &Recipe,
        timetable: &Timetable,
        progress: &Progress,
    ) -> RunResult<Snapshot> {
        let loss_scale = session.state.loss_scale.as_ref();
        let training = TrainingState {
            step: progress.steps,
            recipe: recipe.clone(),
            totals: progress.totals(),
            window: progress.meter.window(),
            best: progress.best.clone(),
            loss_scale: loss_scale.map(|scale| scale.values(&session.device)).transpose()?,
        };
        Ok(Snapshot {
            step: progress.steps,
            parameters: session.parameters()?,
            slots: session.state.slots(&session.device)?,
            training,
            trainer: progress.trainer_state(job, timetable),
            best: progress.best.checkpoint,
            stall_seconds: 0.0,
        })
    }
}
