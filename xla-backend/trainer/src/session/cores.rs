//! Opens the cores of a host, and finds the memory of one.

use std::path::Path;

use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{DeviceTraits, ExecutableCache, LocalCores};

use crate::error::{Error, Result};

/// The version of StableHLO whose operations programs have.
const STABLEHLO: [i64; 3] = [1, 0, 0];

/// Opens a plugin for `platform` and its first `count` devices, which form `mesh`.
pub fn open_plugin(plugin: &Path, platform: &str, count: usize, mesh: Mesh) -> Result<LocalCores> {
    let client = Client::new(Plugin::load(plugin)?, &client_options(platform, count))?;
    cores_of(client, count, mesh, None)
}

/// The first `count` devices of a client, which form `mesh`. Programs that try devices are read from `cache` where it
/// has them.
pub fn cores_of(
    client: Client,
    count: usize,
    mesh: Mesh,
    cache: Option<&ExecutableCache>,
) -> Result<LocalCores> {
    check_devices(client.devices().count(), count)?;
    check_stablehlo(client.platform_name(), client.plugin().stablehlo_current_version()?)?;
    let traits = DeviceTraits::of(&client, cache)?;
    check_integers(&client, traits)?;
    Ok(LocalCores::of_host(client, mesh)?.with_traits(traits))
}

/// The devices of a plugin that compiles for them and does not have them: nothing is tried on them, and they are taken
/// to have `traits`.
pub fn cores_to_compile_for(
    plugin: &Path,
    platform: &str,
    count: usize,
    mesh: Mesh,
    traits: DeviceTraits,
) -> Result<LocalCores> {
    let client = Client::new(Plugin::load(plugin)?, &client_options(platform, count))?;
    check_devices(client.devices().count(), count)?;
    check_stablehlo(client.platform_name(), client.plugin().stablehlo_current_version()?)?;
    Ok(LocalCores::of_host(client, mesh)?.with_traits(traits))
}

/// Refuses a plugin that reads older programs alone: it would fail at an operation that it does not know. Plugins may
/// leave their version out.
fn check_stablehlo(platform: &str, newest: Option<[i64; 3]>) -> Result<()> {
    match newest.filter(|newest| *newest < STABLEHLO) {
        None => Ok(()),
        Some(newest) => Err(Error::OldStablehlo { platform: platform.to_owned(), newest }),
    }
}

/// Refuses a host that has lost devices since the daemon discovered them.
fn check_devices(found: usize, cores: usize) -> Result<()> {
    if found < cores { Err(Error::MissingDevices { found, cores }) } else { Ok(()) }
}

/// Refuses NeuronCores whose random bits are others even where integers are computed by parts: dropout, masking and
/// initialization would differ from those of other platforms and resumed runs.
fn check_integers(client: &Client, traits: DeviceTraits) -> Result<()> {
    if !traits.has_other_bits {
        return Ok(());
    }
    Err(Error::InexactIntegers { platform: client.platform_name().to_owned() })
}

/// The options of a client of `count` devices. Only those are visible to the process, so they count
/// from 0 whatever their numbers on the host.
pub fn client_options(platform: &str, count: usize) -> CreateOptions {
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

/// The memory of a core by its kind: that of the host for CPU cores, and the vendor's for
/// NeuronCores.
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
        let error = check_stablehlo("neuron", Some([0, 20, 1])).unwrap_err().to_string();
        assert!(error.contains("up to 0.20.1"), "{error}");
    }

    #[test]
    fn more_cores_than_devices_are_refused() {
        assert!(check_devices(2, 2).is_ok() && check_devices(4, 2).is_ok());
        let error = check_devices(1, 2).unwrap_err().to_string();
        assert!(error.ends_with("1 of 2"), "{error}");
    }
}
