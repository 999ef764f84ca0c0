//! Whether a job would write into a folder that another run writes, perhaps one of another daemon, or destroy files
//! that are not its own.

use std::path::Path;

use traind_folders::{Conflict, Identity, Intent, conflict, holder};
use traind_job_file::JobFile;

use crate::access::account::{Account, with_rights_of};
use crate::control::error::{Error, FieldViolation};

/// Refuses a job whose folders are in use, or have files that it would replace.
pub(crate) fn refuse_occupied(job: &JobFile, account: Option<Account>) -> Result<(), Error> {
    let look_up = || found(&Intent::of(job));
    let found = with_rights_of(account, look_up).map_err(Error::Switch)?;
    super::refuse(found.into_iter().collect())
}

/// The error of a job file, with the violation of folders that are in use if they are.
pub(crate) fn with_occupied(error: Error, job: &JobFile, account: Option<Account>) -> Error {
    match (error, refuse_occupied(job, account)) {
        (Error::JobFile { mut violations }, Err(Error::JobFile { violations: occupied })) => {
            violations.extend(occupied);
            Error::JobFile { violations }
        }
        (error, _) => error,
    }
}

fn found(intent: &Intent) -> Option<FieldViolation> {
    let violation = |field: &str, description: String| {
        Some(FieldViolation { field: field.to_owned(), description })
    };
    let folders = [("output_dir", &intent.output), (intent.checkpoints_field, &intent.checkpoints)];
    for (field, folder) in folders {
        let Some(folder) = folder else { continue };
        if let Some(description) = in_use(folder) {
            return violation(field, description);
        }
    }
    match conflict(intent, None) {
        Ok(None) => None,
        Ok(Some(Conflict { field, folder, problem })) => {
            violation(field, format!("{} {problem}", folder.display()))
        }
        Err(error) => violation("output_dir", format!("cannot be looked up: {error}")),
    }
}

fn in_use(folder: &Path) -> Option<String> {
    let path = Identity::of(folder).ok()?;
    // A lock that cannot be read is the runner's to refuse.
    let holder = holder(path.path()).ok().flatten()?;
    Some(format!(
        "{} is in use by job {} ({}) on {}; name another folder, or wait for that job",
        folder.display(),
        holder.job,
        holder.name,
        holder.host
    ))
}
