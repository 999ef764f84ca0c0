//! `resources`: the devices of a job.

use crate::section::section;
use crate::spelled::spelled;

section! {
    /// The devices to train on.
    pub struct Resources {
        /// Kind of device.
        platform: Platform = Platform::Cpu;
        /// Number of hosts, with one runner each.
        hosts: u32 = 1, in 1.0..=4096.0;
        /// Number of cores on each host. The job gets all of them at once or waits.
        cores: u32 = 1, in 1.0..=65536.0;
        /// Engine that starts the runners: the daemon, on its own host, or a cluster's scheduler,
        /// to which the daemon submits the job.
        engine: Engine = Engine::Local;
        /// Priority; higher-priority jobs start first.
        priority: i64 = 0, in -100.0..=100.0;
        /// Maximum seconds per run, after which the job is stopped and fails. A job with this limit
        /// may start ahead of one that waits for more cores than are free. No limit by default.
        max_run_seconds: Option<u64> = None, in 1.0..=31_536_000.0;
        /// Maximum seconds to wait for the first start, after which the job is cancelled. No limit
        /// by default.
        max_wait_seconds: Option<u64> = None, in 1.0..=31_536_000.0;
        /// Whether the daemon prepares the job on its own host while it waits: fetches and tokenizes
        /// its data and compiles its programs, at the lowest priority, so that the first step follows
        /// the start at once.
        prepare: bool = true;
        /// Id or name of another job of the same user that must complete first; if it fails or is
        /// cancelled, this job is cancelled too.
        after: Option<String> = None;
        /// Hourly price of the job's cores, in any currency; defaults to their share of `serve
        /// --price-per-hour`. The job shows how long it has held its cores, and the cost.
        price_per_hour: Option<f64> = None, in 0.0..;
        /// Maximum number of restarts when the runner dies, hangs or loses its device. The job
        /// resumes from its newest checkpoint, or starts over without one. Invalid data and
        /// settings fail immediately.
        max_restarts: u32 = 0, in 0.0..=1000.0;
    }
}

impl Resources {
    /// The cores of all hosts.
    pub fn total_cores(&self) -> u32 {
        self.hosts * self.cores
    }
}

const JOULES_PER_WATT_HOUR: f64 = 3600.0;

/// Formats energy as "812 J", "41.2 Wh" or "1.25 kWh".
pub fn energy(joules: f64) -> String {
    match joules / JOULES_PER_WATT_HOUR {
        watt_hours if watt_hours >= 1000.0 => format!("{:.2} kWh", watt_hours / 1000.0),
        watt_hours if watt_hours >= 1.0 => format!("{watt_hours:.1} Wh"),
        _ => format!("{joules:.0} J"),
    }
}

/// The price of holding cores for so many seconds.
pub fn cost(price_per_hour: f64, seconds: f64) -> f64 {
    price_per_hour * seconds / 3600.0
}

spelled! {
    /// An engine that starts runners.
    pub enum Engine {
        /// The daemon, on its own host.
        Local = "local",
        /// Slurm, by `sbatch`.
        Slurm = "slurm",
        /// Kubernetes, by an Indexed Job.
        Kubernetes = "kubernetes",
    }
}

spelled! {
    /// A kind of device.
    pub enum Platform {
        /// AWS NeuronCores.
        Neuron = "neuron",
        /// NVIDIA GPUs.
        Cuda = "cuda" | "gpu",
        /// The host's own processor.
        Cpu = "cpu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_has_the_unit_of_its_magnitude() {
        assert_eq!(energy(0.4), "0 J");
        assert_eq!(energy(3599.0), "3599 J");
        assert_eq!(energy(148_320.0), "41.2 Wh");
        assert_eq!(energy(4.5e6), "1.25 kWh");
    }
}
