//! The host of a cluster that a failed job speaks against.

use traind_proto::{reasons, v1};

use crate::clock;
use crate::jobs::cluster::host_list;
use crate::jobs::one_line::one_line;
use crate::jobs::store::{HostSuspicion, Job};

/// Returns the suspicion that follows from a failure: the device of one of the job's own hosts failed. A runner that
/// belongs to a user can say so of its own accord, so its user counts as one witness whatever their jobs say; others
/// run nothing that users can change, and each job counts.
pub(in crate::jobs::supervisor) fn suspicion(
    job: &Job,
    failure: &v1::Failure,
) -> Option<HostSuspicion> {
    job.cluster_kind()?;
    if failure.reason != reasons::DEVICE_FAILED {
        return None;
    }
    let only = (job.hosts == 1).then(|| job.host_names.clone());
    let host = failure.host.clone().or(only)?;
    if !host_list::contains(&job.host_names, &host) {
        return None;
    }
    let witness = match job.run_as {
        Some(account) => format!("user {}", account.uid),
        None => format!("job {}", job.id),
    };
    Some(HostSuspicion {
        engine: job.engine.clone(),
        host,
        witness,
        time: clock::now(),
        reason: one_line(&failure.message).chars().take(REASON_CHARS_MAX).collect(),
    })
}

/// A failure's first line may be long.
const REASON_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::account::Account;
    use crate::jobs::store::{NewJob, Store};

    fn job() -> Job {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob { id: "a".into(), engine: "slurm".into(), hosts: 2, ..NewJob::default() };
        Job { host_names: "n[1-2]".into(), ..store.create(&new).unwrap() }
    }

    fn failed(reason: &str, host: Option<&str>) -> v1::Failure {
        v1::Failure {
            reason: reason.into(),
            message: "core 3 has an error:\nmore".into(),
            host: host.map(str::to_owned),
            ..v1::Failure::default()
        }
    }

    #[test]
    fn only_devices_of_a_jobs_own_hosts_are_suspect() {
        let job = job();
        let host = |reason: &str, host| suspicion(&job, &failed(reason, host)).map(|it| it.host);
        assert_eq!(host("DEVICE_FAILED", Some("n2")).as_deref(), Some("n2"));
        assert_eq!(host("DEVICE_FAILED", Some("n9")), None, "a host that it never had");
        assert_eq!(host("DEVICE_FAILED", None), None, "any of two");
        assert_eq!(host("RUNNER_DIED", Some("n2")), None, "perhaps the job's own fault");
        let single = Job { hosts: 1, host_names: "n1".into(), ..job.clone() };
        let found = suspicion(&single, &failed("DEVICE_FAILED", None)).unwrap();
        assert_eq!((found.host.as_str(), found.reason.as_str()), ("n1", "core 3 has an error"));
        let local = Job { engine: "local".into(), ..single };
        assert_eq!(suspicion(&local, &failed("DEVICE_FAILED", None)), None);
    }

    #[test]
    fn a_user_is_one_witness_whatever_their_jobs_say() {
        let job = job();
        let witness =
            |job: &Job| suspicion(job, &failed("DEVICE_FAILED", Some("n1"))).unwrap().witness;
        assert_eq!(witness(&job), "job a");
        let account = Some(Account { uid: 1000, gid: 100 });
        let of_user = Job { run_as: account, ..job };
        assert_eq!(witness(&of_user), witness(&Job { id: "b".into(), ..of_user.clone() }));
    }
}
