//! The environment of Neuron's runtime in a job over several hosts, which it reads when its library is loaded.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use traind_job_file::{Platform, RunSpec};
use traind_rendezvous::{Address, Placement};

use crate::error::{RunError, RunResult};

/// The port of Neuron's root communicator above that of the rendezvous. Another program that has it makes the job's
/// first collective wait for ever, so administrators reserve both (`net.ipv4.ip_local_reserved_ports`).
const ROOT_COMM_OFFSET: u16 = 1;

/// Starts this program again with the variables that the platform needs, unless they are set. Returns if
/// nothing is to be done. Setting variables of a running process is not safe.
pub(crate) fn apply(spec: &RunSpec, placement: Option<&Placement>) -> RunResult<()> {
    let Some(placement) = placement.filter(|placement| placement.size > 1) else { return Ok(()) };
    if spec.job.resources.platform != Platform::Neuron {
        return Ok(());
    }
    let mut missing = variables(placement, spec.job.resources.cores)?;
    missing.retain(|name, value| std::env::var(name).as_ref() != Ok(value));
    if missing.is_empty() {
        return Ok(());
    }
    Err(RunError::Service(start_again(&missing).into()))
}

/// Only returns where it fails.
fn start_again(variables: &BTreeMap<&'static str, String>) -> io::Error {
    let arguments = std::env::args_os().skip(1);
    match std::env::current_exe() {
        Ok(program) => Command::new(program).args(arguments).envs(variables).exec(),
        Err(error) => error,
    }
}

/// Source: AWS Neuron's guide to PJRT on several nodes.
fn variables(placement: &Placement, cores: u32) -> RunResult<BTreeMap<&'static str, String>> {
    let Placement { rank, size, coordinator, .. } = placement;
    let Some(Address { host, port }) = coordinator else {
        return Err(RunError::Field {
            name: "TRAIND_COORDINATOR",
            value: String::new(),
            problem: format!("{} does not name host 0; set it to HOST:PORT", placement.launcher),
        });
    };
    let root = Address { host: host.clone(), port: port.saturating_add(ROOT_COMM_OFFSET) };
    let counts = vec![cores.to_string(); *size as usize];
    Ok(BTreeMap::from([
        ("NEURON_RT_ROOT_COMM_ID", root.to_string()),
        ("NEURON_PJRT_PROCESSES_NUM_DEVICES", counts.join(",")),
        ("NEURON_PJRT_PROCESS_INDEX", rank.to_string()),
        ("FI_PROVIDER", "efa".to_owned()),
        ("FI_EFA_USE_DEVICE_RDMA", "1".to_owned()),
        ("FI_EFA_FORK_SAFE", "1".to_owned()),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(coordinator: Option<&str>) -> Placement {
        let coordinator = coordinator.map(|address| address.parse().unwrap());
        Placement { launcher: "Slurm", rank: 1, size: 3, coordinator }
    }

    #[test]
    fn neurons_runtime_learns_of_all_hosts() {
        let found = variables(&placement(Some("trn-1:7733")), 32).unwrap();
        let expected = [
            ("FI_EFA_FORK_SAFE", "1"),
            ("FI_EFA_USE_DEVICE_RDMA", "1"),
            ("FI_PROVIDER", "efa"),
            ("NEURON_PJRT_PROCESSES_NUM_DEVICES", "32,32,32"),
            ("NEURON_PJRT_PROCESS_INDEX", "1"),
            ("NEURON_RT_ROOT_COMM_ID", "trn-1:7734"),
        ];
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (*name, &**value)).collect();
        assert_eq!(found, expected);
        let of_ipv6 = variables(&placement(Some("[fd00::7]:7733")), 32).unwrap();
        assert_eq!(of_ipv6["NEURON_RT_ROOT_COMM_ID"], "[fd00::7]:7734");
        let error = variables(&placement(None), 32).unwrap_err().to_string();
        assert!(error.contains("TRAIND_COORDINATOR"), "{error}");
    }
}
