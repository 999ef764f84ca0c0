//! The settings of trainer and loader by which a job runs: every conversion from the job file to what reads its rows,
//! and records and runs its programs. Each module has those of a section; a test keeps others from growing elsewhere.
//!
//! Imports `error` alone.

mod by_name;
pub(crate) mod embedding;
pub(crate) mod preference;
mod replaced_tokens;
mod reranker;
pub(crate) mod rows;
mod tuning;

use traind_job_file::{
    AttnImplementation, CorePlacement, JobFile, Model as ModelSection, Optim, OptimArg, OptimArgs,
    ParamGroup, ProblemType as NamedProblem, TaskName, Train,
};
use traind_loader::equal_part_rows;
use traind_models::optimizers::{Arg, GroupSettings, Optimizers, Settings};
use traind_models::tasks::preference::Metric;
use traind_models::tasks::{LossSettings, ProblemType};
use traind_models::{Model, Task};
use traind_xla::DType;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::{Mesh, Placement};

use crate::error::{RunError, RunResult};
use crate::session::Precision;
use crate::state::{MeshConfig, Pipeline, PipelineConfig, Reference, StateConfig};
use crate::step::{ForwardConfig, OptimizerConfig, StepConfig};
pub(crate) use replaced_tokens::token_generator;
pub(crate) use tuning::{frozen_dtype, lora};

/// Everything besides the model that the programs of a job are recorded from.
pub(crate) fn step_config(job: &JobFile) -> RunResult<StepConfig> {
    Ok(StepConfig {
        mesh: mesh_config(job)?,
        pipeline: pipeline_config(job),
        state: state_config(job),
        forward: forward_config(job),
        optimizer: optimizer_config(&job.train),
        rows_per_step: job.total_train_batch_size(),
    })
}

/// The task of the model that a job trains.
pub(crate) fn task(section: &ModelSection) -> RunResult<Task> {
    let name = match section.task {
        TaskName::Reranker | TaskName::Reward => Task::SequenceClassification.name().to_owned(),
        task if task.is_of_conversations() => Task::CausalLm.name().to_owned(),
        name => name.to_string(),
    };
    Task::from_name(&name).ok_or_else(|| RunError::Field {
        name: "model.task",
        value: name,
        problem: "no such task is implemented".to_owned(),
    })
}

/// The meaning of a row's labels.
pub(crate) fn problem_type(named: NamedProblem) -> ProblemType {
    match named {
        NamedProblem::SingleLabelClassification => ProblemType::SingleLabel,
        NamedProblem::MultiLabelClassification => ProblemType::MultiLabel,
        NamedProblem::Regression => ProblemType::Regression,
    }
}

/// The mesh of the job's first host.
pub(crate) fn mesh(job: &JobFile) -> RunResult<Mesh> {
    mesh_of_host(job, 0)
}

/// The mesh of a host of the job.
pub(crate) fn mesh_of_host(job: &JobFile, host: usize) -> RunResult<Mesh> {
    Ok(mesh_config(job)?.mesh_of_host(host)?)
}

/// The optimizers of the parameters of `model`. Fails where a group has none of them.
pub(crate) fn optimizers(train: &Train, model: &Model) -> RunResult<Optimizers> {
    let optimizers = optimizer_config(train).optimizers()?;
    optimizers.check(model.parameters())?;
    Ok(optimizers)
}

/// The stages that a job divides `model` into.
pub(crate) fn pipeline(job: &JobFile, model: &Model) -> RunResult<Pipeline> {
    let config = pipeline_config(job);
    Ok(Pipeline::of_model(model, job.parallel.pipeline as usize, &config)?)
}

/// The metrics that each training step gives besides its loss.
pub(crate) fn step_metrics(job: &JobFile) -> &'static [Metric] {
    preference::objective(job).map_or(&[], |objective| objective.metrics())
}

/// The type of a job's products.
pub(crate) fn compute_dtype(train: &Train) -> DType {
    match train {
        Train { bf16: true, .. } => DType::BF16,
        Train { fp16: true, .. } => DType::F16,
        _ => DType::F32,
    }
}

/// The type that a job's dots are computed in.
pub(crate) fn precision(train: &Train) -> Precision {
    match compute_dtype(train) {
        DType::F32 if train.tf32 => Precision::TensorFloat32,
        DType::F32 => Precision::Float32,
        _ => Precision::Half,
    }
}

/// The choices of a job on GPUs.
pub(crate) fn gpu_options(job: &JobFile) -> GpuOptions {
    GpuOptions {
        tensor_float_32: job.train.tf32,
        cudnn_attention: has_cudnn_attention(job.model.attn_implementation),
    }
}

fn has_cudnn_attention(attention: AttnImplementation) -> bool {
    attention == AttnImplementation::FlashAttention2
}

/// The mesh of a job.
pub(crate) fn mesh_config(job: &JobFile) -> RunResult<MeshConfig> {
    Ok(MeshConfig {
        data: job.host_data_parallel_size() as usize,
        tensor: job.parallel.tensor as usize,
        pipeline: job.host_pipeline_size() as usize,
        placement: placement(job.parallel.placement)?,
        data_hosts: job.data_hosts() as usize,
        pipeline_hosts: job.pipeline_hosts() as usize,
    })
}

