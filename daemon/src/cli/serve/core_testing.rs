//! Options of `traind serve` for tests of cores.

use std::time::Duration;

/// Tests of idle cores.
#[derive(clap::Args)]
pub(super) struct CoreTesting {
    /// Seconds after which a core that is idle is tested again by programs whose results are known; 0 for
    /// never [default: a day, and never for cpu]
    #[arg(long, value_name = "SECONDS")]
    test_cores_every: Option<u64>,
    /// Fence a GPU or NeuronCore if a test takes more than so many times as long on it as on the others, twice
    /// in succession; 0 for never
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0, value_parser = factor)]
    slow_core_factor: f64,
}

impl CoreTesting {
    /// How often idle cores of a platform are tested. CPU cores are not by default, since a test would take time from
    /// the jobs on others.
    pub(super) fn every(&self, platform: &str) -> Option<Duration> {
        let default = if platform == "cpu" { 0 } else { 24 * 3600 };
        let seconds = Some(self.test_cores_every.unwrap_or(default));
        seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    pub(super) fn slow_core_factor(&self) -> Option<f64> {
        Some(self.slow_core_factor).filter(|factor| *factor > 0.0)
    }
}

/// A factor below 1 would fence the fastest cores.
fn factor(text: &str) -> Result<f64, String> {
    let factor: Option<f64> = text.parse().ok();
    let factor = factor.filter(|factor| *factor == 0.0 || (*factor > 1.0 && factor.is_finite()));
    factor.ok_or_else(|| "must be above 1, or 0 for never".to_owned())
}
