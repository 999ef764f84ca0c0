//! Programs of two hosts, each a process with two devices, that exchange data by MPI.
//!
//! The test starts this program again as the processes of `mpiexec`, in which each check of
//! `checks` runs. It is skipped where `traind plugins install mpi` was not run.

// Helpers of tests may unwrap and print as the tests do.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod checks;
mod messages;
mod steps;
mod support;

use std::process::Command;

use traind_mpi::{Process, World};

use support::{DEVICES, GRID, HOSTS};

/// Set by `mpiexec`.
const RANK: &str = "PMI_RANK";

#[test]
fn hosts_exchange_data_inside_programs_and_beside_them() {
    run_on_hosts(HOSTS, "one_of_the_hosts");
}

#[test]
fn programs_reduce_over_the_hosts_with_the_same_stages() {
    run_on_hosts(GRID.count(), "one_of_a_grid");
}

/// Starts a test as the processes of `hosts` hosts.
fn run_on_hosts(hosts: usize, test: &str) {
    let Some(folder) = traind_pjrt::installed_folder("mpi") else {
        eprintln!("skipped: MPI is not installed: run `traind plugins install mpi`");
        return;
    };
    let output = Command::new(folder.join("bin/mpiexec"))
        .args(["-n", &hosts.to_string()])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    for host in 0..hosts {
        assert!(text.contains(&format!("host {host} is done")), "{text}\n{errors}");
    }
}

#[test]
#[ignore = "is started by the other test"]
fn one_of_the_hosts() {
    let (rank, world) = start(HOSTS, |_| 0);
    assert_eq!((world.rank(), world.size()), (rank, HOSTS));

    checks::values_meet_those_of_the_same_replica(rank);
    checks::reductions_over_axes_add_all_cores(rank);
    checks::gradients_are_those_of_the_sum(rank);
    checks::parts_are_scattered_and_gathered(rank);
    checks::shards_of_all_cores_are_the_sum(rank);
    checks::gradients_of_shards_meet_all_hosts(rank);
    checks::tiny_numbers_are_zero_after_an_exchange(rank);
    checks::overlapping_reductions_end(rank);
    steps::a_step_equals_that_of_one_host(rank);
    messages::those_with_one_tag_arrive_in_order(world, rank);
    messages::large_ones_are_sent_before_the_other_host_expects_them(world, rank);
    messages::longer_ones_than_expected_are_errors(world, rank);

    let counted = world.statistics();
    assert!(counted.calls > 0 && counted.bytes > 0 && counted.pending == 0, "{counted:?}");
    assert!(!counted.busy.is_zero(), "{counted:?}");
    assert_eq!((counted.messages, counted.message_bytes), messages::sent(), "{counted:?}");
    world.finish().unwrap();
    assert!(matches!(world.finish(), Err(traind_mpi::Error::Ended)));
    println!("host {rank} is done");
}

#[test]
#[ignore = "is started by the other test"]
fn one_of_a_grid() {
    let (rank, world) = start(GRID.count(), |rank| GRID.place(rank).1);
    checks::reductions_add_the_hosts_of_one_place_in_the_pipeline(rank);
    world.finish().unwrap();
    println!("host {rank} is done");
}

/// Joins the other processes, each in the group that `group` gives for its rank.
fn start(hosts: usize, group: impl Fn(usize) -> usize) -> (usize, &'static World) {
    let rank: usize = std::env::var(RANK).unwrap().parse().unwrap();
    let process = Process { rank, size: hosts, group: group(rank), pmi: None };
    (rank, World::start(&traind_mpi::installed_library(), process, DEVICES).unwrap())
}
