//! `resources`: the devices of a job.

use crate::section::section;
use crate::spelled::spelled;

section! {
    /// The devices to train on.
    pub struct Resources {
        /// Kind of device.
        platform: Platform = Platform::Cpu;
        /// Number of cores. The job gets all of them at once or waits.
        cores: u32 = 1, in 1.0..=65536.0;
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
        /// Price of the job's cores for an hour, in any currency. `traind get` shows the time for which
        /// the job has held its cores, and its cost.
        price_per_hour: Option<f64> = None, in 0.0..;
        /// Restarts when the runner dies, hangs or loses its device. The job resumes from its
        /// newest checkpoint, or starts over without one. Invalid data and settings fail at
        /// once.
        max_restarts: u32 = 0, in 0.0..=1000.0;
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
