//! The rates of a core of each device, for predictions of step times. A core is what a job counts:
//! a NeuronCore, a GPU, or a CPU device.

use traind_job_file::commands::{MpiCost, Processor};
use traind_job_file::{Platform, Train};
use traind_neuron::{CoreKind, Generation, INSTANCES};

use crate::error::{RunError, RunResult};
use crate::rates::{copies_rate, on_each, products_rate};
use crate::{recipe, session};

/// Seconds until a collective's first byte arrives.
pub(super) const LATENCY: f64 = 1e-5;
/// The share of a device's peak that whole steps reach in their dots.
const DOTS_EFFICIENCY: f64 = 0.5;
/// The share of the measured rate of products that whole steps reach in their dots on a processor.
const PROCESSOR_EFFICIENCY: f64 = 0.7;
/// Bytes a second of the network of a host with CPU devices: Ethernet of 10 Gbit/s.
const HOST_NETWORK: f64 = 1.25e9;
/// How often MPI's reduction copies what a core sends, unless it was measured: out of the program's memory and back
/// into it.
const MPI_COPIES: f64 = 2.0;
/// Bytes a second that one thread of MPI moves out of a host's memory to another host: assumed.
const HOST_MESSAGES: f64 = 1e10;
/// The share of the rate of copies at which CPU devices move what a ring would send: they read the memory of all
/// others, and what they write was in no cache.
const COLLECTIVES_EFFICIENCY: f64 = 0.4;
/// Seconds that CPU devices wait for each other at a collective if each has a processor.
const PROCESSOR_LATENCY: f64 = 1e-4;
/// The time added for each device with which one shares its processor: the operating system runs them in turns.
const TURN: f64 = 4e-4;
/// The share of the nominal memory and links that transfers reach.
const TRANSFER_EFFICIENCY: f64 = 0.8;

/// One core. Sizes are in bytes, and rates are for a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Core {
    pub flops: f64,
    pub memory: f64,
    /// The rate to the other cores of its host.
    pub link: f64,
    /// Seconds until they have the first byte of a collective.
    pub latency: f64,
    /// Whether compilers combine collectives that do not depend on each other.
    pub combines: bool,
    /// The core's share of the host's network.
    pub network: f64,
    /// Seconds until the first byte of a collective between hosts arrives.
    pub network_latency: f64,
    /// The rate at which stages on different hosts exchange values through the memory of a host, for all of its cores.
    /// Absent where cores have that memory alone.
    pub host_messages: Option<f64>,
    pub memory_bytes: Option<u64>,
}

struct Device {
    /// The name that `traind plan --device` takes.
    name: &'static str,
    platform: Platform,
    /// The plugin's name of the device, by which its peak is found.
    kind: &'static str,
    memory_gigabytes: f64,
    /// Gigabytes a second.
    memory: f64,
    link: f64,
    network: f64,
}

const fn device(
    name: &'static str,
    platform: Platform,
    kind: &'static str,
    [memory_gigabytes, memory, link, network]: [f64; 4],
) -> Device {
    Device { name, platform, kind, memory_gigabytes, memory, link, network }
}

/// Devices by the vendors' data sheets: memory, and the rates of memory, of links in one direction, and of the
/// network of AWS's largest host with the device.
const DEVICES: &[Device] = &[
    device("h100", Platform::Cuda, "H100", [80.0, 3350.0, 450.0, 50.0]),
    device("h200", Platform::Cuda, "H200", [141.0, 4800.0, 450.0, 50.0]),
    device("a100-80", Platform::Cuda, "A100", [80.0, 2039.0, 300.0, 6.2]),
    device("a100-40", Platform::Cuda, "A100", [40.0, 1555.0, 300.0, 6.2]),
    device("v100", Platform::Cuda, "V100", [32.0, 900.0, 150.0, 1.6]),
];

/// NeuronCores as `traind plan --device` names them, with the instance whose network they share. Those
/// of trn2 and trn3 are logical ones of two physical cores, unless their name says otherwise.
const NEURON_CORES: &[(&str, &str, u32)] = &[
    ("trn1", "trn1.32xlarge", 1),
    ("trn1n", "trn1n.32xlarge", 1),
    ("inf2", "inf2.48xlarge", 1),
    ("trn2", "trn2.48xlarge", 2),
    ("trn2-lnc1", "trn2.48xlarge", 1),
    ("trn3", "trn3", 2),
    ("trn3-lnc1", "trn3", 1),
];

