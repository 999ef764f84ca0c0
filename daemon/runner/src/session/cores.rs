//! Opens the cores of a job, and finds the memory of one.

use std::path::Path;

use traind_job_file::{Platform, RunSpec};
use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{DeviceTraits, LocalCores};

use super::compilers::give_up_on;
use crate::control::Stop;
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;

/// The version of StableHLO whose operations programs have.
const STABLEHLO: [i64; 3] = [1, 0, 0];

/// Opens the plugin and as many of its devices as the job has cores on this host, which form `mesh`. The GPUs of the
/// hosts with the same stages become one client's, once all of these have called this.
pub(crate) fn open_cores(
    spec: &RunSpec,
    mesh: Mesh,
    hosts: &Hosts,
    stop: &Stop,
) -> RunResult<LocalCores> {
    match spec.job.resources.platform {
        // Its compiler, which may take minutes, is a process of its own.
        Platform::Neuron => give_up_on(stop, || open(spec, mesh, hosts)),
        _ => open(spec, mesh, hosts),
    }
}

fn open(spec: &RunSpec, mesh: Mesh, hosts: &Hosts) -> RunResult<LocalCores> {
    let (platform, count) = (spec.job.resources.platform, spec.cores.len());
    let is_one_client = platform == Platform::Cuda && mesh.hosts() > 1;
    match hosts.store(mesh.pipeline_place())?.filter(|_| is_one_client) {
        None => open_plugin(&spec.plugin, &platform.to_string(), count, mesh),
        Some(store) => {
            let options = client_options(&platform.to_string(), count)
                .with("node_id", mesh.data_place() as i64)
                .with("num_nodes", mesh.hosts() as i64);
            cores_of(Client::with_store(Plugin::load(&spec.plugin)?, &options, store)?, count, mesh)
        }
    }
}

/// Opens a plugin for `platform` and its first `count` devices, which form `mesh`.
pub(crate) fn open_plugin(
    plugin: &Path,
    platform: &str,
    count: usize,
    mesh: Mesh,
) -> RunResult<LocalCores> {
    cores_of(Client::new(Plugin::load(plugin)?, &client_options(platform, count))?, count, mesh)
}

fn cores_of(client: Client, count: usize, mesh: Mesh) -> RunResult<LocalCores> {
    check_devices(client.devices().count(), count)?;
    check_stablehlo(client.platform_name(), client.plugin().stablehlo_current_version()?)?;
    let traits = DeviceTraits::of(&client)?;
    check_integers(&client, traits)?;
    Ok(LocalCores::of_host(client, mesh)?.with_traits(traits))
}

/// Refuses a plugin that reads older programs alone: it would fail at an operation that it does not know. Plugins may
/// leave their version out.
fn check_stablehlo(platform: &str, newest: Option<[i64; 3]>) -> RunResult<()> {
    match newest.filter(|newest| *newest < STABLEHLO) {
        None => Ok(()),
        Some([major, minor, patch]) => Err(RunError::Field {
            name: "resources.platform",
            value: platform.to_owned(),
            problem: format!(
                "has a plugin that reads StableHLO up to {major}.{minor}.{patch}, and programs are of 1.0.0: install \
                 a newer plugin"
            ),
        }),
    }
}

/// Refuses a host that has lost devices since the daemon discovered them.
fn check_devices(found: usize, cores: usize) -> RunResult<()> {
    if found < cores { Err(RunError::MissingDevices { found, cores }) } else { Ok(()) }
}

/// Refuses NeuronCores whose random bits are others even where integers are computed by parts: dropout, masking and
/// initialization would differ from those of other platforms and resumed runs.
fn check_integers(client: &Client, traits: DeviceTraits) -> RunResult<()> {
    if !traits.has_other_bits {
        return Ok(());
    }
    Err(RunError::Field {
        name: "resources.platform",
        value: client.platform_name().to_owned(),
        problem: "computes 32-bit integers inexactly, on which random numbers depend: update \
                  neuronx-cc to 2.25 or newer"
            .to_owned(),
    })
}

/// The daemon makes only the job's devices visible to the process, so they count from 0 here
/// whatever their numbers on the host.
pub(super) fn client_options(platform: &str, count: usize) -> CreateOptions {
    match platform {
        "cpu" => CreateOptions::new().with("cpu_device_count", count as i64),
        "cuda" => {
            let visible: Vec<i64> = (0..count as i64).collect();
            CreateOptions::new().with("visible_devices", visible)
        }
        // The Neuron runtime reads its cores from the environment.
        _ => CreateOptions::new(),
    }
}

/// Returns the memory of a core in bytes, if the device reports it. CPU cores share the host's.
pub(super) fn memory_bytes(cores: &LocalCores) -> Option<u64> {
    let device = cores.device(0);
    let stats = device.memory_stats().ok().flatten();
    let reported = stats.and_then(|stats| u64::try_from(stats.bytes_limit?).ok());
    reported.or_else(|| memory_of_kind(device.kind()))
}

/// The memory of a core by its kind: that of the host for CPU cores, and the vendor's for NeuronCores.
fn memory_of_kind(kind: &str) -> Option<u64> {
    match kind.eq_ignore_ascii_case("cpu") {
        true => host_memory_bytes(),
        false => traind_neuron::core_kind(kind).map(|kind| kind.memory_bytes),
    }
}

fn host_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use traind_proto::reasons;

    use super::*;

    #[test]
    fn a_core_that_reports_no_memory_has_that_of_its_kind() {
        assert_eq!(memory_of_kind("NC_v3d"), Some(24 << 30));
        assert_eq!(memory_of_kind("NC_v2"), Some(16 << 30));
        assert!(memory_of_kind("cpu").is_some_and(|bytes| bytes > 1 << 30));
        assert_eq!(memory_of_kind("A100"), None);
    }

    #[test]
    fn plugins_of_an_older_stablehlo_are_refused() {
        assert!(check_stablehlo("neuron", None).is_ok());
        assert!(check_stablehlo("neuron", Some([1, 13, 2])).is_ok());
        let failure = check_stablehlo("neuron", Some([0, 20, 1])).unwrap_err().failure();
        assert!(failure.message.contains("up to 0.20.1"), "{}", failure.message);
    }

    #[test]
    fn a_job_with_too_few_devices_fails_with_a_reason_of_its_own() {
        assert!(check_devices(2, 2).is_ok() && check_devices(4, 2).is_ok());
        let failure = check_devices(1, 2).unwrap_err().failure();
        assert_eq!(failure.reason, reasons::DEVICE_NOT_FOUND);
        assert!(failure.message.ends_with("1 of 2"), "{}", failure.message);
    }
}
