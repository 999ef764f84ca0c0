//! The limit of Neuron's compiler on collectives: a program may have few different sets of replica groups.

use std::path::Path;

use traind_job_file::{JobFile, Platform};
use traind_neuron::{replica_groups_max, runtime_version};
use traind_xla::analysis::Collective;
use traind_xla::graph::Participants;

use crate::error::{RunError, RunResult};

/// Fails if a program of the job has more sets of groups than the platform accepts.
pub(super) fn check<'a>(
    job: &JobFile,
    collectives: impl Iterator<Item = &'a Collective>,
) -> RunResult<()> {
    // Without a runtime on this host, the limit of the older ones.
    check_sets(job, collectives, replica_groups_max(runtime_version(Path::new("/"))))
}

fn check_sets<'a>(
    job: &JobFile,
    collectives: impl Iterator<Item = &'a Collective>,
    sets_max: usize,
) -> RunResult<()> {
    let mut sets: Vec<&Participants> = Vec::new();
    for collective in collectives {
        if !sets.contains(&&collective.participants) {
            sets.push(&collective.participants);
        }
    }
    if job.resources.platform != Platform::Neuron || sets.len() <= sets_max {
        return Ok(());
    }
    let (data, parallel) = (job.data_parallel_size(), &job.parallel);
    Err(RunError::Field {
        name: "parallel",
        value: format!("data {data}, tensor {}, pipeline {}", parallel.tensor, parallel.pipeline),
        problem: format!(
            "makes a program with {} different sets of replica groups, and {} accepts {sets_max}; fewer axes with \
             several cores make fewer",
            sets.len(),
            Platform::Neuron
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::candidates::tests::job;

    /// A collective between a core and the one `distance` further.
    fn collective(distance: usize) -> Collective {
        Collective {
            operation: "all_reduce",
            operand_bytes: 4,
            result_bytes: 4,
            participants: Participants::Groups(vec![vec![0, distance]].into()),
        }
    }

    #[test]
    fn a_neuron_program_has_at_most_12_sets_of_groups_before_runtime_2_34() {
        let check = |platform: &str, sets: usize, runtime: &str| {
            let job = job(&format!("resources: {{cores: 2, platform: {platform}}}"));
            let collectives: Vec<Collective> = (1..=sets).chain(1..=sets).map(collective).collect();
            let sets_max = replica_groups_max(traind_neuron::Version::parse(runtime));
            check_sets(&job, collectives.iter(), sets_max).map_err(|error| error.to_string())
        };
        assert_eq!(check("neuron", 12, "2.33"), Ok(()), "each of them twice");
        assert_eq!(check("neuron", 16, "2.34"), Ok(()));
        assert_eq!(check("cpu", 17, "2.33"), Ok(()));
        for (sets, runtime) in [(13, "2.33"), (17, "2.34")] {
            let error = check("neuron", sets, runtime).unwrap_err();
            assert!(error.contains(&format!("{sets} different sets of replica groups")), "{error}");
        }
    }
}
