//! `resources`: the devices of a job.

use crate::section::section;
use crate::spelled::spelled;

section! {
    /// The devices to train on.
    pub struct Resources {
        /// Kind of device.
        platform: Platform = Platform::Cpu;
        /// Number of hosts, each with a runner.
        hosts: u32 = 1, in 1.0..=4096.0;
        /// Number of cores on each host. The job gets all of them at once or waits.
        cores: u32 = 1, in 1.0..=65536.0;
        /// Starts the runners: the daemon itself on its own host, or a cluster's scheduler to which it
        /// submits the job.
        engine: Engine = Engine::Local;
        /// Jobs of higher priority start first.
        priority: i64 = 0, in -100.0..=100.0;
        /// Seconds that the job may run at a time, after which it is stopped and fails. A job
        /// with this limit may start before one that waits for more cores than are free. No limit
        /// by default.
        max_run_seconds: Option<u64> = None, in 1.0..=31_536_000.0;
        /// Seconds that the job may wait for its first start, after which it is cancelled. No
        /// limit by default.
        max_wait_seconds: Option<u64> = None, in 1.0..=31_536_000.0;
        /// Id or name of another job of the same user that must complete first; if that one fails
        /// or is cancelled, this one is cancelled too.
        after: Option<String> = None;
        /// Price of the job's cores for an hour, in any currency; by default their share of `serve
        /// --price-per-hour`. The time for which the job has held its cores, and its cost, are shown
        /// with the job.
        price_per_hour: Option<f64> = None, in 0.0..;
        /// Restarts when the runner dies, hangs or loses its device. The job resumes from its
        /// newest checkpoint, or starts over without one. Invalid data and settings fail at
        /// once.
        max_restarts: u32 = 0, in 0.0..=1000.0;
    }
}

impl Resources {
    /// The cores of all hosts.
    pub fn total_cores(&self) -> u32 {
        self.hosts * self.cores
    }
}

/// The price of holding cores for so many seconds.
pub fn cost(price_per_hour: f64, seconds: f64) -> f64 {
    price_per_hour * seconds / 3600.0
}

spelled! {
    /// A starter of runners.
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