fn placement(placement: CorePlacement) -> RunResult<Placement> {
    Ok(placement.as_str().parse()?)
}

fn pipeline_config(job: &JobFile) -> PipelineConfig {
    let parallel = &job.parallel;
    let horizon = parallel.activation_loading_horizon as usize;
    PipelineConfig {
        interleave: parallel.pipeline_interleave as usize,
        microbatches: microbatches(job),
        loading_horizon: parallel.offload.activations.then_some(horizon),
    }
}

/// The most micro-batches of a batch: as many as keep stages busy, and as make each as small as it has to be.
fn microbatches(job: &JobFile) -> Option<usize> {
    let parallel = &job.parallel;
    let of_parts = || {
        let part_rows_max = job.embedding.mini_batch_size? as usize;
        let rows = job.train.per_device_train_batch_size as usize;
        let enough = Pipeline::MICROBATCHES_PER_STAGE * parallel.pipeline as usize;
        Some(enough.max(rows / equal_part_rows(rows, part_rows_max)))
    };
    parallel.microbatches.map(|count| count as usize).or_else(of_parts)
}

fn state_config(job: &JobFile) -> StateConfig {
    let train = &job.train;
    let clips = train.max_grad_norm > 0.0;
    StateConfig {
        seed: train.seed,
        rows_per_core: train.per_device_train_batch_size as usize,
        max_grad_norm: if clips { train.max_grad_norm } else { f64::INFINITY },
        fsdp: job.parallel.sharding(),
        sequence_parallel: job.parallel.sequence_parallel,
        accumulates: train.gradient_accumulation_steps > 1
            || train.lr_scheduler_type.follows_evaluations(),
        scales_loss: train.fp16,
        offloads_optimizer: job.parallel.offload.optimizer,
        reference: reference(job),
    }
}

/// The reference of a job, if it has one.
fn reference(job: &JobFile) -> Option<Reference> {
    job.has_reference().then_some(match (job.reference_model(), &job.peft) {
        (Some(_), _) => Reference::Named,
        (None, peft) if peft.adapter_name_or_path.is_some() => Reference::WithAdapters,
        (None, _) => Reference::WithoutAdapters,
    })
}

fn forward_config(job: &JobFile) -> ForwardConfig {
    let train = &job.train;
    ForwardConfig {
        compute_dtype: compute_dtype(train),
        loss: loss_settings(train),
        preference: preference::objective(job),
        // Known with the data: see `embedding::objective`.
        embedding: None,
        dropout: !job.disables_dropout(),
        gradient_checkpointing: train.gradient_checkpointing,
        embedding_noise: train.neftune_noise_alpha.is_some_and(|alpha| alpha > 0.0),
    }
}

fn loss_settings(train: &Train) -> LossSettings {
    let args = train.loss_args.iter().map(|(name, value)| (name.to_owned(), *value));
    LossSettings {
        name: train.loss.map(|loss| loss.as_str().to_owned()),
        args: args.collect(),
        class_weights: train.class_weights.clone(),
        label_smoothing: train.label_smoothing_factor,
    }
}

/// A job that does not train gets the optimizer without state.
fn optimizer_config(train: &Train) -> OptimizerConfig {
    let optim = if train.do_train { train.optim } else { Optim::Sgd };
    let groups = train.param_groups.iter().filter(|_| train.do_train);
    OptimizerConfig {
        name: optim.as_str().to_owned(),
        settings: optimizer_settings(train, &train.optim_args),
        groups: groups.map(|group| group_settings(train, group)).collect(),
        own: None,
    }
}

fn optimizer_settings(train: &Train, args: &OptimArgs) -> Settings {
    Settings {
        weight_decay: train.weight_decay,
        adam_beta1: train.adam_beta1,
        adam_beta2: train.adam_beta2,
        adam_epsilon: train.adam_epsilon,
        args: args.iter().map(|(name, arg)| (name.to_owned(), optimizer_arg(arg))).collect(),
    }
}

fn optimizer_arg(arg: &OptimArg) -> Arg {
    match arg {
        OptimArg::Number(number) => Arg::Number(*number),
        OptimArg::Numbers(numbers) => Arg::Numbers(numbers.clone()),
        OptimArg::Word(word) => Arg::Word(word.clone()),
    }
}

/// A group's rate is a multiple of the job's, since the schedule changes both in proportion.
fn group_settings(train: &Train, group: &ParamGroup) -> GroupSettings {
    let settings = || optimizer_settings(train, &group.optim_args);
    GroupSettings {
        pattern: group.pattern.clone(),
        rate: group.learning_rate.map_or(1.0, |rate| rate / train.learning_rate),
        weight_decay: group.weight_decay,
        optim: group.optim.map(|optim| (optim.as_str().to_owned(), settings())),
    }
}

#[cfg(test)]
mod programs;
#[cfg(test)]
mod tests;
