//! Passes batches through the stages of a pipeline, and ends their steps.
//!
//! Stages of other hosts are driven there, in the same order. Each stage has a thread, which launches the programs of
//! its cores in the pipeline's order. So all stages compute at once also where a plugin runs a program before it
//! returns, as that of CPUs does.

mod far_activations;
mod far_stages;
mod links;
mod stage;
mod step_end;
mod timeline;
mod turns;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ScopedJoinHandle;

use traind_loader::{BatchSizes, panic_message};
use traind_pjrt::Buffer;
use traind_xla::runtime::{CoreInputs, HostMemory, LazyDevice, LocalCores, Pending};

use super::{Session, UploadedBatch, Work};
use crate::error::{Error, Result};
use crate::state::TrainState;
use crate::step::{Direction, LastChunk, Pass, PipelineOrder, Program, ProgramShape};
use far_activations::FarActivations;
use far_stages::FarStages;
use links::{Links, Message};
use stage::{Outbox, StageRun};
use timeline::Timeline;
use turns::Turns;

/// The result of a stage's thread; `Err(None)` where another stage has failed.
type Ended<T> = Result<T, Option<Error>>;

impl Session {
    /// Passes a training batch forward and backward; returns all programs.
    pub(super) fn pass_training_batch(&mut self, batch: &UploadedBatch) -> Result<Vec<Pending>> {
        let passed = self.pass_batch(Program::Accumulate, batch)?;
        Ok(passed.into_iter().flatten().collect())
    }

    /// Passes a batch forward; returns the programs of the last chunk by micro-batch, if it is on this host.
    pub(super) fn pass_evaluated_batch(
        &mut self,
        program: Program,
        batch: &UploadedBatch,
    ) -> Result<Option<Vec<Pending>>> {
        let pipeline = self.programs.pipeline.clone();
        let mut passed = self.pass_batch(program, batch)?;
        let Some(last) = self.programs.own_place(pipeline.last_stage()) else { return Ok(None) };
        let pipeline_order = self.pipeline_order(program, batch);
        let passes = pipeline_order.evaluation(pipeline.last_stage()).into_iter();
        let launched = passes.zip(passed.swap_remove(last));
        let last = pipeline.chunks.count() - 1;
        let mut parts: Vec<_> = launched.filter(|(pass, _)| pass.chunk == last).collect();
        parts.sort_by_key(|(pass, _)| pass.micro);
        Ok(Some(parts.into_iter().map(|(_, launched)| launched).collect()))
    }

    /// The hosts with the other stages of this host's rows, if there are any.
    fn far_stages(&self) -> Result<Option<FarStages>> {
        FarStages::of_mesh(self.devices[0].cores().mesh(), self.programs.pipeline.stages)
    }

    fn pipeline_order(&self, program: Program, batch: &UploadedBatch) -> PipelineOrder {
        let rows = batch.sizes().rows();
        match program {
            Program::Accumulate => self.programs.pipeline_order(rows),
            _ => PipelineOrder::of(&self.programs.pipeline_of(program), rows),
        }
    }

    /// Launches the parts of `program` for each micro-batch; returns those of each stage of this host in their order.
    fn pass_batch(&mut self, program: Program, batch: &UploadedBatch) -> Result<Vec<Vec<Pending>>> {
        let pipeline_order = self.pipeline_order(program, batch);
        self.ready_parts(
            ProgramShape::of_batch(program, batch.sizes()),
            pipeline_order.microbatches,
        )?;
        let trains = program == Program::Accumulate;
        let last = pipeline_order.last_chunk();
        let sizes = self.programs.micro_sizes(program, batch.sizes());
        let key = pass_key(program, sizes, last);
        let compare = ProgramShape::compare(&sizes).of_chunk(last.chunk).key();
        let (links, inboxes) = self.links(&sizes)?;
        let horizon = self.programs.loading_horizon.filter(|_| trains);
        let of_stages = (0..pipeline_order.stages).map(|stage| match trains {
            true => pipeline_order.training(stage),
            false => pipeline_order.evaluation(stage),
        });
        let of_stages: Vec<Vec<Pass>> = of_stages.collect();
        let turns = self.turns(&pipeline_order, &of_stages);
        let order = of_stages[self.programs.stages.clone()].to_vec();
        let timeline = Timeline::new(order.clone(), last, Arc::clone(&self.observer));
        let stages = self.devices.iter_mut().zip(inboxes).zip(&batch.inputs).zip(order);
        let stages = stages.enumerate().map(|(own, (((device, inbox), inputs), passes))| {
            let far = match horizon {
                Some(horizon) => {
                    Some(FarActivations::new(HostMemory::of(&links.cores[own])?, horizon, &passes))
                }
                None => None,
            };
            Ok(StageRun {
                device,
                passes,
                inputs,
                key: &key,
                compare: (trains && last.passes_forward).then(|| compare.clone()),
                trains,
                last,
                far,
                timeline: timeline.clone(),
                inbox,
                outbox: Outbox { links: &links, turns: turns.as_ref(), own, is_done: false },
            })
        });
        on_threads(stages.collect::<Result<_>>()?, StageRun::run)
    }

