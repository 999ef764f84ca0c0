//! Checkpoints: `checkpoint-<steps>` folders in the output folder from which a
//! run goes on exactly where it was.
//!
//! Each is a Hugging Face model folder with the optimizer's slots, the counts
//! of the run and a manifest of checksums. It appears whole or not at all, and
//! the step loop waits for no more than the copy that it is written from.
//!
//! Imports `session`, `model`, `progress`, `state`, `output`, `control` and `error`.

mod disk;
mod folder;
mod list;
mod load;
mod manifest;
mod resume;
mod rotation;
mod snapshot;
mod training_state;
mod writer;

use std::time::{Duration, Instant};

use traind_job_file::SaveStrategy;
use traind_proto::v1::Phase;

use crate::control::Context;
use crate::error::RunResult;
use crate::model::OpenModel;
use crate::progress::{Progress, Timetable};
use crate::session::Session;

pub(crate) use disk::check_room;
pub(crate) use list::folder_name;
pub(crate) use load::load_whole;
pub(crate) use resume::{Resumed, find};
pub(crate) use training_state::Recipe;

use rotation::Rotation;
use snapshot::Snapshot;
use writer::{CheckpointWriter, Target};

/// Takes the checkpoints of a run.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    writer: CheckpointWriter,
    recipe: Recipe,
    newest: Option<u64>,
}

impl Checkpoints {
    /// `None` where the job wants no checkpoints.
    pub(crate) fn start(
        context: &Context,
        open: &OpenModel,
        recipe: Recipe,
        resumed: Option<&Resumed>,
    ) -> RunResult<Option<Checkpoints>> {
        let job = &context.spec.job;
        if job.train.save_strategy == SaveStrategy::No {
            return Ok(None);
        }
        list::remove_leftovers(&job.output_dir)?;
        let kept = resumed.map_or_else(Vec::new, |resumed| resumed.kept(&job.output_dir));
        let newest = resumed.map(|resumed| resumed.step());
        let writer = CheckpointWriter::start(Target {
            output_dir: job.output_dir.clone(),
            job_id: context.spec.job_id.clone(),
            open: open.clone(),
            journal: context.journal.clone(),
            rotation: Rotation { limit: job.train.save_total_limit, kept },
        })?;
        Ok(Some(Checkpoints { writer, recipe, newest }))
    }

    /// Whether the newest checkpoint is that of `step`.
    pub(crate) fn has(&self, step: u64) -> bool {
        self.newest == Some(step)
    }

    /// Copies the state of the run, all of whose steps have been read back, and
    /// has it written. Returns the time in which no step could run.
    pub(crate) fn save(
        &mut self,
        context: &Context,
        session: &Session,
        timetable: &Timetable,
        progress: &Progress,
    ) -> RunResult<Duration> {
        let start = Instant::now();
        context.activity.enter(Phase::Checkpoint);
        // One copy in memory, not two.
        self.writer.wait()?;
        let mut snapshot =
            Snapshot::take(&context.spec.job, session, &self.recipe, timetable, progress)?;
        let stall = start.elapsed();
        snapshot.stall_seconds = stall.as_secs_f64();
        self.newest = Some(snapshot.step);
        self.writer.write(snapshot)?;
        Ok(stall)
    }

    /// Waits until what was saved is durable.
    pub(crate) fn finish(self) -> RunResult<()> {
        self.writer.finish()
    }
}
