//! The needs of CPU devices: the plugin. The processor's instruction sets decide how fast they are.

use super::{Check, HostFiles};

/// Flags of `/proc/cpuinfo` that kernels use, from the oldest.
const INSTRUCTION_SETS: [&str; 5] = ["avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd"];

pub(super) fn checks(files: &HostFiles, plugin: Check) -> Vec<Check> {
    vec![processor(files), plugin]
}

fn processor(files: &HostFiles) -> Check {
    let text = files.read("/proc/cpuinfo").unwrap_or_default();
    let lines =
        || text.lines().filter(|line| ["flags", "Features"].iter().any(|it| line.starts_with(it)));
    let flags: Vec<&str> = lines().next().unwrap_or_default().split_whitespace().collect();
    let found: Vec<&str> =
        INSTRUCTION_SETS.into_iter().filter(|name| flags.contains(name)).collect();
    Check::present("processors", format!("{} with {}", lines().count(), found.join(", ")))
}
