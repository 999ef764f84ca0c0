//! Keeps the checkpoints from which waiting jobs will resume: the jobs that wrote them do not remove them meanwhile.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use traind_folders::{Record, hold, release, step_of_checkpoint};
use traind_job_file::{JobFile, ResumeFrom};

use super::error::{Error, FieldViolation};
use crate::access::account::{Account, with_rights_of};
use crate::jobs::state::JobState;
use crate::jobs::store::{Store, StoreError};

const MANIFEST: &str = "manifest.json";

/// The folders with a checkpoint that an unfinished job holds, by the job's id.
#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<HashMap<String, Held>>);

#[derive(Debug)]
struct Held {
    folder: PathBuf,
    account: Option<Account>,
}

impl Holds {
    /// Holds the checkpoint that a new job resumes from, if traind wrote it. Fails if the checkpoint was removed a
    /// moment ago.
    pub(super) fn place(
        &self,
        id: &str,
        job: &JobFile,
        account: Option<Account>,
    ) -> Result<(), Error> {
        let Some(Resumed { path, folder, step }) = Resumed::of(job) else { return Ok(()) };
        let place = || {
            // The folders of others are theirs.
            let is_noted = Record::read(folder).is_ok_and(|record| record.is_some());
            let is_placed = is_noted && hold(folder, step, id).is_ok();
            (is_placed, path.join(MANIFEST).exists() || !is_noted)
        };
        let (is_placed, is_there) = with_rights_of(account, place).map_err(Error::Switch)?;
        if is_placed {
            let held = Held { folder: folder.to_owned(), account };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), held);
        }
        if is_there {
            return Ok(());
        }
        self.release(id);
        let field = "train.resume_from_checkpoint".to_owned();
        let description = format!("there is no checkpoint {} any longer", path.display());
        Err(Error::JobFile { violations: vec![FieldViolation { field, description }] })
    }

    /// Takes over the holds of jobs that were submitted to an earlier daemon.
    pub(super) fn restore(&self, store: &Store) -> Result<(), StoreError> {
        for job in store.unfinished()?.into_iter().filter(|job| job.parent.is_some()) {
            let job = store.get(&job.id)?;
            let Ok(resolved) = serde_json::from_str::<JobFile>(&job.resolved) else { continue };
            if let Some(Resumed { folder, .. }) = Resumed::of(&resolved) {
                let held = Held { folder: folder.to_owned(), account: job.run_as };
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(job.id, held);
            }
        }
        Ok(())
    }

    /// Releases the checkpoints of jobs that have ended. Those that had not a moment ago are `unfinished`.
    pub(super) fn release_ended(
        &self,
        store: &Store,
        unfinished: &HashSet<String>,
    ) -> Result<(), StoreError> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others: Vec<String> =
            held.keys().filter(|id| !unfinished.contains(*id)).cloned().collect();
        drop(held);
        for id in others {
            match store.get(&id) {
                Ok(job) if !job.state.is_active() && job.state != JobState::Pending => {
                    self.release(&id)
                }
                // It may be about to be stored.
                Ok(_) | Err(StoreError::NoJob { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Releases the checkpoint of a job. A failure leaves a checkpoint on the disk and harms nothing else.
    pub(super) fn release(&self, id: &str) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let Some(Held { folder, account }) = held else { return };
        match with_rights_of(account, || release(&folder, id)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) | Err(error) => tracing::warn!(job = id, %error, "release a checkpoint"),
        }
    }
}

/// The checkpoint on this host that a job resumes from.
struct Resumed<'a> {
    path: &'a Path,
    /// The folder that has the checkpoint.
    folder: &'a Path,
    step: u64,
}

impl Resumed<'_> {
    /// The checkpoint that a job names, if it is on this host.
    fn of(job: &JobFile) -> Option<Resumed<'_>> {
        let Some(ResumeFrom::Folder(path)) = &job.train.resume_from_checkpoint else { return None };
        let folder = path.parent().filter(|folder| folder.is_absolute())?;
        Some(Resumed { path, folder, step: step_of_checkpoint(path)? })
    }
}
