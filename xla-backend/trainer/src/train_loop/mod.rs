//! The training loop: launches a step while the results of the one before are read back, so that the cores
//! never wait for the host.
//!
//! Its [`Conductor`] has the batches, decides the rate of each update, and does what is due between two steps.
//!
//! Imports `session` and `error`.

mod device;
mod in_flight;

use std::time::{Duration, Instant};

use traind_xla::runtime::{HandOver, HostArray};

use crate::error::Error;
use crate::session::StepResults;
use in_flight::{LaunchedStep, StepsInFlight};

pub use device::{Launched, LoopDevice};

/// The caller of a training loop on a device of type `D`.
pub trait Conductor<D: LoopDevice> {
    /// The caller's account of a batch, which returns with the results of its step.
    type Record;
    /// The caller's error, which ends the loop.
    type Error: From<Error>;

    /// Returns the next batch; `None` ends the loop. `in_step`: some batches of a step were launched, and the step
    /// has to be completed.
    fn next_batch(&mut self, in_step: bool) -> Result<NextBatch<D, Self::Record>, Self::Error>;

    /// Returns the update that ends a step of several batches, which counts from 0. Where updates may be skipped, the
    /// results of all steps before are known.
    fn update(&mut self, step: u64) -> Result<Update, Self::Error>;

    /// A step, which counts from 1, was launched with these batches.
    fn step_launched(&mut self, _step: u64, _batches: &[Self::Record]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The results of a step were read back, in the order of the steps.
    fn step_ended(&mut self, step: EndedStep<Self::Record>) -> Result<(), Self::Error>;

    /// Whether there is something to do after so many steps.
    fn pauses_after(&self, _steps: u64) -> bool {
        false
    }

    /// Does what is due between two steps, while none is in flight.
    fn pause(&mut self, _device: &mut D) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The loop starts to do something else.
    fn begin(&mut self, _phase: LoopPhase) {}

    /// The loop has waited for the end of a program.
    fn program_ended(&mut self) {}

    /// The loop has spent time.
    fn spend(&mut self, _time: LoopTime) {}
}

/// The next batch of a device, if there is one.
pub type NextBatch<D, R> = Option<LoopBatch<<D as LoopDevice>::Batch, R>>;

/// A batch that is ready to be launched.
#[derive(Debug)]
pub struct LoopBatch<B, R> {
    /// The step that it belongs to, counted from 0.
    pub step: u64,
    /// Whether it is the last batch of its step.
    pub is_last: bool,
    /// The update that the batch's program makes; `None` where a step has a program for it.
    pub update: Option<Update>,
    /// The inputs on the cores.
    pub inputs: B,
    /// The caller's account of it.
    pub record: R,
}

/// The arguments of one update.
#[derive(Clone, Debug)]
pub struct Update {
    /// The rate of parameters that have no group of their own.
    pub learning_rate: f64,
    /// The scalars, f32, in the order of the optimizers.
    pub scalars: HostArray,
}

/// A step whose results were read back.
#[derive(Debug)]
pub struct EndedStep<R> {
    /// The number of the step, counted from 1.
    pub step: u64,
    /// The results, the same on every core.
    pub results: StepResults,
    /// The rate of its update.
    pub learning_rate: f64,
    /// The records of its batches.
    pub batches: Vec<R>,
}

/// The activity of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPhase {
    /// It launches a program.
    Dispatch,
    /// It waits for a program.
    Compute,
}

/// Time that passed in the loop, by its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopTime {
    /// Handing programs over.
    pub dispatch: Duration,
    /// Waiting for programs.
    pub compute: Duration,
    /// Copying results to the host.
    pub read_back: Duration,
    /// Waiting for programs to be compiled.
    pub compile_wait: Duration,
}

