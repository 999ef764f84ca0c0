//! The place that the launcher gave this process, checked against the job.

use traind_job_file::JobFile;
use traind_rendezvous::Placement;

use crate::error::{RunError, RunResult};

/// Returns the place of this process; `None` where the job runs on one host and no launcher started it.
pub(crate) fn placement_of(job: &JobFile) -> RunResult<Option<Placement>> {
    let placement = Placement::of_environment()?;
    check(job.resources.hosts, placement)
}

fn check(hosts: u32, placement: Option<Placement>) -> RunResult<Option<Placement>> {
    let problem = match &placement {
        None if hosts == 1 => return Ok(None),
        Some(placement) if placement.size == hosts => return Ok(Some(placement.clone())),
        Some(placement) => {
            let Placement { launcher, size, .. } = placement;
            format!("{launcher} started {size}; set resources.hosts to {size}, or start {hosts}")
        }
        None => "no launcher started this one; start it with srun, mpirun or Kubernetes, or set \
                 TRAIND_HOST_RANK, TRAIND_HOSTS and TRAIND_COORDINATOR"
            .to_owned(),
    };
    let (name, value) = ("resources.hosts", hosts.to_string());
    Err(RunError::Field { name, value, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(size: u32) -> Option<Placement> {
        Some(Placement { launcher: "Slurm", rank: 0, size, coordinator: None })
    }

    #[test]
    fn the_launcher_starts_as_many_runners_as_the_job_has_hosts() {
        assert_eq!(check(1, None).unwrap(), None);
        assert_eq!(check(4, placed(4)).unwrap(), placed(4));
        assert_eq!(check(1, placed(1)).unwrap(), placed(1));
        let error = check(2, placed(4)).unwrap_err().to_string();
        assert!(error.contains("resources.hosts") && error.contains("Slurm started 4"), "{error}");
        let error = check(2, None).unwrap_err().to_string();
        assert!(error.contains("no launcher") && error.contains("TRAIND_HOST_RANK"), "{error}");
    }
}
