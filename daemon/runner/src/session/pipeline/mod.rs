//! Passes batches through the stages of a pipeline, and ends their steps.
//!
//! Each stage has a thread, which launches the programs of its cores in the order of the schedule. So
//! all stages compute at once also where a plugin runs a program before it returns, as that of CPUs does.

mod far_activations;
mod stage;
mod timeline;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ScopedJoinHandle;

use traind_loader::{BatchSizes, panic_message};
use traind_pjrt::Buffer;
use traind_xla::runtime::{
    CoreInputs, Fetched, HostArray, HostMemory, LazyDevice, LocalCores, Pending,
};

use super::{Session, UploadedBatch, upload};
use crate::control::Work;
use crate::error::{RunError, RunResult};
use crate::state::{Loan, PARTS_IN_FLIGHT};
use crate::step::{Direction, Pass, Program, ProgramShape, SUMS, Schedule};
use far_activations::FarActivations;
use stage::{Message, Outbox, StageRun};
use timeline::Timeline;

/// The result of a stage's thread; `Err(None)` where another stage has failed.
type Ended<T> = Result<T, Option<RunError>>;

impl Session {
    /// Passes a training batch forward and backward; returns all programs.
    pub(super) fn pass_training_batch(&mut self, batch: &UploadedBatch) -> RunResult<Vec<Pending>> {
        let passed = self.pass_batch(Program::Accumulate, batch)?;
        Ok(passed.into_iter().flatten().collect())
    }

    /// Passes a batch forward; returns the results of the last chunk for all of its rows.
    pub(super) fn pass_evaluated_batch(
        &mut self,
        program: Program,
        batch: &UploadedBatch,
    ) -> RunResult<Fetched> {
        let pipeline = self.programs.pipeline.clone();
        let mut passed = self.pass_batch(program, batch)?;
        let launched = passed.swap_remove(pipeline.last_stage());
        let schedule = self.schedule(batch);
        let last = pipeline.chunks.count() - 1;
        let mut parts: Vec<(usize, Fetched)> = Vec::new();
        for (pass, launched) in schedule.evaluation(pipeline.last_stage()).into_iter().zip(launched)
        {
            if pass.chunk == last {
                parts.push((pass.micro, launched.fetch()?));
            }
        }
        parts.sort_by_key(|(micro, _)| *micro);
        Ok(Fetched::join(parts.into_iter().map(|(_, fetched)| fetched).collect())?)
    }

    fn schedule(&self, batch: &UploadedBatch) -> Schedule {
        Schedule::of(&self.programs.pipeline, batch.sizes().rows())
    }

    /// Launches the parts of `program` for each micro-batch; returns each stage's in their order.
    fn pass_batch(
        &mut self,
        program: Program,
        batch: &UploadedBatch,
    ) -> RunResult<Vec<Vec<Pending>>> {
        let schedule = self.schedule(batch);
        self.ready_parts(ProgramShape::of_batch(program, batch.sizes()), schedule.microbatches)?;
        let trains = program == Program::Accumulate;
        let last_chunk = self.programs.pipeline.chunks.count() - 1;
        let sizes = self.micro_sizes(batch.sizes());
        let key = move |pass: Pass| {
            let program = match pass.direction {
                Direction::Forward if trains => Program::Forward,
                _ => program,
            };
            ProgramShape::of_batch(program, sizes).of_chunk(pass.chunk).key()
        };
        let cores: Vec<LocalCores> =
            self.devices.iter().map(|device| device.cores().clone()).collect();
        let (senders, inboxes): (Vec<Sender<_>>, Vec<Receiver<_>>) =
            cores.iter().map(|_| channel::<Message>()).unzip();
        let horizon = self.programs.loading_horizon.filter(|_| trains);
        let order = (0..cores.len()).map(|stage| match trains {
            true => schedule.training(stage),
            false => schedule.evaluation(stage),
        });
        let order: Vec<Vec<Pass>> = order.collect();
        let timeline = Timeline::new(order.clone(), last_chunk, self.reporter.activity.clone());
        let stages = self.devices.iter_mut().zip(inboxes).zip(&batch.inputs).zip(order);
        let stages = stages.enumerate().map(|(stage, (((device, inbox), inputs), passes))| {
            let far = match horizon {
                Some(horizon) => {
                    Some(FarActivations::new(HostMemory::of(&cores[stage])?, horizon, &passes))
                }
                None => None,
            };
            Ok(StageRun {
                device,
                passes,
                inputs,
                key: &key,
                trains,
                last_chunk,
                far,
                timeline: timeline.clone(),
                inbox,
                outbox: Outbox { cores: &cores, senders: senders.clone(), is_done: false },
            })
        });
        on_threads(stages.collect::<RunResult<_>>()?, StageRun::run)
    }

