//! Checkpoints that a job removes besides its rotation: those that it overwrites, and at its end those that are not
//! the best.

use traind_folders::{
    Identity, Intent, checkpoint_steps, held_steps, is_checkpoint_of_traind, job_of_checkpoint,
};
use traind_job_file::RunSpec;

use super::list::{read_record, remove};
use crate::error::RunResult;
use crate::output::failed;
use crate::remote::Remote;

/// Removes the checkpoints that traind wrote for earlier jobs, with `overwrite_output_dir`, unless the job continues
/// their run. Those that a waiting job will resume from stay.
pub(super) fn remove_overwritten(spec: &RunSpec) -> RunResult<()> {
    let (intent, folder) = (Intent::of(&spec.job), spec.job.checkpoints());
    let identity = Identity::of(folder).map_err(failed("look up", folder))?;
    if !intent.overwrites || intent.continues(&identity) {
        return Ok(());
    }
    let held = held_steps(folder, &spec.job_id);
    for (step, path) in
        checkpoint_steps(folder).map_err(failed("list the checkpoints in", folder))?
    {
        let is_of_other = job_of_checkpoint(&path).is_some_and(|job| job != spec.job_id);
        if is_of_other && !held.contains(&step) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes all checkpoints but the best of a completed run, with `save_total_limit: 1`, as the Trainer does. During the
/// run, the newest is kept as well.
pub(crate) fn keep_best_alone(spec: &RunSpec, remote: &Remote, best: Option<u64>) -> RunResult<()> {
    let train = &spec.job.train;
    let Some(best) = best.filter(|_| train.save_total_limit == Some(1)) else { return Ok(()) };
    let folder = spec.job.checkpoints();
    let (record, held) = (read_record(folder)?, held_steps(folder, &spec.job_id));
    let mut removed = Vec::new();
    for (step, path) in
        checkpoint_steps(folder).map_err(failed("list the checkpoints in", folder))?
    {
        let is_own = record.as_ref().is_none_or(|record| record.has_checkpoint(step));
        if step != best && is_own && is_checkpoint_of_traind(&path) && !held.contains(&step) {
            remove(&path)?;
            removed.push(step);
        }
    }
    // The host has those of the bucket that are not superseded.
    remote.remove_checkpoints(&removed)
}
