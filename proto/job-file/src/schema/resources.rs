//! `resources`: what is trained on.

use crate::section::section;
use crate::spelled::spelled;

section! {
    /// What to train on.
    pub struct Resources {
        /// Kind of device.
        platform: Platform = Platform::Cpu;
        /// Number of cores. The job gets all of them at once or waits.
        cores: u32 = 1, in 1.0..=65536.0;
        /// Jobs of higher priority start first.
        priority: i64 = 0, in -100.0..=100.0;
        /// Seconds that the job may run at a time; then it is stopped and has failed. A job
        /// that says so may go ahead of one that waits for more cores than are free. None
        /// where it is left out.
        max_run_seconds: Option<u64> = None, in 1.0..=31_536_000.0;
        /// Seconds that the job may wait for its first start; then it is cancelled. No such
        /// limit where it is left out.
        max_wait_seconds: Option<u64> = None, in 1.0..=31_536_000.0;
        /// Id or name of an own job that has to be completed before; where that one fails or
        /// is cancelled, this one is cancelled too.
        after: Option<String> = None;
        /// Times that the job is started again when its runner dies, hangs or loses its
        /// device. It goes on from its newest checkpoint, or begins anew without one. Wrong
        /// data and wrong settings fail at once.
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
