//! Kinds of NeuronCores, as the plugin names them.
//!
//! From the second generation of Trainium on, two physical cores are one *logical* core unless
//! `NEURON_LOGICAL_NC_CONFIG=1`; jobs, the plugin and AWS's tools count logical ones.

/// The chips that traind knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    Trainium1,
    Inferentia2,
    Trainium2,
    Trainium3,
}

impl Generation {
    pub const ALL: [Generation; 4] = [
        Generation::Trainium1,
        Generation::Inferentia2,
        Generation::Trainium2,
        Generation::Trainium3,
    ];

    /// The generation of a device that the driver, `neuron-ls` or `neuron-monitor` names, such as
    /// `Trainium2`, `trn2`, `trn2.48xlarge` or `inferentia2`.
    pub fn of_device(name: &str) -> Option<Generation> {
        let name = name.to_ascii_lowercase();
        let named = |words: &[&str]| words.iter().any(|word| name.contains(word));
        Generation::ALL.into_iter().find(|generation| named(generation.words()))
    }

    fn words(self) -> &'static [&'static str] {
        match self {
            Generation::Trainium1 => &["trainium1", "trn1"],
            Generation::Inferentia2 => &["inferentia2", "inf2"],
            Generation::Trainium2 => &["trainium2", "trn2"],
            Generation::Trainium3 => &["trainium3", "trn3"],
        }
    }

    /// The value of `--target` of the compiler.
    pub fn target(self) -> &'static str {
        match self {
            Generation::Trainium1 => "trn1",
            Generation::Inferentia2 => "inf2",
            Generation::Trainium2 => "trn2",
            Generation::Trainium3 => "trn3",
        }
    }

    /// The driver's `device_name`. Trainium3's is assumed.
    pub fn device_name(self) -> &'static str {
        match self {
            Generation::Trainium1 => "Trainium1",
            Generation::Inferentia2 => "Inferentia2",
            Generation::Trainium2 => "Trainium2",
            Generation::Trainium3 => "Trainium3",
        }
    }

    pub fn physical_cores(self) -> u32 {
        match self {
            Generation::Trainium1 | Generation::Inferentia2 => 2,
            Generation::Trainium2 | Generation::Trainium3 => 8,
        }
    }

    /// Physical cores of a logical one, unless `NEURON_LOGICAL_NC_CONFIG` is set.
    pub fn default_logical_config(self) -> u32 {
        match self {
            Generation::Trainium1 | Generation::Inferentia2 => 1,
            Generation::Trainium2 | Generation::Trainium3 => 2,
        }
    }

    /// The kind of a logical core of so many physical ones.
    pub fn core_kind(self, logical_config: u32) -> Option<&'static CoreKind> {
        CORE_KINDS.iter().find(|kind| {
            kind.logical_config == logical_config
                && (kind.generation == self || (kind.kind == "NC_v2" && self.is_second_core()))
        })
    }

    fn is_second_core(self) -> bool {
        matches!(self, Generation::Trainium1 | Generation::Inferentia2)
    }

    /// Numbers of logical cores that AWS documents for programs with collectives. Groups of four
    /// cores of trn1 are adjacent here, as documented, since jobs start at a multiple.
    pub fn documented_core_counts(self) -> &'static [u32] {
        match self {
            Generation::Trainium1 | Generation::Inferentia2 => &[1, 2, 4, 8, 32],
            Generation::Trainium2 | Generation::Trainium3 => &[1, 4, 16, 64],
        }
    }
}

/// A logical core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreKind {
    /// The plugin's `device_kind`.
    pub kind: &'static str,
    pub generation: Generation,
    /// Physical cores of a logical one.
    pub logical_config: u32,
    pub memory_bytes: u64,
    /// Bytes a second that it reads from its memory.
    pub memory_rate: f64,
    /// Bytes a second to the cores of other chips, in one direction.
    pub link_rate: f64,
    /// Peak FLOP/s of dots in bfloat16 or float16, TensorFloat-32, and float32.
    pub peak_flops: [f64; 3],
}

