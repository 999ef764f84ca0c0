//! Programs of two hosts, each a process with two devices, that exchange data by MPI.
//!
//! The test starts this program again as the processes of `mpiexec`, in which each check of
//! `checks` runs. It is skipped where `traind plugins install mpi` was not run.

// Helpers of tests may unwrap as the tests do.
#![allow(clippy::unwrap_used)]

mod checks;
mod steps;
mod support;

use std::process::Command;

use support::{DEVICES, HOSTS};

/// Set by `mpiexec`.
const RANK: &str = "PMI_RANK";

#[test]
fn hosts_exchange_data_inside_programs() {
    let Some(folder) = traind_pjrt::installed_folder("mpi") else {
        eprintln!("skipped: MPI is not installed: run `traind plugins install mpi`");
        return;
    };
    let output = Command::new(folder.join("bin/mpiexec"))
        .args(["-n", &HOSTS.to_string()])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "one_of_the_hosts"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    for host in 0..HOSTS {
        assert!(text.contains(&format!("host {host} is done")), "{text}\n{errors}");
    }
}

#[test]
#[ignore = "is started by the other test"]
fn one_of_the_hosts() {
    let rank: usize = std::env::var(RANK).unwrap().parse().unwrap();
    let library = traind_mpi::installed_library();
    let process = traind_mpi::Process { rank, size: HOSTS, pmi: None };
    let world = traind_mpi::World::start(&library, process, DEVICES).unwrap();
    assert_eq!((world.rank(), world.size()), (rank, HOSTS));

    checks::values_meet_those_of_the_same_replica(rank);
    checks::reductions_over_axes_add_all_cores(rank);
    checks::gradients_are_those_of_the_sum(rank);
    checks::tiny_numbers_are_zero_after_an_exchange(rank);
    checks::overlapping_reductions_end(rank);
    steps::a_step_equals_that_of_one_host(rank);

    let counted = world.statistics();
    assert!(counted.calls > 0 && counted.bytes > 0 && counted.pending == 0, "{counted:?}");
    assert!(!counted.busy.is_zero(), "{counted:?}");
    world.finish().unwrap();
    assert!(matches!(world.finish(), Err(traind_mpi::Error::Ended)));
    println!("host {rank} is done");
}
