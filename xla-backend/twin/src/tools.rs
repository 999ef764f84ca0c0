//! Stand-ins for `neuron-ls` and `neuron-monitor`, and a tree like the driver's in sysfs, all of one machine.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::machine::holders;
use crate::options::Versions;
use crate::{Machine, Options};

/// The counters of executions of a core, by the driver's sources.
const STATUSES: [&str; 24] = [
    "success",
    "failure",
    "timeout",
    "exec_bad_input",
    "hw_error",
    "execute_completed_with_error",
    "execute_completed_with_num_error",
    "generic_error",
    "resource_error",
    "resource_nc_error",
    "execute_failed_to_queue",
    "invalid_error",
    "unsupported_neff_version",
    "oob_error",
    "hw_collectives_error",
    "hw_hbm_ue_error",
    "hw_nc_ue_error",
    "hw_dma_abort_error",
    "execute_sw_nq_overflow",
    "execute_sw_semaphore_error",
    "execute_sw_event_error",
    "execute_sw_psum_collision",
    "execute_sw_sequencer_fatal",
    "hw_repairable_hbm_ue_error",
];
/// Counters of a device.
const HARDWARE: [&str; 5] = [
    "mem_ecc_corrected",
    "mem_ecc_uncorrected",
    "mem_ecc_repairable_uncorrected",
    "sram_ecc_corrected",
    "sram_ecc_uncorrected",
];

/// The output of `neuron-ls -j`. `locks`: the folder in which processes hold cores.
pub fn neuron_ls(machine: &Machine, locks: Option<&Path>) -> Value {
    let per_device = machine.cores_per_device();
    let holders = locks.map(holders).unwrap_or_default();
    let processes = |device: u32| -> Vec<Value> {
        let cores = device * per_device..(device + 1) * per_device;
        let of_device: BTreeSet<u32> = holders.range(cores).map(|(_, process)| *process).collect();
        of_device.into_iter().map(process).collect()
    };
    let device = |index: u32| {
        json!({
            "neuron_device": index,
            "bdf": format!("{:02x}:00.0", index + 0x10),
            "connected_to": machine.instance.connected_to(index),
            "nc_count": per_device,
            "logical_neuroncore_config": machine.kind.logical_config,
            "memory_size": machine.instance.memory_bytes,
            "neuroncore_ids": (index * per_device..(index + 1) * per_device).collect::<Vec<_>>(),
            "cpu_affinity": "0-95",
            "numa_node": "0",
            "neuron_processes": processes(index),
        })
    };
    (0..machine.instance.devices).map(device).collect()
}

fn process(id: u32) -> Value {
    let command = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    json!({"pid": id, "command": command.trim(), "neuron_runtime_version": "2.34.10"})
}

/// A line of `neuron-monitor`: all cores idle.
pub fn neuron_monitor(machine: &Machine) -> Value {
    let cores =
        (0..machine.cores()).map(|core| (core.to_string(), json!({"neuroncore_utilization": 0.0})));
    let cores: serde_json::Map<String, Value> = cores.collect();
    json!({
        "neuron_runtime_data": [{"pid": 1, "neuron_runtime_tag": "", "error": "", "report": {
            "neuroncore_counters": {"period": 1.0, "neuroncores_in_use": cores},
            "execution_stats": {"error_summary": {"generic": 0, "hardware": 0}, "latency_stats": null},
        }}],
        "instance_info": {"instance_type": machine.instance.name},
        "neuron_hardware_info": {
            "neuroncore_version": machine.kind.kind.trim_start_matches("NC_"),
            "neuron_device_type": machine.instance.generation.device_name().to_lowercase(),
            "neuron_device_count": machine.instance.devices,
            "neuron_device_memory_size": machine.instance.memory_bytes,
            "neuroncore_per_device_count": machine.cores_per_device(),
            "logical_neuroncore_config": machine.kind.logical_config,
        },
    })
}

/// Writes the driver's tree below `root`, with the version of the driver in `root/version`.
pub fn write_sysfs(machine: &Machine, driver: &str, root: &Path) -> io::Result<()> {
    let generation = machine.instance.generation;
    write(&root.join("version"), driver)?;
    // All cores have the same ones, of which none changes.
    for status in STATUSES {
        write(&root.join("status").join(status).join("total"), "0")?;
    }
    for index in 0..machine.instance.devices {
        let device = root.join(format!("neuron{index}"));
        let connected = machine.instance.connected_to(index).into_iter();
        let connected: Vec<String> = connected.map(|it| it.to_string()).collect();
        for (name, text) in [
            ("core_count", generation.physical_cores().to_string()),
            ("connected_devices", connected.join(", ")),
        ] {
            write(&device.join(name), &text)?;
            // The driver lets root alone read them.
            fs::set_permissions(device.join(name), fs::Permissions::from_mode(0o400))?;
        }
        write(&device.join("info/architecture/device_name"), generation.device_name())?;
        write(&device.join("info/serial_number"), "00000000000000ff")?;
        write(&device.join("info/architecture/instance_type"), machine.instance.name)?;
        for counter in HARDWARE {
            write(&device.join("stats/hardware").join(counter), "0")?;
        }
        if generation.default_logical_config() == 2 {
            let health = device.join("stats/hardware/health_status");
            write(&health.join("unhealthy_components"), "0")?;
            write(&health.join("healthcheck_heartbeat"), "1")?;
        }
        for core in 0..generation.physical_cores() {
            let stats = device.join(format!("neuron_core{core}/stats"));
            write(&stats.join("memory_usage/device_mem/total"), "0")?;
            for counter in ["nc_time_in_use", "inference_count", "flop_count"] {
                write(&stats.join("other_info").join(counter).join("total"), "0")?;
            }
            let link = stats.join("status");
            // An earlier call may have left one.
            let _ = fs::remove_file(&link);
            symlink("../../../status", link)?;
        }
    }
    Ok(())
}

/// Writes what packages leave below `root`: the folders with the versions of compiler and plugin, and the libraries of
/// the runtime, of which nobody loads one.
pub fn write_packages(options: &Options, root: &Path) -> io::Result<()> {
    let library = root.join("lib");
    let Versions { compiler, plugin } = options.versions();
    for package in [format!("neuronx_cc-{compiler}"), format!("libneuronxla-{plugin}")] {
        let folder = library.join("python3.11/site-packages").join(package + ".dist-info");
        fs::create_dir_all(folder)?;
    }
    let runtime = format!("libnrt.so.{}", options.runtime);
    for name in [runtime.as_str(), "libnccom.so.2", "libncfw.so.2"] {
        fs::write(library.join(name), "")?;
    }
    let link = library.join("libnrt.so.1");
    // An earlier call may have left one.
    let _ = fs::remove_file(&link);
    symlink(runtime, link)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{text}\n"))
}
