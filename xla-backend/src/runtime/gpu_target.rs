//! GPUs that programs are compiled for without having one: what the compiler asks of a device.
//!
//! The numbers are those of NVIDIA's data sheets and of the table of compute capabilities in the CUDA
//! programming guide.

use std::fmt::Write as _;

/// A kind of GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuTarget {
    /// The name that the driver gives the GPU.
    kind: &'static str,
    compute_capability: u32,
    /// Whether the capability has instructions of this GPU alone, as `sm_90a`.
    accelerated: bool,
    multiprocessors: u32,
    /// Float32 units of a multiprocessor.
    units: u32,
    clock_ghz: f64,
    memory_bytes: u64,
    /// Bytes a second.
    memory_bandwidth: u64,
    l2_bytes: u64,
    /// Shared memory of a multiprocessor. A block may have all but one KiB.
    shared_bytes: u64,
    links: u32,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIGA: u64 = 1_000_000_000;

const A100_40: GpuTarget = GpuTarget {
    kind: "NVIDIA A100-SXM4-40GB",
    compute_capability: 8,
    accelerated: false,
    multiprocessors: 108,
    units: 64,
    clock_ghz: 1.41,
    memory_bytes: 40_330 * MIB,
    memory_bandwidth: 1555 * GIGA,
    l2_bytes: 40 * MIB,
    shared_bytes: 164 * KIB,
    links: 12,
};

const H100: GpuTarget = GpuTarget {
    kind: "NVIDIA H100 80GB HBM3",
    compute_capability: 9,
    accelerated: true,
    multiprocessors: 132,
    units: 128,
    clock_ghz: 1.98,
    memory_bytes: 81_008 * MIB,
    memory_bandwidth: 3352 * GIGA,
    l2_bytes: 50 * MIB,
    shared_bytes: 228 * KIB,
    links: 18,
};

const TARGETS: [(&str, GpuTarget); 4] = [
    ("h100", H100),
    (
        "h200",
        GpuTarget {
            kind: "NVIDIA H200",
            memory_bytes: 143_156 * MIB,
            memory_bandwidth: 4800 * GIGA,
            ..H100
        },
    ),
    (
        "a100-80",
        GpuTarget {
            kind: "NVIDIA A100-SXM4-80GB",
            memory_bytes: 81_050 * MIB,
            memory_bandwidth: 2039 * GIGA,
            ..A100_40
        },
    ),
    ("a100-40", A100_40),
];

impl GpuTarget {
    /// The GPU called `name`, as in `traind plan --device`. None of a generation that the CUDA plugin
    /// no longer compiles for, such as V100.
    pub fn named(name: &str) -> Option<GpuTarget> {
        TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
    }

    /// The GPU as XLA's `GpuTargetConfigProto`, in the text format.
    pub(super) fn text(&self) -> String {
        let GpuTarget { kind, compute_capability, multiprocessors, units, clock_ghz, .. } = self;
        let block_bytes = self.shared_bytes - KIB;
        let mut text = String::from("gpu_device_info {\n");
        let numbers = [
            ("threads_per_block_limit", 1024),
            ("threads_per_warp", 32),
            ("threads_per_core_limit", 2048),
            ("core_count", (*multiprocessors).into()),
            ("fpus_per_core", (*units).into()),
            ("block_dim_limit_x", (1 << 31) - 1),
            ("block_dim_limit_y", 65_535),
            ("block_dim_limit_z", 65_535),
            ("thread_dim_limit_x", 1024),
            ("thread_dim_limit_y", 1024),
            ("thread_dim_limit_z", 64),
            ("registers_per_core_limit", 65_536),
            ("registers_per_block_limit", 65_536),
            ("max_blocks_per_multiprocessor", 32),
            ("shared_memory_per_block", 48 * KIB),
            ("shared_memory_per_core", self.shared_bytes),
            ("shared_memory_per_block_optin", block_bytes),
            ("reserved_shared_memory_per_block", KIB),
            ("memory_bandwidth", self.memory_bandwidth),
            ("device_memory_size", self.memory_bytes),
            ("l2_cache_size", self.l2_bytes),
            ("device_address_bits", 64),
            ("collective_memory_granularity", 2 * MIB),
        ];
        for (name, number) in numbers {
            let _ = writeln!(text, "  {name}: {number}");
        }
        let feature =
            if self.accelerated { " feature_extension: ACCELERATED_FEATURES" } else { "" };
        let _ = writeln!(
            text,
            "  clock_rate_ghz: {clock_ghz}\n  \
             cuda_compute_capability {{ major: {compute_capability}{feature} }}\n  \
             device_interconnect_info {{ active_links: {} }}\n  \
             device_vendor: \"NVIDIA Corporation\"\n  name: \"{kind}\"\n  \
             driver_version: \"13.0.0\"\n  runtime_version: \"13.0.0\"\n  \
             compile_time_toolkit_version: \"13.0.0\"\n  dnn_version: \"9.10.0\"\n}}\n\
             platform_name: \"CUDA\"\ndevice_description_str: \"{kind}\"",
            self.links,
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_names_of_their_own() {
        let mut names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TARGETS.len());
        assert_eq!(GpuTarget::named("v100"), None);
    }

    #[test]
    fn the_text_has_what_the_compiler_asks() {
        let text = GpuTarget::named("h200").unwrap().text();
        assert!(text.contains("core_count: 132\n"), "{text}");
        assert!(text.contains("major: 9 feature_extension: ACCELERATED_FEATURES }"), "{text}");
        assert!(text.contains("memory_bandwidth: 4800000000000\n"), "{text}");
        let older = GpuTarget::named("a100-40").unwrap().text();
        assert!(older.contains("{ major: 8 }"), "{older}");
    }
}