    /// The turns of this host's stages, where they launch programs that a client of CPUs runs one at a time and that
    /// wait for those of other hosts. `of_stages` are the passes of the stages of all hosts.
    fn turns(&self, pipeline_order: &PipelineOrder, of_stages: &[Vec<Pass>]) -> Option<Turns> {
        let reach_hosts = self.programs.states.iter().any(TrainState::passes_reach_hosts);
        if !(reach_hosts && self.is_on_cpus() && self.devices[0].cores().len() > 1) {
            return None;
        }
        let mut order = pipeline_order.one_order(of_stages);
        order.retain(|pass| self.programs.stages.contains(&(pass.chunk % pipeline_order.stages)));
        Some(Turns::new(order))
    }

    /// The ways between stages for a micro-batch of `sizes`, and what arrives at each stage of this host.
    fn links(&self, sizes: &BatchSizes) -> Result<(Links, Vec<Receiver<Message>>)> {
        let cores: Vec<LocalCores> =
            self.devices.iter().map(|device| device.cores().clone()).collect();
        let (senders, inboxes): (Vec<Sender<_>>, Vec<Receiver<_>>) =
            cores.iter().map(|_| channel::<Message>()).unzip();
        let (stages, own, far) =
            (self.programs.pipeline.stages, self.programs.stages.clone(), self.far_stages()?);
        let shapes = self.programs.train.forward.state_shapes(sizes)?;
        Ok((Links { stages, own, cores, senders, far, shapes }, inboxes))
    }

    /// Waits until the parts of a program are installed, and counts their work, which stages share.
    fn ready_parts(&mut self, shape: ProgramShape, microbatches: usize) -> Result<()> {
        let parts = self.programs.parts_of(shape);
        let mut work = Work::default();
        for part in parts {
            let times = if part.program == Program::Compare { 1 } else { microbatches };
            work += self.ready(part)? * (times as f64 / self.devices.len() as f64);
        }
        if shape.program.ends_step() {
            self.queue.step_launched();
            work.sent.pipeline += self.lent_bytes();
        }
        self.observer.launched(work);
        Ok(())
    }

    /// The bytes of loans that a core sends at the end of a step, averaged over the stages.
    fn lent_bytes(&self) -> f64 {
        let stages = self.programs.stages.clone();
        let bytes: u64 = stages.clone().map(|stage| self.programs.lent_bytes(stage)).sum();
        bytes as f64 / stages.len() as f64
    }
}

/// The keys of the programs of passes.
fn pass_key(
    program: Program,
    sizes: BatchSizes,
    last: LastChunk,
) -> impl Fn(Pass) -> String + Sync {
    move |pass| {
        let program = match (program, pass.direction) {
            (Program::Accumulate, Direction::Forward) if pass.chunk == last.chunk => Program::Embed,
            (Program::Accumulate, Direction::Forward) => Program::Forward,
            _ => program,
        };
        ProgramShape::of_batch(program, sizes).of_chunk(pass.chunk).key()
    }
}

fn launch(device: &mut LazyDevice, key: &str, inputs: &CoreInputs) -> Ended<Pending> {
    let inputs: Vec<Vec<&Buffer>> = inputs.iter().map(|core| core.iter().collect()).collect();
    device.mark_step_with(key, &inputs).map_err(|error| Some(error.into()))
}

fn no_inputs(device: &LazyDevice) -> CoreInputs {
    device.cores().coordinates().map(|_| Vec::new()).collect()
}

fn unknown() -> Error {
    Error::Panicked("a stage ended without a result".to_owned())
}

/// Runs each stage on a thread of its own; returns their results in order, or the first error.
fn on_threads<S: Send, T: Send>(
    stages: Vec<S>,
    run: impl Fn(S) -> Ended<T> + Copy + Send + Sync,
) -> Result<Vec<T>> {
    let ended: Vec<Ended<T>> = std::thread::scope(|scope| {
        let threads: Vec<ScopedJoinHandle<'_, _>> =
            stages.into_iter().map(|stage| scope.spawn(move || run(stage))).collect();
        let join = |thread: ScopedJoinHandle<'_, Ended<T>>| {
            let panicked = |panic: Box<dyn std::any::Any + Send>| {
                Err(Some(Error::Panicked(panic_message(panic.as_ref()))))
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
