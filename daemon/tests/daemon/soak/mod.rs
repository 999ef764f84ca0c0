//! What the daemon has to bear, in a short form; `scripts/soak/run` asks for the long one by
//! these variables. Each prints its figures.

mod crowd;
mod disk;
mod frames;
mod garbage;
mod kills;
mod latency;

use std::time::Duration;

/// How often, unless the variable says otherwise.
fn count(variable: &str, short: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.map_or(short, |text| text.parse().unwrap())
}

/// Whether this is the long form, whose figures have to be those that were promised. The
/// short one runs beside other tests and proves that things work, not how fast.
fn is_long() -> bool {
    std::env::var_os("TRAIND_SOAK").is_some()
}

fn percentile(durations: &mut [Duration], percent: usize) -> Duration {
    durations.sort_unstable();
    durations[(durations.len() - 1) * percent / 100]
}

/// Numbers that look random and are the same in every run.
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
