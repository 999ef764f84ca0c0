//! Neuron's devices. sysfs lists them, or else `neuron-ls`; statistics come from
//! `neuron-monitor`, completed from sysfs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use traind_proto::v1::DeviceFigures;

use super::monitor::Monitor;
use super::neuron_ls::{self, NeuronLsError};
use super::sysfs::Sysfs;
use super::{Discovery, DiscoveryError, Faults, FoundCore, NeuronPaths};

pub(super) struct Neuron {
    sysfs: Sysfs,
    neuron_ls: PathBuf,
    monitor: Monitor,
}

impl Neuron {
    pub(super) fn new(paths: &NeuronPaths) -> Neuron {
        Neuron {
            sysfs: Sysfs::new(paths.sysfs.clone(), &paths.driver),
            neuron_ls: paths.tools.join(NeuronPaths::LISTING),
            monitor: Monitor::start(paths.tools.join("neuron-monitor")),
        }
    }
}

impl Discovery for Neuron {
    fn cores(&self) -> Result<Vec<FoundCore>, DiscoveryError> {
        let found = self.sysfs.cores();
        if !found.is_empty() {
            return Ok(found);
        }
        let no_neuron = |source| DiscoveryError::NoNeuron { sysfs: self.sysfs.root(), source };
        let found = neuron_ls::cores(&self.neuron_ls).map_err(no_neuron)?;
        if found.is_empty() { Err(no_neuron(NeuronLsError::NoDevices)) } else { Ok(found) }
    }

    fn counts_faults(&self) -> bool {
        true
    }

    fn faults(&self) -> BTreeMap<u32, Faults> {
        self.sysfs.faults()
    }

    /// The monitor's values take precedence over those of sysfs, core by core, except errors: sysfs
    /// counts them since the driver was loaded, the monitor only while it runs.
    fn statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        let mut statistics = self.sysfs.statistics();
        for (core, newer) in self.monitor.statistics() {
            let known = statistics.entry(core).or_default();
            *known = DeviceFigures {
                utilization_percent: newer.utilization_percent.or(known.utilization_percent),
                memory_used_bytes: newer.memory_used_bytes.or(known.memory_used_bytes),
                memory_total_bytes: newer.memory_total_bytes.or(known.memory_total_bytes),
                temperature_celsius: newer.temperature_celsius.or(known.temperature_celsius),
                power_watts: newer.power_watts.or(known.power_watts),
                errors: known.errors.or(newer.errors),
                memory_by_category: if newer.memory_by_category.is_empty() {
                    std::mem::take(&mut known.memory_by_category)
                } else {
                    newer.memory_by_category
                },
            };
        }
        statistics
    }
}
