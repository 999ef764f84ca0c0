//! Memory of one core: parameters, gradients, optimizer state and activations.

use std::sync::Arc;

use serde::Serialize;
use traind_job_file::JobFile;
use traind_models::Model;
use traind_models::optimizers::{self, Optimizer};
use traind_xla::Shape;
use traind_xla::kernels::are_kernels_expected;

use super::activations;
use crate::state::{Layout, mesh};

/// Sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Memory {
    pub weights_bytes: u64,
    pub gradients_bytes: u64,
    pub optimizer_bytes: u64,
    pub activations_bytes: u64,
    pub bytes_per_core: u64,
    /// The unsharded optimizer state, as in a checkpoint.
    #[serde(skip)]
    pub optimizer_bytes_whole: u64,
}

impl Memory {
    pub(crate) fn of(job: &JobFile, model: &Arc<dyn Model>) -> anyhow::Result<Memory> {
        let state = State::of(job, model.as_ref())?;
        let rows = job.train.per_device_train_batch_size as usize;
        let activations_bytes = activations::bytes(
            model.as_ref(),
            rows,
            positions(job, model.as_ref()),
            job.train.gradient_checkpointing,
            job.train.bf16,
            are_kernels_expected(&job.resources.platform.to_string()),
        )?;
        Ok(Memory {
            weights_bytes: state.weights,
            gradients_bytes: state.gradients,
            optimizer_bytes: state.optimizer,
            activations_bytes,
            bytes_per_core: state.weights + state.gradients + state.optimizer + activations_bytes,
            optimizer_bytes_whole: state.optimizer_whole,
        })
    }
}

/// The state of a core between steps, and the gradients.
struct State {
    weights: u64,
    gradients: u64,
    optimizer: u64,
    optimizer_whole: u64,
}

impl State {
    fn of(job: &JobFile, model: &dyn Model) -> anyhow::Result<State> {
        let optimizer =
            optimizers::build(&job.train.optim.to_string(), &optimizers::Settings::default())?;
        let sharded = job.parallel.shard_optimizer_state && optimizer.shardable();
        let shards = if sharded { mesh(job)?.data_shards() } else { 1 };
        let mut state = State { weights: 0, gradients: 0, optimizer: 0, optimizer_whole: 0 };
        for spec in model.parameters() {
            let bytes = spec.shape.size_bytes() as u64;
            state.weights += bytes;
            if !spec.trainable {
                continue;
            }
            let layout = Layout::of(&spec.shape, shards);
            let held = layout.held_shape(&spec.shape);
            // The optimizer updates a copy of the shard.
            let copy = if layout.is_shard() { held.size_bytes() as u64 } else { 0 };
            state.weights += copy;
            state.gradients += bytes;
            state.optimizer += slots(optimizer.as_ref(), &held);
            state.optimizer_whole += slots(optimizer.as_ref(), &spec.shape);
        }
        Ok(state)
    }
}

fn slots(optimizer: &dyn Optimizer, shape: &Shape) -> u64 {
    optimizer.slots(shape).iter().map(|slot| slot.shape.size_bytes() as u64).sum()
}

/// The length of the job's longest row.
pub(crate) fn positions(job: &JobFile, model: &dyn Model) -> usize {
    let most = model.max_positions();
    job.data.max_length.map_or(most, |length| (length as usize).min(most))
}
