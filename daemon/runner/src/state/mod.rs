//! The state on the cores that lasts from step to step: parameters, optimizer slots and a few
//! constants.
//!
//! With `shard_optimizer_state` the slots of a large parameter, and the copy that the optimizer
//! updates, are sharded over the `data` axis (ZeRO-1): gradients are reduce-scattered, each core
//! updates its shard, and the shards are gathered into the whole parameter.
//!
//! Imports `error` alone.

mod accumulation;
mod layout;
mod mesh;
mod parameter;
mod slots;

use std::sync::Arc;

use traind_models::Model;
use traind_models::optimizers::Optimizer;
use traind_xla::runtime::{HostArray, LazyDevice, Recording, Variable};

use crate::error::RunResult;

pub(crate) use accumulation::{Accumulation, LossScale, ScaleValues};
pub(crate) use layout::Layout;
pub(crate) use mesh::mesh;
pub(crate) use parameter::{Gradient, ParameterState, ParameterUpdate, ParameterValue};
pub(crate) use slots::{SlotArrays, StoredSlots};

/// All state of a training run.
#[derive(Clone, Debug)]
pub(crate) struct TrainState {
    parameters: Vec<ParameterState>,
    /// u32: seeds the random numbers of every step.
    pub seed: Variable,
    /// u32: the first row of this core in the global batch.
    pub row_offset: Variable,
    /// f32: infinity where gradients are not clipped.
    pub max_grad_norm: Variable,
    /// Present where a step takes several programs.
    pub accumulation: Option<Accumulation>,
    /// Present with `fp16`.
    pub loss_scale: Option<LossScale>,
}

/// Settings of a run's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateSettings {
    pub seed: u64,
    pub rows_per_core: usize,
    pub max_grad_norm: f64,
    pub shard_optimizer_state: bool,
    /// Whether a step takes several programs.
    pub accumulates: bool,
    /// Whether the loss is scaled.
    pub fp16: bool,
}

/// The values that training starts from.
#[derive(Debug, Default)]
pub(crate) struct StartValues {
    /// In the order of the model's parameters.
    pub parameters: Vec<HostArray>,
    /// The slots of a checkpoint; zeros where absent.
    pub slots: Option<StoredSlots>,
    pub loss_scale: ScaleValues,
}

impl TrainState {
    /// Uploads the values that training starts with.
    pub(crate) fn create(
        device: &mut LazyDevice,
        model: &Arc<dyn Model>,
        optimizer: &Arc<dyn Optimizer>,
        start: &StartValues,
        settings: StateSettings,
    ) -> RunResult<TrainState> {
        // An optimizer that reads whole rows or columns cannot update a shard.
        let sharded = settings.shard_optimizer_state && optimizer.shardable();
        let shards = if sharded { device.cores().mesh().data_shards() } else { 1 };
        let creation = parameter::Creation {
            optimizer: optimizer.as_ref(),
            shards,
            slots: start.slots.as_ref(),
            accumulates: settings.accumulates,
        };
        let mut parameters = Vec::with_capacity(start.parameters.len());
        for (spec, array) in model.parameters().iter().zip(&start.parameters) {
            parameters.push(ParameterState::create(device, spec, array, &creation)?);
        }
        let max_grad_norm = HostArray::from_f32(&[], &[settings.max_grad_norm as f32])?;
        let accumulation =
            settings.accumulates.then(|| Accumulation::create(device)).transpose()?;
        let loss_scale =
            settings.fp16.then(|| LossScale::create(device, start.loss_scale)).transpose()?;
        Ok(TrainState {
            parameters,
            seed: device.variable(&HostArray::from_u32(&[], &[fold_seed(settings.seed)])?)?,
            row_offset: row_offsets(device, settings.rows_per_core)?,
            max_grad_norm: device.variable(&max_grad_norm)?,
            accumulation,
            loss_scale,
        })
    }

    /// The parameters in the model's order.
    pub(crate) fn parameters(&self) -> &[ParameterState] {
        &self.parameters
    }

    /// Records a read of each parameter at the start of the program.
    pub(crate) fn read_parameters(
        &self,
        at: &mut Recording<'_>,
    ) -> RunResult<Vec<ParameterValue<'_>>> {
        self.parameters.iter().map(|parameter| parameter.read(at)).collect()
    }

    /// Records a read of each trained parameter's gradient sum.
    pub(crate) fn read_gradient_sums(
        &self,
        at: &mut Recording<'_>,
    ) -> RunResult<Vec<Gradient<'_>>> {
        let sums = self.parameters.iter().filter_map(|parameter| parameter.read_gradient_sum(at));
        sums.collect()
    }

    /// Records that all sums over the batches of a step are reset to zero.
    pub(crate) fn reset_sums(&self, at: &mut Recording<'_>) -> RunResult<()> {
        let gradients = self.parameters.iter().filter_map(ParameterState::gradient_sum);
        let sums = self.accumulation.iter().flat_map(|sums| [sums.loss_sum, sums.weight_sum]);
        for sum in gradients.chain(sums) {
            let shape = at.read(sum)?.shape().clone();
            let zeros = at.trace().full(0.0, shape)?;
            at.assign(sum, &zeros)?;
        }
        Ok(())
    }

    /// Copies the optimizer's whole slots to the host.
    pub(crate) fn slots(&self, device: &LazyDevice) -> RunResult<SlotArrays> {
        let mut arrays = SlotArrays::new();
        for parameter in &self.parameters {
            parameter.read_slots(device, &mut arrays)?;
        }
        Ok(arrays)
    }

    /// The bytes of all parameters, and of all whole slots.
    pub(crate) fn host_bytes(&self) -> (u64, u64) {
        let parameters = self.parameters.iter().map(ParameterState::size_bytes).sum::<usize>();
        let slots = self.parameters.iter().map(ParameterState::slot_bytes).sum::<usize>();
        (parameters as u64, slots as u64)
    }
}

/// Uploads to each core the part of an array that it holds.
fn upload(device: &mut LazyDevice, layout: &Layout, array: &HostArray) -> RunResult<Variable> {
    if !layout.is_shard() {
        return Ok(device.variable(array)?);
    }
    let parts = layout.split(array)?;
    let held: Vec<&HostArray> = device.cores().coordinates().map(|at| &parts[at.data]).collect();
    Ok(device.variable_per_core(&held)?)
}

fn row_offsets(device: &mut LazyDevice, rows_per_core: usize) -> RunResult<Variable> {
    let offsets: Vec<HostArray> = device
        .cores()
        .coordinates()
        .map(|at| HostArray::from_u32(&[], &[(at.data * rows_per_core) as u32]))
        .collect::<Result<_, _>>()?;
    Ok(device.variable_per_core(&offsets.iter().collect::<Vec<_>>())?)
}

/// Folds a seed into the 32 bits that device programs use.
fn fold_seed(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}
