//! Everything that the programs of a job are recorded from. The plan records them without a device, the
//! run compiles them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use traind_loader::{BatchSizes, ModelInputs};
use traind_models::optimizers::{Optimizers, Shardable};
use traind_models::{Model, ParameterSpec, Sharding};
use traind_xla::runtime::{RecordedStep, Recorder};

use super::{
    EvalStep, ForwardPass, GenerateStep, PipelineOrder, Program, ProgramShape, Readout, StepConfig,
    StepPrograms, TrainStep,
};
use crate::error::{Division, Error, Result};
use crate::state::{CacheConfig, Loan, ParameterState, Pipeline, Place, TrainState};

/// The programs of a run, and the state that they read and change.
pub struct JobPrograms {
    /// The stages, and the parts of the model on them.
    pub pipeline: Pipeline,
    /// The stages whose programs these are: those of this host, or all in a plan.
    pub stages: Range<usize>,
    /// The state of each of these stages.
    pub states: Vec<TrainState>,
    /// The trained parameters that several stages read.
    pub loans: Vec<Loan>,
    /// The training step.
    pub train: TrainStep,
    /// The evaluation of rows with labels.
    pub evaluate: EvalStep,
    /// The evaluation of rows without labels.
    pub predict: EvalStep,
    /// Present where the job generates texts.
    pub generate: Option<GenerateStep>,
    /// Whether the optimizer's state is in host memory between updates.
    pub offloads_optimizer: bool,
    /// The passes before a backward pass at which its input is on the core again; `None` where inputs stay.
    pub loading_horizon: Option<usize>,
}

/// The stages that programs are declared for.
pub struct DeclaredStages {
    /// The stages, and the parts of the model on them.
    pub pipeline: Pipeline,
    /// The parameters of each stage, which may be fewer than it reads.
    pub places: Vec<Vec<Place>>,
}

