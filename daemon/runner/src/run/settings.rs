//! Translates the job file's settings for the parts that apply them.

use std::sync::Arc;

use traind_job_file::{JobFile, Optim, TrainSamplingStrategy};
use traind_loader::{SamplerConfig, SamplingStrategy};
use traind_models::optimizers;
use traind_models::tasks::LabelSmoother;
use traind_xla::mesh::Mesh;

use crate::error::RunResult;
use crate::model::OpenModel;
use crate::state::StateSettings;
use crate::step::{BatchLayout, ForwardPass, compute_dtype};

pub(super) fn sampler(job: &JobFile, mesh: &Mesh) -> SamplerConfig {
    let train = &job.train;
    SamplerConfig {
        batch_per_core: train.per_device_train_batch_size as usize,
        cores: mesh.data_shards(),
        seed: job.data_seed(),
        strategy: match train.train_sampling_strategy {
            TrainSamplingStrategy::Random => SamplingStrategy::Random,
            TrainSamplingStrategy::Sequential => SamplingStrategy::Sequential,
            TrainSamplingStrategy::GroupByLength => SamplingStrategy::GroupByLength,
        },
        drop_last: train.dataloader_drop_last && train.do_train,
    }
}

pub(super) fn forward_pass(job: &JobFile, open: &OpenModel) -> RunResult<ForwardPass> {
    let train = &job.train;
    let smooths = train.label_smoothing_factor > 0.0;
    let smoother = smooths.then(|| LabelSmoother::new(train.label_smoothing_factor));
    Ok(ForwardPass {
        model: Arc::clone(&open.model),
        layout: BatchLayout::of(open.model.as_ref(), open.inputs),
        compute_dtype: compute_dtype(train),
        smoother: smoother.transpose()?,
        gradient_checkpointing: train.gradient_checkpointing,
    })
}

/// Returns the optimizer. A job that does not train gets the one without state.
pub(super) fn optimizer(job: &JobFile) -> RunResult<Arc<dyn optimizers::Optimizer>> {
    let train = &job.train;
    let name = if train.do_train { train.optim } else { Optim::Sgd };
    let settings = optimizers::Settings {
        weight_decay: train.weight_decay,
        adam_beta1: train.adam_beta1,
        adam_beta2: train.adam_beta2,
        adam_epsilon: train.adam_epsilon,
        args: train.optim_args.iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    Ok(optimizers::build(name.as_str(), &settings)?.into())
}

pub(super) fn state(job: &JobFile) -> StateSettings {
    let train = &job.train;
    StateSettings {
        seed: train.seed,
        rows_per_core: train.per_device_train_batch_size as usize,
        max_grad_norm: if train.max_grad_norm > 0.0 { train.max_grad_norm } else { f64::INFINITY },
        shard_optimizer_state: job.parallel.shard_optimizer_state,
        accumulates: train.gradient_accumulation_steps > 1 || train.fp16,
        fp16: train.fp16,
    }
}
