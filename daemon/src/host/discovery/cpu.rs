//! CPUs: one core per processor, without statistics but for the energy that all of them use.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use traind_proto::v1::DeviceFigures;

use super::rapl::Rapl;
use super::{Discovery, DiscoveryError, FoundCore};

pub(super) struct Cpu {
    rapl: Rapl,
}

impl Cpu {
    /// `powercap`: the folder of energy counters, unless it is the kernel's.
    pub(super) fn new(powercap: Option<&Path>) -> Cpu {
        Cpu { rapl: Rapl::new(powercap) }
    }
}

impl Discovery for Cpu {
    fn cores(&self) -> Result<Vec<FoundCore>, DiscoveryError> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let device = model().unwrap_or_else(|| "cpu".to_owned());
        Ok(vec![FoundCore { device, ..FoundCore::default() }; processors])
    }

    fn statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        BTreeMap::new()
    }

    /// Divides the energy of all processors evenly.
    fn energy_joules(&self, core_count: u32) -> BTreeMap<u32, f64> {
        let Some(joules) = self.rapl.joules() else { return BTreeMap::new() };
        (0..core_count).map(|core| (core, joules / f64::from(core_count))).collect()
    }
}

fn model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
