//! Whether a job is within the quotas of its user's group.

use traind_job_file::JobFile;
use traind_wording::counted;

use super::super::daemon::Daemon;
use super::super::error::{Error, FieldViolation};
use crate::access::sharing::{Group, Sharing};
use crate::jobs::cluster::Cluster;
use crate::jobs::store::{Store, StoreError};
use crate::settings::Settings;

/// Refuses a job that its group may not have at any time.
pub(crate) fn refuse_beyond_group(
    job: &JobFile,
    owner: &str,
    settings: &Settings,
) -> Result<(), Error> {
    let sharing = settings.access.now().sharing();
    let Some(Group { name, limits, .. }) = sharing.group_of(owner) else { return Ok(()) };
    let priority = job.resources.priority;
    if let Some(max) = limits.priority_max.filter(|max| priority > *max) {
        let field = "resources.priority".to_owned();
        let description =
            format!("is {priority}; jobs of group {name} may have a priority of {max} at most");
        return Err(Error::JobFile { violations: vec![FieldViolation { field, description }] });
    }
    // Cores of a cluster are none of this host's.
    let is_here = Cluster::of(job.resources.engine).is_none();
    match limits.cores.filter(|limit| is_here && job.resources.cores > *limit) {
        Some(limit) => {
            Err(Error::CoresOfGroup { group: name.clone(), limit, wanted: job.resources.cores })
        }
        None => Ok(()),
    }
}

/// Refuses a job while as many jobs of its group wait as may. The time for it does not depend on the length of the
/// queue. No other job may be stored before this one.
pub(crate) fn refuse_full_queue(
    store: &Store,
    owner: &str,
    settings: &Settings,
) -> Result<(), Error> {
    let sharing = settings.access.now().sharing();
    let Some(group) = sharing.group_of(owner) else { return Ok(()) };
    let Some(limit) = group.limits.queued_jobs else { return Ok(()) };
    let waiting = waiting_jobs(store, &sharing, group)?;
    if waiting < limit as usize {
        return Ok(());
    }
    let jobs = counted(waiting, "waiting job");
    let has = format!("has {jobs}, and may have {limit}");
    Err(Error::Quota { group: group.name.clone(), has })
}

fn waiting_jobs(store: &Store, sharing: &Sharing, group: &Group) -> Result<usize, StoreError> {
    store.pending_of(|owner| sharing.is_member(owner, &group.name))
}

/// Refuses a job whose output would exceed the disk space of its group. `bytes`: what it will write.
pub(crate) fn refuse_full_disk(daemon: &Daemon, owner: &str, bytes: u64) -> Result<(), Error> {
    let sharing = daemon.settings.access.now().sharing();
    let Some(group) = sharing.group_of(owner) else { return Ok(()) };
    let Some(limit) = group.limits.disk_gib.map(|gib| u64::from(gib) << 30) else { return Ok(()) };
    let used = daemon.disk_usage.of_group(&sharing, &group.name);
    if used.saturating_add(bytes) <= limit {
        return Ok(());
    }
    let size = crate::size::bytes;
    let has = format!(
        "uses {} of disk space in the folders of its jobs and may use {}, and this job would write \
         {}; remove output folders, which are measured every {}",
        size(used),
        size(limit),
        size(bytes),
        counted(super::super::disk_usage::PERIOD.as_secs() / 60, "minute")
    );
    Err(Error::Quota { group: group.name.clone(), has })
}
