//! Checkpoints: `checkpoint-<steps>` folders of the job's folder of checkpoints, from which a run resumes exactly.
//!
//! Each is a Hugging Face model folder with the optimizer's slots, the run's counts and a manifest
//! of checksums. It appears whole or not at all. Training waits only for the copy to the host from
//! which it is written. Hosts that hold different parts of the state write it together ([`shares`]).
//!
//! Imports `model`, `progress`, `remote`, `output`, `hosts`, `reporting` and `error`.

mod collect;
mod complete;
mod disk_space;
mod folder;
mod list;
mod load;
mod manifest;
mod resume;
mod rotation;
mod shared;
mod shares;
mod snapshot;
mod superseded;
mod training_state;
mod writer;

use std::time::{Duration, Instant};

use traind_job_file::{JobFile, RunSpec, SaveStrategy};
use traind_proto::v1::Phase;

use crate::error::RunResult;
use crate::hosts::Hosts;
use crate::model::OpenModel;
use crate::progress::{Progress, Timetable};
use crate::remote::{Mirror, Publication, Remote, Staged};
use crate::reporting::Reporter;
use crate::session::Session;

pub(crate) use collect::collect_parameters;
pub(crate) use complete::newest_complete;
pub(crate) use disk_space::{SavedState, check_disk_space};
pub(crate) use load::load_checked;
pub(crate) use resume::{CheckpointSource, Resumed};
pub(crate) use shared::{find, provide};
pub(crate) use shares::not_shared;
pub(crate) use superseded::keep_best_alone;
pub(crate) use training_state::Recipe;

use rotation::Rotation;
use snapshot::Snapshot;
use writer::{CheckpointWriter, Target, Writing, remove_folder};

/// Saves the checkpoints of a run.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    job: JobFile,
    reporter: Reporter,
    /// The writer of checkpoints, on the first host and on all that hold a part of what is saved.
    writer: Option<CheckpointWriter>,
    recipe: Recipe,
    /// The newest from which a run can resume.
    newest: Option<u64>,
}

/// The run whose checkpoints are saved.
pub(crate) struct CheckpointedRun<'a> {
    pub spec: &'a RunSpec,
    pub reporter: &'a Reporter,
    pub open: &'a OpenModel,
    pub recipe: &'a Recipe,
    /// The checkpoint that the run resumed from.
    pub resumed: Option<&'a Resumed>,
    pub remote: &'a Remote,
    pub publication: Option<&'a Publication>,
    pub hosts: &'a Hosts,
    /// Whether hosts hold different parts of the state.
    pub is_over_hosts: bool,
}

impl Checkpoints {
    /// Starts to save checkpoints; `None` where the job saves none. The first host writes them, and with
    /// `is_over_hosts` all hosts do.
    pub(crate) fn start(run: &CheckpointedRun<'_>) -> RunResult<Option<Checkpoints>> {
        let CheckpointedRun { reporter, recipe, resumed, hosts, is_over_hosts, .. } = *run;
        let job = &run.spec.job;
        if job.train.save_strategy == SaveStrategy::No {
            return Ok(None);
        }
        let newest = resumed.map(|resumed| resumed.step());
        let together = is_over_hosts.then(|| hosts.clone());
        let writing = match (hosts.is_first(), together) {
            (true, together) => {
                let target = target(run)?;
                Some(Writing::Checkpoint(Box::new(Target { hosts: together, ..target })))
            }
            (false, together) => together.map(Writing::Share),
        };
        let writer = writing.map(CheckpointWriter::start).transpose()?;
        let (job, reporter, recipe) = (job.clone(), reporter.clone(), recipe.clone());
        Ok(Some(Checkpoints { job, reporter, writer, recipe, newest }))
    }

    /// Whether a run can resume from the newest checkpoint, and at `step`.
    pub(crate) fn resumes_at(&self, step: u64) -> bool {
        self.newest == Some(step)
    }

    /// Copies the state of the run to the host and starts to write it. No step may be in flight.
    /// `resumes` includes the state that a run resumes from. Returns the time for which training
    /// stalled.
    pub(crate) fn save(
        &mut self,
        resumes: bool,
        session: &Session,
        timetable: &Timetable,
        progress: &Progress,
    ) -> RunResult<Duration> {
        if resumes {
            self.newest = Some(progress.steps);
        }
        let Some(writer) = &mut self.writer else { return Ok(Duration::ZERO) };
        let start = Instant::now();
        self.reporter.activity.enter(Phase::Checkpoint);
        // Keeps one copy in memory at a time.
        writer.wait()?;
        let mut snapshot =
            Snapshot::take(&self.job, resumes, session, &self.recipe, timetable, progress)?;
        let stall = start.elapsed();
        snapshot.stall_seconds = stall.as_secs_f64();
        writer.write(snapshot)?;
        Ok(stall)
    }

    /// Waits until all checkpoints are durable, and in the bucket if they belong there.
    pub(crate) fn finish(self) -> RunResult<()> {
        match self.writer.map(CheckpointWriter::finish).transpose()?.flatten() {
            Some(mirror) => mirror.finish(),
            None => Ok(()),
        }
    }
}

/// Where the first host writes.
fn target(run: &CheckpointedRun<'_>) -> RunResult<Target> {
    let CheckpointedRun { spec, reporter, open, resumed, remote, publication, .. } = *run;
    let folder = spec.job.checkpoints().to_owned();
    list::remove_leftovers(&folder)?;
    superseded::remove_overwritten(spec)?;
    let kept = resumed.map_or_else(Vec::new, |resumed| resumed.kept(&folder));
    let newest = resumed.map(|resumed| resumed.step());
    let limit = spec.job.train.save_total_limit;
    let staged = Staged {
        folder: folder.clone(),
        steps: kept.clone(),
        best: resumed.and_then(Resumed::best),
        remove: remove_folder,
    };
    let mirror = start_mirror(remote, staged, limit, newest)?;
    if let (Some(publication), Some(resumed)) = (publication, resumed) {
        resumed.publish(publication)?;
    }
    Ok(Target {
        folder,
        job_id: spec.job_id.clone(),
        open: open.clone(),
        journal: reporter.journal.clone(),
        rotation: Rotation { limit, kept },
        mirror,
        publication: publication.cloned(),
        hosts: None,
    })
}

/// Starts to upload checkpoints, where they belong into a bucket. A run that resumed
/// from step `newest` takes over those of the bucket that led to it.
fn start_mirror(
    remote: &Remote,
    staged: Staged,
    limit: Option<u32>,
    newest: Option<u64>,
) -> RunResult<Option<Mirror>> {
    let mut complete = remote.recorded_checkpoints()?;
    complete.retain(|step| newest.is_some_and(|newest| *step <= newest));
    let mut rotation = Rotation { limit, kept: complete.clone() };
    let rotate = Box::new(move |step, best| rotation.add(step, best, &[]));
    remote.mirror(staged, &complete, rotate)
}
