//! The limit of Neuron's compiler on collectives: a program may have few different sets of replica groups.

use traind_job_file::{JobFile, Platform};
use traind_xla::analysis::Collective;
use traind_xla::graph::Participants;

use crate::error::{RunError, RunResult};

/// Different sets of groups that Neuron's compiler accepts in a program.
const SETS_MAX: usize = 16;

/// Fails if a program of the job has more sets of groups than the platform accepts.
pub(super) fn check<'a>(
    job: &JobFile,
    collectives: impl Iterator<Item = &'a Collective>,
) -> RunResult<()> {
    let mut sets: Vec<&Participants> = Vec::new();
    for collective in collectives {
        if !sets.contains(&&collective.participants) {
            sets.push(&collective.participants);
        }
    }
    if job.resources.platform != Platform::Neuron || sets.len() <= SETS_MAX {
        return Ok(());
    }
    let (data, parallel) = (job.data_parallel_size(), &job.parallel);
    Err(RunError::Field {
        name: "parallel",
        value: format!("data {data}, tensor {}, pipeline {}", parallel.tensor, parallel.pipeline),
        problem: format!(
            "makes a program with {} different sets of replica groups, and {} accepts {SETS_MAX}; fewer axes with \
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
    fn a_neuron_program_has_at_most_16_sets_of_groups() {
        let check_sets = |platform: &str, sets: usize| {
            let job = job(&format!("resources: {{cores: 2, platform: {platform}}}"));
            let collectives: Vec<Collective> = (1..=sets).chain(1..=sets).map(collective).collect();
            check(&job, collectives.iter()).map_err(|error| error.to_string())
        };
        assert_eq!(check_sets("neuron", 16), Ok(()), "each of them twice");
        assert_eq!(check_sets("cpu", 17), Ok(()));
        let error = check_sets("neuron", 17).unwrap_err();
        assert!(error.contains("17 different sets of replica groups"), "{error}");
    }
}