impl JobPrograms {
    /// Declares the variables of a run with the recorder of each stage of a host. `inputs` are those that the
    /// tokenizer provides.
    pub fn declare<'a>(
        config: &StepConfig,
        model: &Arc<Model>,
        inputs: ModelInputs,
        readout: Readout,
        recorders: impl IntoIterator<Item = &'a mut Recorder>,
    ) -> Result<JobPrograms> {
        let pipeline = config.pipeline_of(model.as_ref())?;
        let places = pipeline.places(model.as_ref());
        let stages = DeclaredStages { pipeline, places };
        let programs =
            JobPrograms::declare_stages(config, model, stages, inputs, readout, recorders)?;
        programs.train.optimizers.check(model.parameters())?;
        Ok(programs)
    }

    /// Declares the variables of stages that may have other layers and fewer parameters than the config's.
    pub fn declare_stages<'a>(
        config: &StepConfig,
        model: &Arc<Model>,
        DeclaredStages { pipeline, places }: DeclaredStages,
        inputs: ModelInputs,
        readout: Readout,
        recorders: impl IntoIterator<Item = &'a mut Recorder>,
    ) -> Result<JobPrograms> {
        let forward = ForwardPass::new(config, model, pipeline.chunks.clone(), inputs)?;
        let recorders: Vec<&mut Recorder> = recorders.into_iter().collect();
        // Only these know the hosts of the run.
        let stage = recorders.first().map(|recorder| recorder.mesh().of_stage());
        let stage = match stage {
            Some(stage) => stage,
            None => config.mesh.mesh()?.of_stage(),
        };
        let first = stage.pipeline_place() * recorders.len();
        let stages = first..first + recorders.len();
        let train = TrainStep::new(config, forward.clone().of_training(), stage)?;
        let evaluate = EvalStep { forward, readout };
        let (optimizers, cache) = (train.optimizers.as_ref(), train.forward.cache);
        let state = config.state_with_sums(cache);
        check_tensor_parallel(config, model.as_ref(), optimizers)?;
        check_fsdp(config, model.as_ref(), optimizers)?;
        let metrics = train.metrics();
        let declare = |((recorder, places), stage): ((&mut Recorder, Vec<Place>), usize)| {
            let cache = cache.filter(|_| stage == pipeline.last_stage());
            TrainState::declare(recorder, model.as_ref(), optimizers, state, cache, metrics, places)
        };
        let places = places.into_iter().skip(stages.start);
        let states = recorders.into_iter().zip(places).zip(stages.clone()).map(declare);
        let states = states.collect::<Result<Vec<_>>>()?;
        let (predict, loans) = (evaluate.unlabelled(), pipeline.loans(model.as_ref()));
        Ok(JobPrograms {
            pipeline,
            stages,
            states,
            loans,
            train,
            predict,
            evaluate,
            generate: None,
            offloads_optimizer: config.state.offloads_optimizer,
            loading_horizon: config.pipeline.loading_horizon,
        })
    }

    /// Lets the reference compute as `model` does instead of as the trained one, if it is given.
    pub fn with_reference_model(mut self, model: Option<&Arc<Model>>) -> JobPrograms {
        let steps =
            [&mut self.train.forward, &mut self.evaluate.forward, &mut self.predict.forward];
        for forward in steps {
            forward.reference_model = model.cloned();
        }
        self
    }

    /// The stage that runs a program.
    pub fn stage_of(&self, shape: &ProgramShape) -> usize {
        self.pipeline.stage_of(shape.chunk.unwrap_or(0))
    }

    /// The place of a stage among those whose programs these are.
    pub(crate) fn own_place(&self, stage: usize) -> Option<usize> {
        self.stages.contains(&stage).then(|| stage - self.stages.start)
    }

    /// The state of a stage, one of [`JobPrograms::stages`].
    pub fn state(&self, stage: usize) -> &TrainState {
        &self.states[stage - self.stages.start]
    }

    /// The programs of these stages that together, with those of other hosts, do what `shape` does, in the order of
    /// their first use: itself where there is one stage.
    pub fn parts_of(&self, shape: ProgramShape) -> Vec<ProgramShape> {
        let mut parts = self.parts_of_all(shape);
        parts.retain(|part| self.stages.contains(&self.stage_of(part)));
        parts
    }

    fn parts_of_all(&self, shape: ProgramShape) -> Vec<ProgramShape> {
        let (pipeline, program) = (&self.pipeline, shape.program);
        let is_divided = match program {
            Program::Update => self.updates_in_parts(),
            _ => pipeline.is_divided(),
        };
        let compare = ProgramShape::compare(&shape.sizes);
        if let (Program::Accumulate, Some(cache), false) =
            (program, self.gradient_cache(), is_divided)
        {
            let sizes = cache.part_sizes(shape.sizes);
            let of_part = |program| ProgramShape::of_batch(program, sizes);
            return vec![of_part(Program::Embed), compare, of_part(program)];
        }
        if !is_divided {
            return vec![shape];
        }
        let (chunks, sizes) = (pipeline.chunks.count(), self.micro_sizes(program, shape.sizes));
        let part = |program, chunk| ProgramShape { program, sizes, chunk: Some(chunk), part: 0 };
        match program {
            Program::Accumulate => {
                let last = chunks - 1;
                let forward = (0..last).map(|chunk| part(Program::Forward, chunk));
                let compared = [part(Program::Embed, last), compare.of_chunk(last)];
                let compared = compared.into_iter().filter(|_| self.gradient_cache().is_some());
                let backward = (0..chunks).rev().map(|chunk| part(program, chunk));
                forward.chain(compared).chain(backward).collect()
            }
            Program::Update => {
                let stages = || self.stages.clone();
                let reduce = stages().map(|stage| part(Program::Reduce, stage));
                let updates = stages().flat_map(|stage| self.update_shapes(stage));
                reduce.chain(updates).collect()
            }
            _ => (0..chunks).map(|chunk| part(program, chunk)).collect(),
        }
    }

    /// The parts that training batches pass through the model in; none where they pass whole.
    pub fn gradient_cache(&self) -> Option<CacheConfig> {
        self.train.forward.cache
    }

    /// The order in which micro-batches of a training batch with `rows` rows on each core pass the stages.
    pub fn pipeline_order(&self, rows: usize) -> PipelineOrder {
        let compares = self.gradient_cache().is_some();
        PipelineOrder { compares, ..PipelineOrder::of(&self.pipeline, rows) }
    }

    /// The stages as batches of `program` pass them: whole where an evaluation compares their rows.
    pub(crate) fn pipeline_of(&self, program: Program) -> Pipeline {
        match program {
            Program::Evaluate if self.evaluate.forward.compares_evaluated() => {
                self.pipeline.with_whole_batches()
            }
            _ => self.pipeline.clone(),
        }
    }

    /// The sizes of the micro-batches of a batch of `sizes`.
    pub(crate) fn micro_sizes(&self, program: Program, sizes: BatchSizes) -> BatchSizes {
        self.pipeline_of(program).micro_sizes(sizes)
    }

    /// Whether programs that sum over the stages and programs that update parts end a step, instead of one.
    pub(crate) fn updates_in_parts(&self) -> bool {
        self.pipeline.is_divided() || self.offloads_optimizer
    }

    /// The programs that update one of these stages, in their order.
    pub(crate) fn update_shapes(&self, stage: usize) -> Vec<ProgramShape> {
        let shape = ProgramShape::update().of_chunk(stage);
        let parts = 0..self.state(stage).update_parts().len();
        parts.map(|part| ProgramShape { part, ..shape }).collect()
    }

    /// The bytes that a stage keeps for backward passes of a batch of `sizes` besides those of the pass that runs: on
    /// each core, and for it in host memory. `kept_bytes`: those that the forward pass of a chunk keeps.
    pub fn kept_bytes(
        &self,
        sizes: BatchSizes,
        stage: usize,
        kept_bytes: &BTreeMap<usize, u64>,
    ) -> Result<[u64; 2]> {
        if !self.pipeline.is_divided() {
            return Ok([0; 2]);
        }
        let pipeline_order = self.pipeline_order(sizes.rows());
        let states = self.train.forward.state_bytes(&self.pipeline.micro_sizes(sizes))?;
        let bytes = |chunk: usize| {
            let read = if self.pipeline.chunks.is_first(chunk) { 0 } else { states };
            read + kept_bytes.get(&chunk).copied().unwrap_or(0)
        };
        Ok(pipeline_order.bytes_kept(stage, self.loading_horizon, bytes))
    }

    /// The bytes of states, and of gradients of states, that a core of a stage sends to others in a training
    /// batch of `sizes`.
    pub fn sent_bytes(&self, sizes: BatchSizes, stage: usize) -> Result<u64> {
        let chunk_sends = |chunk| {
            let chunks = &self.pipeline.chunks;
            u64::from(!chunks.is_last(chunk)) + u64::from(!chunks.is_first(chunk))
        };
        let of_microbatch: u64 = self.pipeline.chunks_of(stage).map(chunk_sends).sum();
        let sends = self.pipeline.microbatches(sizes.rows()) as u64 * of_microbatch;
        if sends == 0 {
            return Ok(0);
        }
        Ok(sends * self.train.forward.state_bytes(&self.pipeline.micro_sizes(sizes))?)
    }

    /// The bytes that a core of a stage sends to others at the end of a step: sums of gradients of the
    /// parameters that it borrows, and those parameters that it lends.
    pub fn lent_bytes(&self, stage: usize) -> u64 {
        let own = |loan: &&Loan| loan.borrower == stage || loan.owner == stage;
        let shapes = self.loans.iter().filter(own).filter_map(|loan| {
            self.state(stage).parameter(loan.parameter).and_then(ParameterState::sum_shape)
        });
        shapes.map(|shape| shape.size_bytes() as u64).sum()
    }

    /// The loans of a stage's own parameters.
    pub(crate) fn loans_of(&self, owner: usize) -> Vec<Loan> {
        self.loans.iter().filter(|loan| loan.owner == owner).copied().collect()
    }

    /// Declares the caches of the `passes` that generate.
    pub fn declare_generation(
        &mut self,
        step: &GenerateStep,
        recorder: &mut Recorder,
        passes: impl IntoIterator<Item = ProgramShape>,
    ) -> Result<()> {
        let mut step = step.clone();
        for pass in passes.into_iter().filter(|pass| pass.program == Program::Prefill) {
            step.declare_cache(recorder, &self.states[0], pass.sizes)?;
        }
        self.generate = Some(step);
        Ok(())
    }

    /// The programs that a training step takes.
    pub fn step_programs(&self) -> StepPrograms {
        match self.accumulates() {
            true => StepPrograms::Accumulated,
            false => StepPrograms::Fused,
        }
    }

    fn accumulates(&self) -> bool {
        self.states.iter().any(|state| state.accumulation.is_some())
    }

    /// The evaluation step of a program.
    pub fn eval_step(&self, program: Program) -> &EvalStep {
        if program == Program::Predict { &self.predict } else { &self.evaluate }
    }

    /// Records a program against the recorder that declared the variables of its stage.
    pub fn record(&self, recorder: &Recorder, shape: ProgramShape) -> Result<RecordedStep> {
        let ProgramShape { program, sizes, chunk, part } = shape;
        let (chunk, stage, is_part) = (chunk.unwrap_or(0), self.stage_of(&shape), chunk.is_some());
        let (train, state) = (&self.train.of_set(&sizes), self.state(stage));
        match program {
            Program::Train => recorder.record(&train.inputs(&sizes), |at| train.record(at, state)),
            Program::Forward => train.record_forward(recorder, state, &sizes, chunk),
            Program::Embed => train.record_embed(recorder, state, &sizes),
            Program::Compare => train.record_compare(recorder, state),
            Program::Accumulate
                if state.gradient_cache.is_some() && self.pipeline.chunks.is_last(chunk) =>
            {
                train.record_cached_accumulate(recorder, state, &sizes)
            }
            Program::Accumulate => train.record_accumulate(recorder, state, &sizes, chunk),
            Program::Reduce => {
                let loans = self.loans_of(stage);
                let inputs = train.reduce_inputs(state, &loans);
                recorder.record(&inputs, |at| train.record_reduce(at, state, &loans))
            }
            Program::Update if is_part => {
                let (inputs, part) = (train.stage_update_inputs(), &state.update_parts()[part]);
                recorder.record(&inputs, |at| train.record_stage_update(at, state, part))
            }
            Program::Update => {
                recorder.record(&train.update_inputs(), |at| train.record_update(at, state))
            }
            Program::Evaluate | Program::Predict => {
                let evaluate = self.eval_step(program);
                let inputs = evaluate.inputs(&sizes, chunk)?;
                recorder.record(&inputs, |at| evaluate.record(at, state, chunk))
            }
            Program::Prefill | Program::Decode => {
                let generate = self.generate.as_ref().ok_or(Error::NoCache)?;
                recorder.record(&generate.inputs(program, &sizes), |at| {
                    generate.record(at, state, program, &sizes)
                })
            }
        }
    }
}

