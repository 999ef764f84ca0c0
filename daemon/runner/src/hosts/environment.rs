//! The environment of Neuron's plugin and runtime, which they read when their libraries are loaded: of a run without a
//! daemon, and of a job over several hosts.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use traind_job_file::{Platform, RunSpec};
use traind_neuron::{
    CLIENT_API, CompilerFlags, InstalledCompiler, ROOT_COMM_PORT, ROOT_COMM_PORTS, Version,
};
use traind_rendezvous::{Address, Placement};

use crate::error::{RunError, RunResult};

/// The port of Neuron's root communicator above that of the rendezvous. Another program that has it makes the job's
/// first collective wait for ever, so administrators reserve both (`net.ipv4.ip_local_reserved_ports`).
const ROOT_COMM_OFFSET: u16 = 1;
const ROOT_COMM: &str = "NEURON_RT_ROOT_COMM_ID";

/// Starts this program again with the variables that the platform needs, unless they are set. Returns if
/// nothing is to be done. Setting variables of a running process is not safe.
pub(crate) fn apply(spec: &RunSpec, placement: Option<&Placement>) -> RunResult<()> {
    if spec.job.resources.platform != Platform::Neuron {
        return Ok(());
    }
    let cores = spec.job.resources.cores;
    let mut missing = defaults(cores, |name| std::env::var(name).ok());
    if let Some(placement) = placement.filter(|placement| placement.size > 1) {
        missing.extend(variables(placement, cores)?);
    }
    missing.retain(|name, value| std::env::var(name).as_ref() != Ok(value));
    if missing.is_empty() {
        return Ok(());
    }
    Err(RunError::Service(start_again(&missing).into()))
}

/// Returns only where it fails.
fn start_again(variables: &BTreeMap<&'static str, String>) -> io::Error {
    let arguments = std::env::args_os().skip(1);
    match std::env::current_exe() {
        Ok(program) => Command::new(program).args(arguments).envs(variables).exec(),
        Err(error) => error,
    }
}

/// The variables that a daemon would have set, as far as `given` does not return them.
fn defaults(cores: u32, given: impl Fn(&str) -> Option<String>) -> BTreeMap<&'static str, String> {
    let path = given("PATH").unwrap_or_default();
    let compiler = InstalledCompiler::find(path.as_ref());
    let flags = CompilerFlags {
        compiler: compiler.and_then(|it| Version::parse(&it.version?)),
        logical_config: given("NEURON_LOGICAL_NC_CONFIG").and_then(|it| it.trim().parse().ok()),
    };
    let mut defaults = BTreeMap::from([
        ("NEURON_CC_FLAGS", flags.to_flags()),
        ("NEURON_INTERNAL_PJRT_C_API_VERSION", CLIENT_API.to_string()),
        (ROOT_COMM, format!("127.0.0.1:{}", free_port())),
    ]);
    if given("NEURON_RT_VISIBLE_CORES").is_none() {
        defaults.insert("NEURON_RT_NUM_CORES", cores.to_string());
    }
    defaults.retain(|name, _| given(name).is_none());
    defaults
}

/// A port for the collectives of this process, of those that administrators reserve: a cluster may run other jobs on
/// this host.
fn free_port() -> u16 {
    let first = std::process::id() % ROOT_COMM_PORTS;
    let ports = (0..ROOT_COMM_PORTS).map(|it| ROOT_COMM_PORT + (first + it) % ROOT_COMM_PORTS);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let free = ports.filter_map(|port| u16::try_from(port).ok()).find(is_free);
    free.unwrap_or(ROOT_COMM_PORT as u16)
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
        (ROOT_COMM, root.to_string()),
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
    fn a_run_without_a_daemon_has_its_variables() {
        let found =
            defaults(8, |name| (name == "NEURON_LOGICAL_NC_CONFIG").then(|| "1".to_owned()));
        let expected = [
            ("NEURON_CC_FLAGS", "--model-type=transformer -O1 --auto-cast=none --lnc=1"),
            ("NEURON_INTERNAL_PJRT_C_API_VERSION", "0.81"),
            ("NEURON_RT_NUM_CORES", "8"),
        ];
        let others = found.iter().filter(|(name, _)| **name != ROOT_COMM);
        let others: Vec<(&str, &str)> = others.map(|(name, value)| (*name, &**value)).collect();
        assert_eq!(others, expected);
        let port: u32 = found[ROOT_COMM].strip_prefix("127.0.0.1:").unwrap().parse().unwrap();
        assert!((ROOT_COMM_PORT..ROOT_COMM_PORT + ROOT_COMM_PORTS).contains(&port));
        // Values of a daemon or of the user stay.
        assert!(defaults(8, |_| Some("0".to_owned())).is_empty());
        let visible = |name: &str| (name == "NEURON_RT_VISIBLE_CORES").then(|| "4-5".to_owned());
        assert!(!defaults(2, visible).contains_key("NEURON_RT_NUM_CORES"));
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
