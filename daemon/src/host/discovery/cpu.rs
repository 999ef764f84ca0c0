//! CPUs: one core per processor, without statistics.

use std::collections::BTreeMap;
use std::fs;

use traind_proto::v1::DeviceFigures;

use super::{Discovery, DiscoveryError, FoundCore};

pub(super) struct Cpu;

impl Discovery for Cpu {
    fn cores(&self) -> Result<Vec<FoundCore>, DiscoveryError> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let device = model().unwrap_or_else(|| "cpu".to_owned());
        Ok(vec![FoundCore { device, ..FoundCore::default() }; processors])
    }

    fn statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        BTreeMap::new()
    }
}

fn model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