/// Refuses cores that cannot share the model's layers, or their update.
fn check_tensor_parallel(
    config: &StepConfig,
    model: &Model,
    optimizers: &Optimizers,
) -> Result<()> {
    let cores = config.mesh.tensor;
    model.check_tensor_parallel(cores)?;
    for spec in updated_whole(model, optimizers) {
        if Sharding::of(spec, cores)?.is_divided() {
            return Err(whole_parameters(optimizers, spec, Division::Tensor { cores }));
        }
    }
    Ok(())
}

/// Refuses to shard gradients or parameters for an optimizer that cannot update shards. One whose state
/// alone would be sharded keeps it whole.
fn check_fsdp(config: &StepConfig, model: &Model, optimizers: &Optimizers) -> Result<()> {
    let fsdp = config.state.fsdp;
    match updated_whole(model, optimizers).next() {
        Some(spec) if fsdp.shards_gradients() => {
            Err(whole_parameters(optimizers, spec, Division::Shards(fsdp)))
        }
        _ => Ok(()),
    }
}

/// The trained parameters whose optimizers update no parts.
fn updated_whole<'a>(
    model: &'a Model,
    optimizers: &'a Optimizers,
) -> impl Iterator<Item = &'a ParameterSpec> {
    let is_whole = |spec: &&ParameterSpec| optimizers.of(spec).shardable(spec) == Shardable::No;
    model.parameters().iter().filter(|spec| spec.trainable).filter(is_whole)
}

fn whole_parameters(optimizers: &Optimizers, spec: &ParameterSpec, division: Division) -> Error {
    Error::WholeParameters { optimizer: optimizers.name(spec).to_owned(), division }
}