const GIB: u64 = 1 << 30;
const GIGA: f64 = 1e9;
const TERA: f64 = 1e12;

/// The kinds of cores. A core has its share of the chip. Trainium3's names are by analogy.
pub const CORE_KINDS: &[CoreKind] = &[
    CoreKind {
        kind: "NC_v2",
        generation: Generation::Trainium1,
        logical_config: 1,
        memory_bytes: 16 * GIB,
        memory_rate: 410.0 * GIGA,
        link_rate: 192.0 * GIGA,
        peak_flops: [95.0 * TERA, 95.0 * TERA, 23.75 * TERA],
    },
    CoreKind {
        kind: "NC_v3d",
        generation: Generation::Trainium2,
        logical_config: 2,
        memory_bytes: 24 * GIB,
        memory_rate: 725.0 * GIGA,
        link_rate: 256.0 * GIGA,
        peak_flops: [166.75 * TERA, 45.25 * TERA, 45.25 * TERA],
    },
    CoreKind {
        kind: "NC_v3",
        generation: Generation::Trainium2,
        logical_config: 1,
        memory_bytes: 12 * GIB,
        memory_rate: 362.5 * GIGA,
        link_rate: 128.0 * GIGA,
        peak_flops: [83.375 * TERA, 22.625 * TERA, 22.625 * TERA],
    },
    CoreKind {
        kind: "NC_v4d",
        generation: Generation::Trainium3,
        logical_config: 2,
        memory_bytes: 36 * GIB,
        memory_rate: 1225.0 * GIGA,
        link_rate: 512.0 * GIGA,
        peak_flops: [167.75 * TERA, 45.75 * TERA, 45.75 * TERA],
    },
    CoreKind {
        kind: "NC_v4",
        generation: Generation::Trainium3,
        logical_config: 1,
        memory_bytes: 18 * GIB,
        memory_rate: 612.5 * GIGA,
        link_rate: 256.0 * GIGA,
        peak_flops: [83.875 * TERA, 22.875 * TERA, 22.875 * TERA],
    },
];

/// The kind that the plugin names so.
pub fn core_kind(device_kind: &str) -> Option<&'static CoreKind> {
    CORE_KINDS.iter().find(|kind| kind.kind == device_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logical_core_of_two_has_twice_the_memory_and_peak() {
        for generation in [Generation::Trainium2, Generation::Trainium3] {
            let [one, two] = [1, 2].map(|config| generation.core_kind(config).unwrap());
            assert_eq!(two.memory_bytes, 2 * one.memory_bytes);
            assert_eq!(two.peak_flops, one.peak_flops.map(|peak| 2.0 * peak));
            assert_eq!(two.kind, format!("{}d", one.kind));
        }
        assert_eq!(core_kind("NC_v3d").unwrap().memory_bytes, 24 << 30);
        assert_eq!(core_kind("NC_v3x"), None);
    }

    #[test]
    fn devices_are_known_by_the_names_of_all_tools() {
        let of = Generation::of_device;
        assert_eq!(of("Trainium1"), Some(Generation::Trainium1));
        assert_eq!(of("trn1n.32xlarge"), Some(Generation::Trainium1));
        assert_eq!(of("Inferentia2"), Some(Generation::Inferentia2));
        assert_eq!(of("trainium2"), Some(Generation::Trainium2));
        assert_eq!(of("trn3"), Some(Generation::Trainium3));
        assert_eq!(of("neuron"), None);
        for generation in Generation::ALL {
            assert_eq!(of(generation.device_name()), Some(generation));
            assert_eq!(of(generation.target()), Some(generation));
            let default = generation.core_kind(generation.default_logical_config()).unwrap();
            assert_eq!(generation.physical_cores() % default.logical_config, 0);
        }
        assert!(Generation::Trainium1.core_kind(2).is_none(), "trn1 has no logical cores of two");
    }
}