/// A core of the device called `name`, or of the first one of the platform.
pub(super) fn core(platform: Platform, name: &str, train: &Train) -> RunResult<Core> {
    let of_neuron = neuron_devices();
    let is_named = |it: &Device| name.is_empty() || [it.name, it.kind].contains(&name);
    let fits = |it: &&Device| it.platform == platform && is_named(it);
    let found = of_neuron.iter().chain(DEVICES).find(fits);
    let found = found.ok_or_else(|| unknown(platform, name))?;
    let peak = session::peak_flops(found.kind, recipe::precision(train)).unwrap_or_default();
    let giga = |number: f64| TRANSFER_EFFICIENCY * number * 1e9;
    Ok(Core {
        flops: DOTS_EFFICIENCY * peak,
        memory: giga(found.memory),
        link: giga(found.link),
        latency: LATENCY,
        combines: true,
        network: giga(found.network),
        network_latency: LATENCY,
        host_messages: Some(HOST_MESSAGES),
        memory_bytes: Some((found.memory_gigabytes * 1e9) as u64),
    })
}

/// The kind of NeuronCore that `traind plan --device` or the plugin names so, or of the first one.
pub(super) fn neuron_core(name: &str) -> Option<&'static CoreKind> {
    if let Some(kind) = traind_neuron::core_kind(name) {
        return Some(kind);
    }
    let (_, instance, config) =
        NEURON_CORES.iter().find(|(known, ..)| name.is_empty() || *known == name)?;
    generation_of(instance)?.core_kind(*config)
}

/// Returns true for a name of NeuronCores that `traind plan --device` has.
pub(super) fn is_named(name: &str) -> bool {
    NEURON_CORES.iter().any(|(known, ..)| *known == name)
}

/// The device that a search is for where it names none; `None` for platforms whose cores are the host's.
pub(super) fn assumed(platform: Platform) -> Option<&'static str> {
    neuron_devices().iter().chain(DEVICES).find(|it| it.platform == platform).map(|it| it.name)
}

fn generation_of(instance: &str) -> Option<Generation> {
    INSTANCES.iter().find(|it| it.name == instance).map(|it| it.generation)
}

fn neuron_devices() -> Vec<Device> {
    let of = |&(name, instance, config): &(&'static str, &str, u32)| {
        let instance = INSTANCES.iter().find(|it| it.name == instance)?;
        let kind = instance.generation.core_kind(config)?;
        let network = instance.network_rate / f64::from(instance.cores(config));
        let rates = [kind.memory_bytes as f64, kind.memory_rate, kind.link_rate, network];
        Some(device(name, Platform::Neuron, kind.kind, rates.map(|bytes| bytes / 1e9)))
    };
    NEURON_CORES.iter().filter_map(of).collect()
}

/// The error of a device that a platform does not have.
pub(super) fn unknown(platform: Platform, name: &str) -> RunError {
    let of_neuron = neuron_devices();
    let all = of_neuron.iter().chain(DEVICES);
    let names: Vec<&str> = all.filter(|it| it.platform == platform).map(|it| it.name).collect();
    let others = match names[..] {
        [] => "its cores are those of the daemon's host".to_owned(),
        _ => format!("it has {}", names.join(", ")),
    };
    RunError::Field {
        name: "resources.platform",
        value: platform.to_string(),
        problem: format!("has no device {name}; {others}"),
    }
}

/// Measures for a tenth of a second, on all threads at once: they share the memory, and often the clock rate.
pub(super) fn measured_processor() -> Processor {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mean = |rates: Vec<f64>| rates.iter().sum::<f64>() / threads as f64;
    let flops = mean(on_each(threads, products_rate));
    // More than caches have, of all threads or of each.
    let bytes = ((64 << 20) / threads).max(8 << 20);
    let memory = mean(on_each(threads, |start| copies_rate(start, bytes)));
    Processor { flops, memory, threads }
}

/// One of `cores` devices, which share the processor's threads, its memory and the host's network. MPI moves
/// what hosts exchange, by one thread for all devices.
pub(super) fn processor_core(processor: &Processor, cores: u32, mpi: Option<&MpiCost>) -> Core {
    let cores = f64::from(cores.max(1));
    let share = (processor.threads as f64 / cores).min(1.0);
    let memory = processor.memory * share;
    let flops = PROCESSOR_EFFICIENCY * processor.flops * share;
    let wire = TRANSFER_EFFICIENCY * HOST_NETWORK / cores;
    let per_byte = match mpi {
        Some(mpi) => cores / mpi.bytes_per_second,
        None => MPI_COPIES / memory,
    };
    let network = 1.0 / (1.0 / wire + per_byte);
    let network_latency = LATENCY + mpi.map_or(0.0, |mpi| mpi.latency_seconds);
    let others = (cores / processor.threads as f64 - 1.0).max(0.0);
    Core {
        flops,
        memory,
        link: COLLECTIVES_EFFICIENCY * memory,
        latency: PROCESSOR_LATENCY + others * TURN,
        combines: false,
        network,
        network_latency,
        host_messages: None,
        memory_bytes: None,
    }
}

