//! Neuron's devices: which there are is in sysfs, or else what `neuron-ls` says; what their
//! cores do is what `neuron-monitor` says, and sysfs where it says nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use traind_proto::v1::DeviceFigures;

use super::monitor::Monitor;
use super::sysfs::Sysfs;
use super::{Discovery, DiscoveryError, FoundCore, Places, neuron_ls};

/// A device that tells of more has lost its mind: the largest have eight.
pub(super) const CORES_MAX: u32 = 64;

pub(super) struct Neuron {
    sysfs: Sysfs,
    neuron_ls: PathBuf,
    monitor: Monitor,
}

impl Neuron {
    pub(super) fn new(places: &Places) -> Neuron {
        Neuron {
            sysfs: Sysfs::new(places.neuron_sysfs.clone()),
            neuron_ls: places.neuron_tools.join("neuron-ls"),
            monitor: Monitor::start(places.neuron_tools.join("neuron-monitor")),
        }
    }
}

impl Discovery for Neuron {
    fn cores(&self) -> Result<Vec<FoundCore>, DiscoveryError> {
        let found = self.sysfs.cores();
        if !found.is_empty() {
            return Ok(found);
        }
        let no_neuron = |tool| DiscoveryError::NoNeuron { sysfs: self.sysfs.root(), tool };
        let found = neuron_ls::cores(&self.neuron_ls).map_err(no_neuron)?;
        if found.is_empty() { Err(no_neuron("no devices".to_owned())) } else { Ok(found) }
    }

    /// A figure of the monitor counts more than one of sysfs, core by core; but sysfs counts errors
    /// since the driver was loaded, and the monitor those that it saw.
    fn figures(&self) -> BTreeMap<u32, DeviceFigures> {
        let mut figures = self.sysfs.figures();
        for (core, told) in self.monitor.figures() {
            let known = figures.entry(core).or_default();
            *known = DeviceFigures {
                utilization_percent: told.utilization_percent.or(known.utilization_percent),
                memory_used_bytes: told.memory_used_bytes.or(known.memory_used_bytes),
                memory_total_bytes: told.memory_total_bytes.or(known.memory_total_bytes),
                temperature_celsius: told.temperature_celsius.or(known.temperature_celsius),
                power_watts: told.power_watts.or(known.power_watts),
                errors: known.errors.or(told.errors),
                memory_by_category: if told.memory_by_category.is_empty() {
                    std::mem::take(&mut known.memory_by_category)
                } else {
                    told.memory_by_category
                },
            };
        }
        figures
    }
}