    /// Ends a step: sums over all stages, clips and updates. The parameters that several stages read
    /// are updated on one and copied to the others.
    pub(super) fn update_stages(&mut self, scalars: &HostArray) -> RunResult<Vec<Pending>> {
        self.ready_parts(ProgramShape::update(), 1)?;
        let totals = self.reduce_stages()?;
        let mut runs = Vec::new();
        for (stage, device) in self.devices.iter_mut().enumerate() {
            let inputs = upload::replicate(device.cores(), &[scalars, &totals])?;
            let parts = self.programs.update_shapes(stage).into_iter();
            runs.push((device, parts.map(|part| part.key()).collect::<Vec<_>>(), inputs));
        }
        let launched =
            on_threads(runs, |(device, keys, inputs)| launch_parts(device, &keys, &inputs))?;
        self.return_loans()?;
        Ok(launched.into_iter().flatten().collect())
    }

    /// The sums of all stages, f32[3].
    fn reduce_stages(&mut self) -> RunResult<HostArray> {
        let mut runs = Vec::new();
        let mut borrowed = self.borrowed_sums()?;
        let hosts = self.devices[0].cores().mesh().hosts();
        for (stage, device) in self.devices.iter_mut().enumerate() {
            let shape = ProgramShape { program: Program::Reduce, ..ProgramShape::update() };
            runs.push((device, shape.of_chunk(stage).key(), std::mem::take(&mut borrowed[stage])));
        }
        let run = |(device, key, inputs): (&mut LazyDevice, String, CoreInputs)| {
            let launched = launch(device, &key, &inputs)?;
            launched.fetch().map_err(|error| Some(error.into()))
        };
        let fetched = if hosts == 1 { on_threads(runs, run)? } else { in_turn(runs, run)? };
        let last = self.programs.pipeline.last_stage();
        let [loss_sum, weight_sum] = [SUMS[0], SUMS[1]].map(|name| fetched[last].scalar_f32(name));
        let mut square_sum = 0.0;
        for stage in &fetched {
            square_sum += stage.scalar_f32(SUMS[2])?;
        }
        Ok(HostArray::from_f32(&[SUMS.len()], &[loss_sum?, weight_sum?, square_sum])?)
    }

    /// For each stage, the gradient sums that others have of its parameters, on its cores.
    fn borrowed_sums(&self) -> RunResult<Vec<CoreInputs>> {
        let mut inputs: Vec<CoreInputs> = Vec::new();
        for (owner, device) in self.devices.iter().enumerate() {
            let mut of_stage: CoreInputs =
                device.cores().coordinates().map(|_| Vec::new()).collect();
            for Loan { parameter, borrower, .. } in self.programs.loans_of(owner) {
                let state = self.programs.states[borrower].parameter(parameter);
                let Some(sum) = state.and_then(|state| state.gradient_sum()) else { continue };
                let copies = self.devices[borrower].copy_to(sum, device.cores())?;
                of_stage.iter_mut().zip(copies).for_each(|(core, copy)| core.push(copy));
            }
            inputs.push(of_stage);
        }
        Ok(inputs)
    }

