//! Stress tests in a short form; `scripts/soak/run` runs the long one through environment variables.
//! Each prints its measurements.

mod crowd;
mod day;
mod disk;
pub(crate) mod frames;
mod garbage;
mod history;
mod kills;
mod latency;

use std::time::Duration;

pub(crate) use crowd::resident_bytes;

/// The number in the variable, or `short` if it is not set.
fn count(variable: &str, short: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.map_or(short, |text| text.parse().unwrap())
}

/// Whether this is the long form, which checks limits on time and memory. The short form runs beside
/// other tests and checks only correctness.
fn is_long() -> bool {
    std::env::var_os("TRAIND_SOAK").is_some()
}

fn percentile(durations: &mut [Duration], percent: usize) -> Duration {
    durations.sort_unstable();
    durations[(durations.len() - 1) * percent / 100]
}

/// Pseudo-random numbers with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