/// Trains until the conductor has no more batches.
pub fn train<D: LoopDevice, C: Conductor<D>>(
    device: &mut D,
    conductor: &mut C,
) -> Result<(), C::Error> {
    let steps = StepsInFlight::new(device.steps_in_flight_max());
    let mut running = TrainLoop { device, conductor, steps };
    while let Some(batch) = running.conductor.next_batch(running.steps.has_partial_step())? {
        let launched = running.launch(batch)?;
        if running.steps.is_full() {
            running.read_back()?;
        }
        if launched.is_some_and(|steps| running.conductor.pauses_after(steps)) {
            running.drain()?;
            running.conductor.pause(running.device)?;
        }
    }
    running.drain()
}

struct TrainLoop<'a, D: LoopDevice, C: Conductor<D>> {
    device: &'a mut D,
    conductor: &'a mut C,
    steps: StepsInFlight<D::Launched, C::Record>,
}

impl<D: LoopDevice, C: Conductor<D>> TrainLoop<'_, D, C> {
    /// Launches a batch and, with the last of a step, the update. Returns the steps so far where that ends one.
    fn launch(&mut self, batch: LoopBatch<D::Batch, C::Record>) -> Result<Option<u64>, C::Error> {
        self.conductor.begin(LoopPhase::Dispatch);
        let LoopBatch { step, is_last, update, inputs, record } = batch;
        self.steps.add_record(record);
        let launched = self.launch_timed(|device| device.launch_batch(&inputs))?;
        let (last, learning_rate) = match update {
            Some(update) => (launched, update.learning_rate),
            None => {
                if let Some(oldest) = self.steps.add_batch(launched) {
                    self.wait(&oldest)?;
                }
                if !is_last {
                    return Ok(None);
                }
                let update = self.update_of(step)?;
                let launched = self.launch_timed(|device| device.launch_update(&update.scalars))?;
                (launched, update.learning_rate)
            }
        };
        let records = self.steps.end_step(step + 1, last, learning_rate);
        self.conductor.step_launched(step + 1, records)?;
        Ok(Some(step + 1))
    }

    /// Returns the update of a step. Where updates may be skipped, how many were made before is known only when all
    /// steps before have been read back.
    fn update_of(&mut self, step: u64) -> Result<Update, C::Error> {
        if self.device.skips_updates() {
            self.drain()?;
        }
        self.conductor.update(step)
    }

    fn drain(&mut self) -> Result<(), C::Error> {
        while !self.steps.is_empty() {
            self.read_back()?;
        }
        Ok(())
    }

    /// Waits for the oldest step in flight and takes its results.
    fn read_back(&mut self) -> Result<(), C::Error> {
        let Some(LaunchedStep { step, batches, last, records, learning_rate }) = self.steps.pop()
        else {
            return Ok(());
        };
        batches.iter().try_for_each(|batch| self.wait(batch))?;
        self.wait(&last)?;
        let start = Instant::now();
        let results = last.results()?;
        self.conductor.spend(LoopTime { read_back: start.elapsed(), ..LoopTime::default() });
        self.conductor.step_ended(EndedStep { step, results, learning_rate, batches: records })
    }

    /// Launches a program, and separates the time that it waits to be compiled.
    fn launch_timed(
        &mut self,
        launch: impl FnOnce(&mut D) -> Result<D::Launched, Error>,
    ) -> Result<D::Launched, C::Error> {
        let compiled = self.device.compile_wait();
        let launched = launch(self.device)?;
        let compile_wait = self.device.compile_wait() - compiled;
        let HandOver { dispatch, compute } = launched.hand_over();
        let time = LoopTime { dispatch, compute, compile_wait, ..LoopTime::default() };
        self.conductor.spend(time);
        Ok(launched)
    }

    /// Waits for a program, while the cores compute.
    fn wait(&mut self, launched: &D::Launched) -> Result<(), C::Error> {
        self.conductor.begin(LoopPhase::Compute);
        let start = Instant::now();
        let ended = launched.wait();
        self.conductor.program_ended();
        self.conductor.spend(LoopTime { compute: start.elapsed(), ..LoopTime::default() });
        Ok(ended?)
    }
}
