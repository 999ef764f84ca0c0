//! The cores that this daemon schedules.

use std::fs;
use std::num::NonZeroU32;

/// A platform's cores on this host.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// "cpu", "cuda" or "neuron".
    pub platform: String,
    pub cores: Vec<u32>,
    /// What a core is, in words.
    pub device: String,
}

impl Host {
    /// `core_count` cores of `platform`; by default as many as the host has processors.
    pub(crate) fn new(platform: &str, core_count: Option<NonZeroU32>) -> Host {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let count = core_count.map_or(processors, NonZeroU32::get);
        Host {
            platform: platform.to_owned(),
            cores: (0..count).collect(),
            device: device(platform),
        }
    }

    pub(crate) fn core_count(&self) -> u32 {
        self.cores.len() as u32
    }
}

fn device(platform: &str) -> String {
    let cpu = (platform == "cpu").then(cpu_model).flatten();
    cpu.unwrap_or_else(|| platform.to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
