//! Whether the disk has room for all that the job will keep, looked at before
//! the first step and not found out after hours.

use std::path::Path;

use rustix::fs::statvfs;
use traind_job_file::Train;

use super::resume::Resumed;
use crate::control::Context;
use crate::error::{RunError, RunResult};
use crate::output::{self, failed};
use crate::progress::Timetable;
use crate::state::TrainState;

/// Settings, tokenizer and logs of a checkpoint, beside its tensors.
const OTHER_BYTES: u64 = 64 * 1024;

/// Fails where the checkpoints that are still to come, and the model at the
/// end, will not fit.
pub(crate) fn check_room(
    context: &Context,
    state: &TrainState,
    timetable: &Timetable,
    model_folder: &Path,
    resumed: Option<&Resumed>,
) -> RunResult<()> {
    let job = &context.spec.job;
    let (done, kept) = resumed
        .map_or((0, 0), |resumed| (resumed.step(), resumed.kept(&job.output_dir).len() as u64));
    let (parameters, slots) = state.host_bytes();
    let tokenizer = output::tokenizer_bytes(model_folder);
    let model = parameters + tokenizer + OTHER_BYTES;
    let checkpoints = most(&job.train, timetable.saves_left(done), kept).saturating_sub(kept);
    let needed = model.saturating_add(checkpoints.saturating_mul(model + slots));
    let found = statvfs(&job.output_dir);
    let found =
        found.map_err(|error| failed("measure the disk of", &job.output_dir)(error.into()))?;
    let available = found.f_bavail.saturating_mul(found.f_frsize);
    if needed <= available {
        return Ok(());
    }
    Err(RunError::DiskFull { path: job.output_dir.clone(), needed, available, checkpoints })
}

/// The largest number of checkpoints that are there at a time: one more than
/// are kept, while it is written, and the best.
fn most(train: &Train, left: u64, kept: u64) -> u64 {
    let all = left.saturating_add(kept);
    let best = u64::from(train.load_best_model_at_end);
    match train.save_total_limit {
        Some(limit) => all.min(u64::from(limit) + 1 + best),
        None => all,
    }
}
