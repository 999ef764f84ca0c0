//! Which devices the host has, and what they tell of themselves, behind one trait.
//!
//! A source never fails a call and never makes one wait: a device that is gone, a file that is
//! missing or a program that is not installed leaves figures out. Only `cores`, asked once at
//! the start, says what is wrong, since without cores there is nothing to schedule.

mod cpu;
mod monitor;
mod neuron;
mod neuron_ls;
mod nvidia;
mod patient;
mod sysfs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use traind_proto::v1::DeviceFigures;

/// Where to look. The defaults are those of the vendors' packages.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Neuron's devices in sysfs.
    pub neuron_sysfs: PathBuf,
    /// Folder of `neuron-ls` and `neuron-monitor`.
    pub neuron_tools: PathBuf,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            neuron_sysfs: "/sys/devices/virtual/neuron_device".into(),
            neuron_tools: "/opt/aws/neuron/bin".into(),
        }
    }
}

/// A core that was found; its place in the list is its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundCore {
    /// What the device is: "Trainium1", "NVIDIA H200".
    pub device: String,
    /// Index of the device, which may have several cores.
    pub device_index: u32,
    /// The vendor's name of this very device; empty where there is none.
    pub uuid: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    #[error(
        "no Neuron device is to be found: {sysfs} is not there, and neuron-ls says: {tool}; load the driver \
         (aws-neuronx-dkms), or say how many cores to schedule with --cores"
    )]
    NoNeuron { sysfs: String, tool: String },
    #[error(
        "no NVIDIA GPU is to be found: {0}; install the driver, or say how many cores to schedule with --cores"
    )]
    NoNvidia(String),
}

/// One platform's devices.
pub(crate) trait Discovery: Send + Sync {
    /// All cores in the order of their numbers.
    fn cores(&self) -> Result<Vec<FoundCore>, DiscoveryError>;

    /// What each core tells at this moment, by its number.
    fn figures(&self) -> BTreeMap<u32, DeviceFigures>;
}

/// The source for a platform.
pub(crate) fn of_platform(platform: &str, places: &Places) -> Arc<dyn Discovery> {
    match platform {
        "neuron" => Arc::new(neuron::Neuron::new(places)),
        "cuda" => Arc::new(nvidia::Nvidia::new()),
        _ => Arc::new(cpu::Cpu),
    }
}
