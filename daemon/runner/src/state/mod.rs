//! What lives on the cores from step to step: parameters, optimizer slots and
//! the few constants that a step reads.
//!
//! With `shard_optimizer_state` a large parameter's slots, and the copy that
//! the optimizer updates, are split over the cores of the `data` axis (ZeRO-1):
//! gradients are reduce-scattered, each core updates its shard, and the shards
//! are gathered into the whole parameter again.
//!
//! Imports `error` alone.

mod accumulation;
mod layout;
mod slots;

use std::sync::Arc;

use traind_models::Model;
use traind_models::optimizers::{Optimizer, Scalars, Update};
use traind_xla::runtime::{HostArray, LazyDevice, Recording, Variable};
use traind_xla::{DType, Shape, Tensor};

use crate::error::RunResult;
use crate::step::TrainStep;

pub(crate) use accumulation::{Accumulation, LossScale, ScaleValues};
pub(crate) use layout::Layout;
use slots::HeldSlot;
pub(crate) use slots::{SlotArrays, StoredSlots};

/// One parameter and its optimizer state.
#[derive(Clone, Debug)]
pub(crate) struct ParameterState {
    whole: Variable,
    shape: Shape,
    layout: Layout,
    /// The shard that this core updates, where the layout is one.
    shard: Option<Variable>,
    slots: Vec<HeldSlot>,
    weight_decay: bool,
}

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
    /// Where a step takes several programs.
    pub accumulation: Option<Accumulation>,
    /// With `fp16`.
    pub loss_scale: Option<LossScale>,
}

/// Settings of a run's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateSettings {
    pub seed: u64,
    pub rows_per_core: usize,
    pub max_grad_norm: f64,
    pub shard_optimizer_state: bool,
    /// A step takes several programs: see [`TrainStep`].
    pub accumulates: bool,
    /// The loss is scaled.
    pub fp16: bool,
}

/// Where training begins: from new slots, or on from those of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct StartValues {
    /// In the order of the model's parameters.
    pub parameters: Vec<HostArray>,
    /// Absent where training begins.
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
        // An optimizer that looks at whole rows or columns cannot hold a shard.
        let sharded = settings.shard_optimizer_state && optimizer.shardable();
        let shards = if sharded { device.cores().len() } else { 1 };
        let mut parameters = Vec::with_capacity(start.parameters.len());
        for (spec, array) in model.parameters().iter().zip(&start.parameters) {
            let layout = Layout::of(&spec.shape, shards);
            let optimizer = optimizer.as_ref();
            parameters.push(ParameterState {
                whole: device.variable(array)?,
                shard: layout.is_shard().then(|| upload(device, &layout, array)).transpose()?,
                slots: slots::create(device, optimizer, spec, &layout, start.slots.as_ref())?,
                shape: spec.shape.clone(),
                layout,
                weight_decay: spec.weight_decay,
            });
        }
        let max_grad_norm = HostArray::from_f32(&[], &[settings.max_grad_norm as f32])?;
        let accumulation =
            settings.accumulates.then(|| Accumulation::create(device, model)).transpose()?;
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

    pub(crate) fn parameters(&self) -> impl Iterator<Item = Variable> {
        self.parameters.iter().map(|parameter| parameter.whole)
    }

    pub(crate) fn parameter(&self, index: usize) -> &ParameterState {
        &self.parameters[index]
    }

    pub(crate) fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.parameters.iter().map(|parameter| &parameter.layout)
    }

    /// The optimizer's state as it is now, on the host, whole and by name.
    pub(crate) fn slots(&self, device: &LazyDevice) -> RunResult<SlotArrays> {
        let mut arrays = SlotArrays::new();
        for parameter in &self.parameters {
            for slot in &parameter.slots {
                arrays.insert(slot.name.clone(), slot.read(device, &parameter.layout)?);
            }
        }
        Ok(arrays)
    }

    /// Bytes of a copy of the parameters, and of one of the slots.
    pub(crate) fn host_bytes(&self) -> (u64, u64) {
        let parameters = self.parameters.iter().map(|parameter| parameter.shape.size_bytes());
        let slots = self.parameters.iter().flat_map(|parameter| &parameter.slots);
        let slots = slots.map(|slot| slot.shape.size_bytes());
        (parameters.sum::<usize>() as u64, slots.sum::<usize>() as u64)
    }
}

impl ParameterState {
    /// Records the update by `gradient`, which has this state's layout; with
    /// `only_if`, where that holds.
    pub(crate) fn update(
        &self,
        at: &mut Recording<'_>,
        gradient: &Tensor,
        step: &TrainStep,
        scalars: &Scalars,
        only_if: Option<&Tensor>,
    ) -> RunResult<()> {
        let chosen = |new: &Tensor, old: &Tensor| match only_if {
            Some(condition) => condition.select(new, old),
            None => Ok(new.clone()),
        };
        let whole = at.read(self.whole)?;
        let slots: Vec<Tensor> =
            self.slots.iter().map(|slot| at.read(slot.variable)).collect::<Result<_, _>>()?;
        let held = self.shard.map(|shard| at.read(shard)).transpose()?;
        let updated = step.optimizer.update(&Update {
            parameter: held.as_ref().unwrap_or(&whole),
            gradient,
            slots: &slots,
            scalars,
            weight_decay: self.weight_decay,
        })?;
        for ((slot, old), new) in self.slots.iter().zip(&slots).zip(&updated.slots) {
            at.assign(slot.variable, &chosen(new, old)?)?;
        }
        let parameter = chosen(&updated.parameter, held.as_ref().unwrap_or(&whole))?;
        if let Some(shard) = self.shard {
            at.assign(shard, &parameter)?;
        }
        let gathered = self.layout.gather(&parameter, &self.shape, &step.data_groups)?;
        Ok(at.assign(self.whole, &gathered)?)
    }
}

/// Gives each core what it holds of an array.
fn upload(device: &mut LazyDevice, layout: &Layout, array: &HostArray) -> RunResult<Variable> {
    if !layout.is_shard() {
        return Ok(device.variable(array)?);
    }
    let parts = layout.split(array)?;
    Ok(device.variable_per_core(&parts.iter().collect::<Vec<_>>())?)
}

fn row_offsets(device: &mut LazyDevice, rows_per_core: usize) -> RunResult<Variable> {
    let offset = |core: usize| HostArray::from_u32(&[], &[(core * rows_per_core) as u32]);
    let offsets: Vec<HostArray> =
        (0..device.cores().len()).map(offset).collect::<Result<_, _>>()?;
    let offsets: Vec<&HostArray> = offsets.iter().collect();
    debug_assert!(offsets.iter().all(|offset| offset.shape().dtype == DType::U32));
    Ok(device.variable_per_core(&offsets)?)
}

/// 64 bits of seed in the 32 that device programs work with.
fn fold_seed(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}
