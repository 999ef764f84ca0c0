//! The limit of Neuron's compiler on collectives: a program may have few different sets of replica groups.

use traind_job_file::{JobFile, Platform};
use traind_xla::analysis::Collective;
use traind_xla::graph::Participants;
use traind_xla::verify::neuron::Limits;

use crate::error::{RunError, RunResult};

/// The number of sets that the newest runtime allows.
const SETS_OF_NEWER: usize = 16;

/// Fails if a program of the job has more sets of groups than the limits allow; none are set but for Neuron.
pub(super) fn check<'a>(
    job: &JobFile,
    collectives: impl Iterator<Item = &'a Collective>,
    limits: Option<&Limits>,
) -> RunResult<()> {
    let Some(sets_max) = limits.map(|limits| limits.replica_groups_max) else { return Ok(()) };
    let mut sets: Vec<&Participants> = Vec::new();
    for collective in collectives {
        if !sets.contains(&&collective.participants) {
            sets.push(&collective.participants);
        }
    }
    if sets.len() <= sets_max {
        return Ok(());
    }
    let (data, parallel) = (job.data_parallel_size(), &job.parallel);
    Err(RunError::Field {
        name: "parallel",
        value: format!("data {data}, tensor {}, pipeline {}", parallel.tensor, parallel.pipeline),
        problem: format!(
            "makes a program with {} different sets of replica groups, and {} accepts {sets_max}{}; fewer axes with \
             several cores make fewer",
            sets.len(),
            Platform::Neuron,
            if sets_max < SETS_OF_NEWER {
                " before runtime 2.34 (`traind plan --neuron-runtime`)"
            } else {
                ""
            }
        ),
    })
}

#[cfg(test)]
mod tests {
    use traind_neuron::Version;

    use super::*;
    use crate::plan::candidates::tests::job;
    use crate::plan::neuron::limits;

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
            let limits = limits(&job, "trn1", Version::parse(runtime));
            super::check(&job, collectives.iter(), limits.as_ref())
                .map_err(|error| error.to_string())
        };
        assert_eq!(check("neuron", 12, "2.33"), Ok(()), "each of them twice");
        assert_eq!(check("neuron", 16, "2.34"), Ok(()));
        assert_eq!(check("cpu", 17, "2.33"), Ok(()));
        for (sets, runtime) in [(13, "2.33"), (17, "2.34")] {
            let error = check("neuron", sets, runtime).unwrap_err();
            assert!(error.contains(&format!("{sets} different sets of replica groups")), "{error}");
            assert_eq!(error.contains("--neuron-runtime"), runtime == "2.33", "{error}");
        }
    }
}
