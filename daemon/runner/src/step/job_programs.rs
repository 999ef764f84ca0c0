//! Everything that the programs of a job are recorded from. The plan records them without a device, the
//! run compiles them.

use std::sync::Arc;

use traind_job_file::JobFile;
use traind_loader::ModelInputs;
use traind_models::Model;
use traind_models::optimizers::Optimizer;
use traind_xla::runtime::{RecordedStep, Recorder};

use super::{
    EvalStep, ForwardPass, GenerateStep, Program, ProgramShape, Readout, StepPrograms, TrainStep,
};
use crate::error::{RunError, RunResult};
use crate::state::{StateSettings, TrainState};

pub(crate) struct JobPrograms {
    pub state: TrainState,
    pub train: TrainStep,
    pub evaluate: EvalStep,
    pub predict: EvalStep,
    /// Present where the job generates texts.
    pub generate: Option<GenerateStep>,
}

impl JobPrograms {
    /// Declares the job's variables. `inputs` are those that the tokenizer provides.
    pub(crate) fn declare(
        job: &JobFile,
        model: &Arc<dyn Model>,
        inputs: ModelInputs,
        readout: Readout,
        recorder: &mut Recorder,
    ) -> RunResult<JobPrograms> {
        let forward = ForwardPass::of_job(job, model, inputs)?;
        let train = TrainStep::of_job(job, forward.clone(), recorder.mesh().clone())?;
        let evaluate = EvalStep { forward, readout };
        let (optimizer, settings) = (train.optimizer.as_ref(), StateSettings::of_job(job));
        check_tensor_parallel(job, model.as_ref(), optimizer)?;
        check_fsdp(job, optimizer)?;
        let state = TrainState::declare(recorder, model.as_ref(), optimizer, settings)?;
        Ok(JobPrograms { state, train, predict: evaluate.unlabelled(), evaluate, generate: None })
    }

    /// Declares the caches of the `passes` that generate.
    pub(crate) fn declare_generation(
        &mut self,
        step: &GenerateStep,
        recorder: &mut Recorder,
        passes: impl IntoIterator<Item = ProgramShape>,
    ) -> RunResult<()> {
        let mut step = step.clone();
        for pass in passes.into_iter().filter(|pass| pass.program == Program::Prefill) {
            step.declare_cache(recorder, &self.state, pass.sizes)?;
        }
        self.generate = Some(step);
        Ok(())
    }

    /// The programs that a training step takes.
    pub(crate) fn step_programs(&self) -> StepPrograms {
        match self.state.accumulation {
            Some(_) => StepPrograms::Accumulated,
            None => StepPrograms::Fused,
        }
    }

    /// The evaluation step of a program.
    pub(crate) fn eval_step(&self, program: Program) -> &EvalStep {
        if program == Program::Predict { &self.predict } else { &self.evaluate }
    }

    /// Records a program against the recorder that declared the variables.
    pub(crate) fn record(
        &self,
        recorder: &Recorder,
        shape: ProgramShape,
    ) -> RunResult<RecordedStep> {
        let ProgramShape { program, sizes } = shape;
        let (train, state) = (&self.train, &self.state);
        match program {
            Program::Train => recorder.record(&train.inputs(&sizes), |at| train.record(at, state)),
            Program::Accumulate => {
                let inputs = train.accumulate_inputs(&sizes);
                recorder.record(&inputs, |at| train.record_accumulate(at, state))
            }
            Program::Update => {
                recorder.record(&train.update_inputs(), |at| train.record_update(at, state))
            }
            Program::Evaluate | Program::Predict => {
                let evaluate = self.eval_step(program);
                recorder.record(&evaluate.inputs(&sizes), |at| evaluate.record(at, state))
            }
            Program::Prefill | Program::Decode => {
                let generate = self.generate.as_ref().ok_or(RunError::NoCache)?;
                recorder.record(&generate.inputs(program, &sizes), |at| {
                    generate.record(at, state, program, &sizes)
                })
            }
        }
    }
}

/// Refuses cores that cannot share the model's layers, or its update.
fn check_tensor_parallel(
    job: &JobFile,
    model: &dyn Model,
    optimizer: &dyn Optimizer,
) -> RunResult<()> {
    let cores = job.parallel.tensor;
    model.check_tensor_parallel(cores as usize)?;
    if cores == 1 || optimizer.shardable() {
        return Ok(());
    }
    let optim = job.train.optim;
    Err(RunError::Field {
        name: "parallel.tensor",
        value: cores.to_string(),
        problem: format!(
            "train.optim: {optim} reads whole parameters, of which each core would have a part; \
             adamw_torch reads parts, or parallel.tensor: 1 keeps them whole"
        ),
    })
}

/// Refuses to shard gradients or parameters for an optimizer that cannot update shards. One whose state
/// alone would be sharded keeps it whole.
fn check_fsdp(job: &JobFile, optimizer: &dyn Optimizer) -> RunResult<()> {
    let fsdp = job.parallel.sharding();
    if !fsdp.shards_gradients() || optimizer.shardable() {
        return Ok(());
    }
    let optim = job.train.optim;
    Err(RunError::Field {
        name: "parallel.fsdp",
        value: fsdp.to_string(),
        problem: format!(
            "train.optim: {optim} reads whole parameters, of which each core would have a shard; \
             adamw_torch reads shards, or parallel.fsdp: no keeps parameters whole"
        ),
    })
}
