//! Devices of the host and their statistics, behind one trait.
//!
//! Reading statistics never fails and never waits: a missing device, file or program only leaves
//! values out. Only `cores`, which is called once at startup, returns errors, since without
//! cores there is nothing to schedule.

mod cpu;
mod monitor;
mod neuron;
mod neuron_ls;
mod nvidia;
mod rapl;
mod sysfs;
mod timeout;
mod xids;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use traind_proto::v1::DeviceFigures;

use neuron_ls::NeuronLsError;
pub(crate) use neuron_ls::{CoreUsers, DeviceUser, users as neuron_core_users};
pub(crate) use timeout::TimeoutReader;

/// Paths of drivers and tools. The defaults are those of the kernel and of the vendors' packages.
#[derive(Clone, Debug, Default)]
pub(crate) struct DevicePaths {
    pub neuron: NeuronPaths,
    /// Folder of the CPUs' energy counters in sysfs.
    pub powercap: Option<PathBuf>,
}

/// Paths of Neuron's driver and tools.
#[derive(Clone, Debug)]
pub(crate) struct NeuronPaths {
    /// Folder of the devices in sysfs.
    pub sysfs: PathBuf,
    /// Folder of `neuron-ls` and `neuron-monitor`.
    pub tools: PathBuf,
    /// File with the version of the driver that is loaded.
    pub driver: PathBuf,
}

impl Default for NeuronPaths {
    fn default() -> NeuronPaths {
        NeuronPaths {
            sysfs: "/sys/devices/virtual/neuron_device".into(),
            tools: "/opt/aws/neuron/bin".into(),
            driver: "/sys/module/neuron/version".into(),
        }
    }
}

impl NeuronPaths {
    /// The name of the tool that lists devices.
    pub(crate) const LISTING: &str = "neuron-ls";

    /// Returns the paths for a command, which finds the tools on `PATH`, or else where AWS's packages put them.
    pub(crate) fn of_command() -> NeuronPaths {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = std::env::split_paths(&path).find(|it| it.join(Self::LISTING).is_file());
        let default = NeuronPaths::default();
        NeuronPaths { tools: tools.unwrap_or_else(|| default.tools.clone()), ..default }
    }
}

/// A discovered core. Its index in the list is its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundCore {
    /// Name of the device: "Trainium1", "NVIDIA H200".
    pub device: String,
    /// Index of the device, which may have several cores.
    pub device_index: u32,
    /// The vendor's unique id of the device; empty if it has none.
    pub uuid: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    #[error(
        "found no Neuron device: {sysfs} does not exist, and neuron-ls failed: {source}; load the driver \
         (aws-neuronx-dkms), or set the number of cores with --cores"
    )]
    NoNeuron { sysfs: String, source: NeuronLsError },
    #[error(
        "found no NVIDIA GPU: {0}; install the driver, or set the number of cores with --cores"
    )]
    NoNvidia(String),
    #[error(
        "NEURON_LOGICAL_NC_CONFIG is {config}, which {device} does not have: it is 1 on trn1 and inf2, and 1 or 2 on \
         trn2 and trn3"
    )]
    LogicalConfig { config: String, device: String },
    #[error("NEURON_RT_VISIBLE_CORES is {given}, and {problem}")]
    VisibleCores { given: String, problem: String },
}

/// Counters of hardware errors that no program can cause, by name.
pub(crate) type Faults = BTreeMap<String, u64>;

/// One platform's devices.
pub(crate) trait Discovery: Send + Sync {
    /// All cores in the order of their numbers.
    fn cores(&self) -> Result<Vec<FoundCore>, DiscoveryError>;

    /// Current statistics of each core, by its number.
    fn statistics(&self) -> BTreeMap<u32, DeviceFigures>;

    /// Whether devices of this platform count hardware errors.
    fn counts_faults(&self) -> bool {
        false
    }

    /// Hardware errors of each core since some time, by its number. Without entries where no device counts
    /// them.
    fn faults(&self) -> BTreeMap<u32, Faults> {
        BTreeMap::new()
    }

    /// Energy that each core has used since some time, in joules, by its number. The host has
    /// `core_count` cores. Without entries where no device reports it.
    fn energy_joules(&self, _core_count: u32) -> BTreeMap<u32, f64> {
        BTreeMap::new()
    }
}

/// Returns the source for a platform.
pub(crate) fn of_platform(platform: &str, paths: &DevicePaths) -> Arc<dyn Discovery> {
    match platform {
        "neuron" => Arc::new(neuron::Neuron::new(&paths.neuron)),
        "cuda" => Arc::new(nvidia::Nvidia::new()),
        _ => Arc::new(cpu::Cpu::new(paths.powercap.as_deref())),
    }
}
