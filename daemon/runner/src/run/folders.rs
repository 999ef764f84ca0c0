//! The folders that a run writes: created, locked, and free of files that it would destroy.

use std::path::Path;
use std::time::Duration;

use traind_bucket::Lease;
use traind_folders::{Claim, FolderLock, Holder, Identity, Intent, Record, Writes, conflict};
use traind_loader::Error as LoaderError;
use traind_rendezvous::host_name;

use super::Context;
use crate::error::{RunError, RunResult};
use crate::output::{self, failed};

/// A lock of an earlier attempt outlives it for a while where its host was lost, or it is still ending.
const OWN_WAIT_SECONDS: u32 = 120;

/// The folders and locations that no other run may write until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Claims {
    _locks: Vec<FolderLock>,
    _leases: Vec<Lease>,
}

/// Creates and locks the folders into which the first host writes, and begins their records.
pub(super) fn claim(context: &Context) -> RunResult<Claims> {
    if !context.hosts.is_first() {
        return Ok(Claims::default());
    }
    let (job, intent) = (&context.spec.job, intent(context));
    // Before anything is created, and again when no other run can write there any longer.
    refuse_conflict(context, &intent)?;
    output::create_folder(&job.output_dir)?;
    output::create_folder(job.checkpoints())?;
    let mut locks = Vec::new();
    let mut locked: Vec<Identity> = Vec::new();
    for folder in [&intent.output, &intent.checkpoints].into_iter().flatten() {
        let identity = Identity::of(folder).map_err(failed("look up", folder))?;
        if locked.iter().all(|known| !known.is(&identity)) {
            locks.extend(lock(context, folder)?);
            locked.push(identity);
        }
    }
    refuse_conflict(context, &intent)?;
    for folder in [&intent.output, &intent.checkpoints].into_iter().flatten() {
        begin_record(context, &intent, folder)?;
    }
    context.remote.check()?;
    Ok(Claims { _locks: locks, _leases: context.remote.claim(&context.spec)? })
}

/// Returns what the run writes into folders of this host that are not its own alone.
pub(crate) fn intent(context: &Context) -> Intent {
    let mut intent = Intent::of(&context.spec.job);
    if context.remote.output.is_some() {
        intent.output = None;
    }
    if context.remote.checkpoints.is_some() {
        intent.checkpoints = None;
    }
    intent
}

fn refuse_conflict(context: &Context, intent: &Intent) -> RunResult<()> {
    let spec = &context.spec;
    let own = (spec.attempt > 1).then_some(spec.job_id.as_str());
    let found = conflict(intent, own).map_err(failed("look up", &spec.job.output_dir))?;
    found.map_or(Ok(()), |conflict| Err(RunError::OutputOccupied(conflict)))
}

fn lock(context: &Context, folder: &Path) -> RunResult<Option<FolderLock>> {
    let (job, name) = (context.spec.job_id.clone(), context.spec.job.name.clone());
    let holder = Holder { job, name, host: host_name() };
    for waited in 0.. {
        let taken = FolderLock::take(folder, &holder).map_err(failed("lock", folder))?;
        match taken {
            Ok(lock) => return Ok(lock),
            Err(other) if other.job == holder.job && waited < OWN_WAIT_SECONDS => {
                if context.stop.reason().is_some() {
                    return Err(LoaderError::Abandoned.into());
                }
                std::thread::sleep(Duration::from_secs(1));
            }
            Err(holder) => {
                return Err(RunError::OutputInUse { folder: folder.to_owned(), holder });
            }
        }
    }
    Ok(None)
}

/// Results of an evaluation are added to the record of the model that is evaluated.
fn begin_record(context: &Context, intent: &Intent, folder: &Path) -> RunResult<()> {
    let failed = || failed("begin the record of", folder);
    if intent.writes == Writes::Results && Record::read(folder).map_err(failed())?.is_some() {
        return Ok(());
    }
    let claim = Claim { job: &context.spec.job_id, name: &context.spec.job.name };
    Record::begin(folder, claim).map(drop).map_err(failed())
}