    /// Copies updated parameters to the stages that borrow them.
    fn return_loans(&mut self) -> RunResult<()> {
        for Loan { parameter, owner, borrower } in self.programs.loans.clone() {
            let value = |stage: usize| {
                self.programs.states[stage].parameter(parameter).map(|state| state.variable())
            };
            let (Some(from), Some(to)) = (value(owner), value(borrower)) else { continue };
            let copies = self.devices[owner].copy_to(from, self.devices[borrower].cores())?;
            self.devices[borrower].set_buffers(to, copies)?;
        }
        Ok(())
    }

    /// Waits until the parts of a program are installed, and counts their work, which stages share.
    fn ready_parts(&mut self, shape: ProgramShape, microbatches: usize) -> RunResult<()> {
        let parts = self.programs.parts_of(shape);
        let mut work = Work::default();
        for part in parts {
            work += self.ready(part)? * (microbatches as f64 / self.devices.len() as f64);
        }
        if shape.program.ends_step() {
            self.queue.step_launched();
            work.sent.pipeline += self.lent_bytes();
        }
        self.reporter.activity.program_launched(work);
        Ok(())
    }

    /// The bytes of loans that a core sends at the end of a step, averaged over the stages.
    fn lent_bytes(&self) -> f64 {
        let stages = 0..self.devices.len();
        let bytes: u64 = stages.clone().map(|stage| self.programs.lent_bytes(stage)).sum();
        bytes as f64 / stages.len() as f64
    }

    fn micro_sizes(&self, sizes: BatchSizes) -> BatchSizes {
        self.programs.pipeline.micro_sizes(sizes)
    }
}

fn launch(device: &mut LazyDevice, key: &str, inputs: &CoreInputs) -> Ended<Pending> {
    let inputs: Vec<Vec<&Buffer>> = inputs.iter().map(|core| core.iter().collect()).collect();
    device.mark_step_with(key, &inputs).map_err(|error| Some(error.into()))
}

/// Launches the parts of an update, of which few are under way at one time; returns the last one first,
/// which fetches what a step gives.
fn launch_parts(
    device: &mut LazyDevice,
    keys: &[String],
    inputs: &CoreInputs,
) -> Ended<Vec<Pending>> {
    let mut launched: Vec<Pending> = Vec::new();
    for key in keys {
        if let Some(before) = launched.len().checked_sub(PARTS_IN_FLIGHT) {
            launched[before].wait().map_err(|error| Some(error.into()))?;
        }
        launched.push(launch(device, key, inputs)?);
    }
    launched.reverse();
    Ok(launched)
}

/// Runs one stage after the other, for programs that exchange data with other hosts. A client may run
/// those of several devices one at a time, in the order of their launch: hosts that launched them in
/// different orders would wait for each other.
fn in_turn<S, T>(stages: Vec<S>, run: impl Fn(S) -> Ended<T>) -> RunResult<Vec<T>> {
    stages
        .into_iter()
        .map(|stage| run(stage).map_err(|error| error.unwrap_or_else(unknown)))
        .collect()
}

fn unknown() -> RunError {
    RunError::Panicked("a stage ended without a result".to_owned())
}

/// Runs each stage on a thread of its own; returns their results in order, or the first error.
fn on_threads<S: Send, T: Send>(
    stages: Vec<S>,
    run: impl Fn(S) -> Ended<T> + Copy + Send + Sync,
) -> RunResult<Vec<T>> {
    let ended: Vec<Ended<T>> = std::thread::scope(|scope| {
        let threads: Vec<ScopedJoinHandle<'_, _>> =
            stages.into_iter().map(|stage| scope.spawn(move || run(stage))).collect();
        let join = |thread: ScopedJoinHandle<'_, Ended<T>>| {
            let panicked = |panic: Box<dyn std::any::Any + Send>| {
                Err(Some(RunError::Panicked(panic_message(panic.as_ref()))))
            };
            thread.join().unwrap_or_else(panicked)
        };
        threads.into_iter().map(join).collect()
    });
    let (mut results, mut failed) = (Vec::new(), false);
    for ended in ended {
        match ended {
            Ok(result) => results.push(result),
            Err(Some(error)) => return Err(error),
            Err(None) => failed = true,
        }
    }
    if failed { Err(unknown()) } else { Ok(results) }
}
