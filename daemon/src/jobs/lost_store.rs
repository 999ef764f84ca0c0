//! Refusal of a job store that is older than the records of its jobs, as after its write-ahead log was
//! lost. Jobs that such a store has forgotten would be lost, and those that it takes for waiting would run
//! twice.

use std::io;
use std::path::Path;

use crate::host::process::Identity;
use crate::jobs::record;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{Store, StoreError, is_blank};
use crate::jobs::supervisor::claim::{self, Claim};

/// Refuses to start without a store if there are records of jobs: a new, empty store would not
/// know those jobs and their runners.
pub(crate) fn refuse_blank_store(state_dir: &Path, store: &Path) -> Result<(), StoreError> {
    let records = record::folder(state_dir);
    let jobs = records.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    match is_blank(store) && jobs {
        true => Err(StoreError::Lost { path: store.to_owned(), records }),
        false => Ok(()),
    }
}

/// Refuses a store that knows less than the records. A job is recorded after the store has it, and an
/// attempt is claimed after the store has placed it.
pub(crate) fn refuse_outdated_store(
    state_dir: &Path,
    path: &Path,
    store: &Store,
) -> Result<(), StoreError> {
    let problems = problems(state_dir, store)?;
    let Some(example) = problems.first() else { return Ok(()) };
    Err(StoreError::Outdated {
        path: path.to_owned(),
        records: record::folder(state_dir),
        count: problems.len(),
        example: example.clone(),
    })
}

/// Describes jobs about which the records know more than the store does.
pub(crate) fn problems(state_dir: &Path, store: &Store) -> Result<Vec<String>, StoreError> {
    let list_error = |source| StoreError::Records { path: record::folder(state_dir), source };
    let unknown = record::unknown(state_dir, &store.ids()?).map_err(list_error)?;
    let mut problems: Vec<String> = unknown
        .into_iter()
        .map(|id| format!("job {id} has a folder and is not in the store"))
        .collect();
    for job in store.unfinished()? {
        let run_dir = RunDir::new(state_dir, &job.id);
        let newer = run_dir.claimed_attempts().into_iter().filter(|it| *it > job.attempt);
        problems.extend(newer.filter(|it| is_running(&run_dir, *it)).map(|attempt| {
            let (id, known) = (&job.id, job.attempt);
            format!("job {id} runs its attempt {attempt}, and the store knows {known}")
        }));
    }
    Ok(problems)
}

/// Whether the attempt may have runners now.
fn is_running(run_dir: &RunDir, attempt: u32) -> bool {
    let read: io::Result<Claim> = claim::read(&run_dir.claim(attempt));
    match read {
        Ok(Claim::Runner(runner)) => Identity::is_alive(&runner),
        Ok(Claim::Cluster(_)) => true,
        Ok(Claim::Adopted | Claim::Void) | Err(_) => false,
    }
}
