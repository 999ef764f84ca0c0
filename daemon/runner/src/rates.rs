//! Rates of this host's processor: of products of large matrices, and of memory that is read and written.
//!
//! Imports no other module.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use traind_kernels::matrix::{Matrix, MatrixMut, multiply};

/// The rates that `measure` returns on each of so many threads at once.
pub(crate) fn on_each(threads: usize, measure: impl Fn(&Barrier) -> f64 + Sync) -> Vec<f64> {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| measure(&start))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).collect()
    })
}

/// FLOP/s of this thread in products of matrices from `start` on, whose operands fit into a cache.
pub(crate) fn products_rate(start: &Barrier) -> f64 {
    const SIDE: usize = 384;
    let (lhs, mut product) = (vec![1.0_f32; SIDE * SIDE], vec![0.0_f32; SIDE * SIDE]);
    let products = rate(start, || {
        let matrix = Matrix::new(&lhs, [SIDE; 2], SIDE);
        multiply(MatrixMut::new(&mut product, [SIDE; 2], SIDE), matrix, matrix, false);
        black_box(&product);
    });
    2.0 * (SIDE as f64).powi(3) * products
}

/// Bytes a second that this thread reads and writes from `start` on, in copies of so many.
pub(crate) fn copies_rate(start: &Barrier, bytes: usize) -> f64 {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    2.0 * bytes as f64 * rate(start, || to.copy_from_slice(black_box(&from)))
}

/// How often a second `run` ends from `begin` on, by the shortest of its times: others may want the processor
/// meanwhile.
fn rate(begin: &Barrier, mut run: impl FnMut()) -> f64 {
    const TIME: Duration = Duration::from_millis(50);
    run();
    begin.wait();
    let (start, mut shortest) = (Instant::now(), TIME);
    while start.elapsed() < TIME {
        let before = Instant::now();
        run();
        shortest = shortest.min(before.elapsed());
    }
    1.0 / shortest.as_secs_f64()
}
