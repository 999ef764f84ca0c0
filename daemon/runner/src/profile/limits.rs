//! Limits of a core: the rates of products of large matrices, and of memory that is read and written.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use traind_kernels::matrix::{Matrix, MatrixMut, multiply};

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

/// The rows, columns and depth of the measured product, whose operands fit into a cache.
const SIZE: usize = 512;
/// The measured memory of each core, half of which is copied to the other half: more than a cache has.
const STREAM_BYTES: usize = 64 << 20;
/// The time of each measurement.
const TIME: Duration = Duration::from_millis(30);

impl CoreLimits {
    /// Measures on all cores at once, while no program runs. Of other devices than processors, `peak_flops` is all that
    /// is known.
    pub(crate) fn of(cores: HostCores, peak_flops: f64) -> CoreLimits {
        if !cores.are_processors || !traind_kernels::are_supported() {
            return CoreLimits { flops: peak_flops, bytes_per_second: 0.0 };
        }
        CoreLimits {
            flops: least(cores.count, product_rate),
            bytes_per_second: least(cores.count, stream_rate),
        }
    }
}

/// The least of the rates that threads measure at once.
fn least(threads: usize, rate: fn() -> f64) -> f64 {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(rate)).collect();
        let rates = threads.into_iter().map(|thread| thread.join().unwrap_or(0.0));
        rates.reduce(f64::min).unwrap_or(0.0)
    })
}

fn product_rate() -> f64 {
    let operand = vec![0.5; SIZE * SIZE];
    let mut result = vec![0.0; SIZE * SIZE];
    let shape = [SIZE, SIZE];
    let work = 2.0 * (SIZE * SIZE * SIZE) as f64;
    fastest(work, || {
        let matrix = Matrix::new(&operand, shape, SIZE);
        multiply(MatrixMut::new(&mut result, shape, SIZE), matrix, matrix, false);
        black_box(&result);
    })
}

fn stream_rate() -> f64 {
    let mut bytes = vec![1_u8; STREAM_BYTES];
    let half = STREAM_BYTES / 2;
    fastest(STREAM_BYTES as f64, || {
        bytes.copy_within(..half, half);
        black_box(&bytes);
    })
}

/// The highest rate of several runs: others would measure what disturbs them.
fn fastest(work: f64, mut run: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut least = f64::INFINITY;
    while begun.elapsed() < TIME {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed().as_secs_f64());
    }
    work / least
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
