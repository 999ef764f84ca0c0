//! Checks before the first step that the disk has space for the checkpoints and the model, rather
//! than failing after hours.

use rustix::fs::statvfs;
use traind_job_file::{JobFile, Train};

use super::resume::Resumed;
use crate::error::{RunError, RunResult};
use crate::model::OpenModel;
use crate::output::{self, failed};
use crate::progress::Timetable;
use crate::state::HostBytes;

/// An estimate of settings and logs, beside the tensors.
const OTHER_BYTES: u64 = 64 * 1024;

/// The state that checkpoints have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedState {
    pub bytes: HostBytes,
    /// Whether hosts write parts of the model before it.
    pub is_over_hosts: bool,
}

/// Fails where the remaining checkpoints and the final model do not fit.
pub(crate) fn check_disk_space(
    job: &JobFile,
    state: SavedState,
    timetable: &Timetable,
    open: &OpenModel,
    resumed: Option<&Resumed>,
    staged_max: Option<u64>,
) -> RunResult<()> {
    let SavedState { bytes: HostBytes { parameters, slots }, is_over_hosts } = state;
    let (done, kept) = resumed
        .map_or((0, 0), |resumed| (resumed.step(), resumed.kept(job.checkpoints()).len() as u64));
    let beside = output::tokenizer_bytes(&open.folder) + OTHER_BYTES;
    let model = open.saved_bytes() + beside;
    // A merged model is float32.
    let last = if job.peft.merge { 2 * parameters + beside } else { model };
    let checkpoints =
        checkpoints_max(&job.train, timetable.saves_left(done), kept).saturating_sub(kept);
    // Those that are uploaded are removed from the disk.
    let checkpoints = staged_max.map_or(checkpoints, |most| checkpoints.min(most));
    let parts = if is_over_hosts { model } else { 0 };
    let needed = last.saturating_add(checkpoints.saturating_mul(model + slots) + parts);
    let disk = statvfs(&job.output_dir)
        .map_err(|error| failed("measure the disk of", &job.output_dir)(error.into()))?;
    let available = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed <= available {
        return Ok(());
    }
    Err(RunError::DiskFull { path: job.output_dir.clone(), needed, available, checkpoints })
}

/// The largest number of checkpoints at one time: those that are kept, the one being written, and
/// the best.
fn checkpoints_max(train: &Train, left: u64, kept: u64) -> u64 {
    let all = left.saturating_add(kept);
    let best = u64::from(train.load_best_model_at_end);
    match train.save_total_limit {
        Some(limit) => all.min(u64::from(limit) + 1 + best),
        None => all,
    }
}
