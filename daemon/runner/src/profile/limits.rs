//! Limits of a core: the rates of products of large matrices, and of memory that is read and written.

use crate::rates::{copies_rate, on_each, products_rate};

/// Rates that a core could reach at best; 0 where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoreLimits {
    /// FLOP/s.
    pub flops: f64,
    /// Bytes per second, read and written.
    pub bytes_per_second: f64,
}

/// The cores of a job on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostCores {
    pub count: usize,
    /// Whether they are processors of this host.
    pub are_processors: bool,
}

/// The memory that each core copies: more than a cache has, with its copy.
const COPIED_BYTES: usize = 32 << 20;

impl CoreLimits {
    /// Measures on all cores at once, while no program runs. For devices other than processors, only `peak_flops` is
    /// known.
    pub(crate) fn of(cores: HostCores, peak_flops: f64) -> CoreLimits {
        if !cores.are_processors || !traind_kernels::are_supported() {
            return CoreLimits { flops: peak_flops, bytes_per_second: 0.0 };
        }
        CoreLimits {
            flops: least(on_each(cores.count, products_rate)),
            bytes_per_second: least(on_each(cores.count, |start| copies_rate(start, COPIED_BYTES))),
        }
    }
}

/// The least of the rates of threads that measure at once.
fn least(rates: Vec<f64>) -> f64 {
    rates.into_iter().reduce(f64::min).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_measured_on_processors_alone() {
        let cores = HostCores { count: 1, are_processors: true };
        let measured = CoreLimits::of(cores, 7.0);
        if traind_kernels::are_supported() {
            assert!(measured.flops > 1e8 && measured.bytes_per_second > 1e7, "{measured:?}");
        }
        let known = CoreLimits::of(HostCores { are_processors: false, ..cores }, 7.0);
        assert_eq!(known, CoreLimits { flops: 7.0, bytes_per_second: 0.0 });
    }
}