/// How the exchange between hosts of CPU devices is predicted, for display. `problem`: why MPI was not measured.
pub(super) fn network_words(mpi: Option<&MpiCost>, problem: &str) -> String {
    let wire = format!("Ethernet of {:.0} Gbit/s and 10 µs assumed", 8.0 * HOST_NETWORK / 1e9);
    match mpi {
        Some(mpi) => format!(
            "MPI measured on this host: {:.0} µs and {:.2} GB/s; {wire}",
            1e6 * mpi.latency_seconds,
            mpi.bytes_per_second / 1e9
        ),
        None if problem.is_empty() => format!("MPI not measured: two copies assumed; {wire}"),
        None => format!("MPI not measured ({problem}): two copies assumed; {wire}"),
    }
}

#[cfg(test)]
mod tests {
    use traind_job_file::JobFile;

    use super::*;

    fn train() -> Train {
        let yaml = "name: a\nmodel: {name_or_path: ./a, task: causal-lm}\ndata: {train: a.txt}\n\
                    output_dir: out\ntrain: {bf16: true}";
        JobFile::parse(yaml, std::path::Path::new("/")).unwrap().job.train
    }

    #[test]
    fn a_device_has_the_share_of_its_peak() {
        let core = core(Platform::Cuda, "a100-40", &train()).unwrap();
        assert_eq!(core.flops, 0.5 * 312e12);
        assert_eq!(core.memory_bytes, Some(40_000_000_000));
        assert!(core.network < core.link && core.link < core.memory);
    }

    #[test]
    fn every_device_has_a_peak() {
        let of_neuron = neuron_devices();
        assert_eq!(of_neuron.len(), NEURON_CORES.len());
        for it in of_neuron.iter().chain(DEVICES) {
            assert!(
                session::peak_flops(it.kind, recipe::precision(&train())).is_some(),
                "{}",
                it.name
            );
        }
    }

    #[test]
    fn a_core_of_trn2_is_a_logical_one() {
        let core = |name| core(Platform::Neuron, name, &train()).unwrap();
        assert_eq!(core("trn2").memory_bytes, Some(24 << 30));
        assert_eq!(core("trn2").flops, 0.5 * 166.75e12);
        assert_eq!(core("trn2-lnc1").memory_bytes, Some(12 << 30));
        assert_eq!(core("trn3").memory_bytes, Some(36 << 30));
        assert_eq!(core("trn1n").network, 2.0 * core("trn1").network);
        assert_eq!(neuron_core("").unwrap().kind, "NC_v2");
        assert_eq!(neuron_core("trn2").unwrap().kind, "NC_v3d");
    }

    #[test]
    fn an_unknown_device_is_an_error_with_those_that_are_known() {
        let error = core(Platform::Neuron, "h100", &train()).unwrap_err();
        assert!(
            error.to_string().contains("has no device h100; it has trn1, trn1n, inf2, trn2, "),
            "{error}"
        );
    }

    #[test]
    fn a_processor_is_measured() {
        let processor = measured_processor();
        assert!(processor.flops > 1e8 && processor.memory > 1e8, "{processor:?}");
    }

    #[test]
    fn hosts_of_cpu_devices_exchange_by_ethernet_and_mpi() {
        let core = |memory: f64, cores: u32, mpi: Option<&MpiCost>| {
            processor_core(&Processor { flops: 1.0, memory, threads: 8 }, cores, mpi)
        };
        let network = |memory: f64, cores: u32| core(memory, cores, None).network;
        assert!((network(1e15, 1) - 1e9).abs() < 1e4, "the wire's eight tenths");
        assert!((network(1e15, 4) - 0.25e9).abs() < 1e4, "which the cores share");
        assert!((network(2e9, 1) - 0.5e9).abs() < 1e4, "slow memory takes as long again");
        let mpi = MpiCost { latency_seconds: 3e-5, bytes_per_second: 1e9 };
        let measured = |cores: u32| core(1e15, cores, Some(&mpi));
        assert!((measured(1).network - 0.5e9).abs() < 1e4, "MPI takes as long as the wire");
        assert!((measured(4).network - 0.125e9).abs() < 1e4, "and the cores share it too");
        assert!((measured(1).network_latency - 4e-5).abs() < 1e-9);
        let words = network_words(Some(&mpi), "");
        assert!(words.starts_with("MPI measured on this host: 30 µs and 1.00 GB/s; "), "{words}");
        let words = network_words(None, "not installed");
        assert!(words.starts_with("MPI not measured (not installed): two copies "), "{words}");
    }

    #[test]
    fn devices_of_a_processor_share_it() {
        let processor = Processor { flops: 8.0, memory: 4.0, threads: 2 };
        let core = |cores: u32| processor_core(&processor, cores, None);
        assert_eq!((core(1).flops, core(2).flops), (8.0 * PROCESSOR_EFFICIENCY, core(1).flops));
        assert_eq!((core(4).flops, core(4).memory), (core(1).flops / 2.0, 2.0));
        assert_eq!([core(1).latency, core(2).latency], [PROCESSOR_LATENCY; 2]);
        assert!((core(6).latency - PROCESSOR_LATENCY - 2.0 * TURN).abs() < 1e-12);
    }
}
