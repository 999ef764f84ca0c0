//! The cores as the loop sees them, so that its tests can do without any.

use std::time::Duration;

use traind_xla::runtime::{HandOver, HostArray};

use crate::error::Result;
use crate::session::{Launch, Session, StepResults, UploadedBatch};

/// Cores that run the programs of steps.
pub trait LoopDevice {
    /// The inputs of a batch.
    type Batch;
    /// A program that may still run.
    type Launched: Launched;

    /// Steps that may be launched and not yet read back.
    fn steps_in_flight_max(&self) -> usize;

    /// Whether an update is skipped where its gradients are not finite, as `fp16` does.
    fn skips_updates(&self) -> bool;

    /// The time that launches have waited for their programs to be compiled.
    fn compile_wait(&self) -> Duration;

    /// Launches the program for a batch.
    fn launch_batch(&mut self, batch: &Self::Batch) -> Result<Self::Launched>;

    /// Launches the update that ends a step of several batches.
    fn launch_update(&mut self, scalars: &HostArray) -> Result<Self::Launched>;
}

/// A program that may still run.
pub trait Launched: Sized {
    /// The time that its launch took.
    fn hand_over(&self) -> HandOver;

    /// Waits for its end.
    fn wait(&self) -> Result<()>;

    /// Reads back the results of the step that it ended.
    fn results(self) -> Result<StepResults>;
}

impl LoopDevice for Session {
    type Batch = UploadedBatch;
    type Launched = Launch;

    fn steps_in_flight_max(&self) -> usize {
        Session::steps_in_flight_max(self)
    }

    fn skips_updates(&self) -> bool {
        self.programs.states[0].loss_scale.is_some()
    }

    fn compile_wait(&self) -> Duration {
        Session::compile_wait(self)
    }

    fn launch_batch(&mut self, batch: &UploadedBatch) -> Result<Launch> {
        Session::launch_batch(self, batch)
    }

    fn launch_update(&mut self, scalars: &HostArray) -> Result<Launch> {
        Session::launch_update(self, scalars)
    }
}

impl Launched for Launch {
    fn hand_over(&self) -> HandOver {
        Launch::hand_over(self)
    }

    fn wait(&self) -> Result<()> {
        Launch::wait(self)
    }

    fn results(self) -> Result<StepResults> {
        Launch::results(self)
    }
}
