//! The state that the update of a parameter needs.

use traind_models::optimizers::{Optimizers, Shardable};
use traind_models::{ParameterSpec, Sharding};
use traind_xla::mesh::Axis;
use traind_xla::runtime::{LazyDevice, Recorder, Variable};

use crate::error::Result;
use crate::state::layout::Shards;
use crate::state::slots::{self, HeldSlot};
use crate::state::{Distribution, Fsdp, StoredSlots, set_zeros};

#[derive(Clone, Debug)]
pub(super) struct Training {
    /// The number of the layer that alone reads the parameter.
    pub(super) layer: Option<usize>,
    /// The distribution of the reduced gradient, and of what the optimizer updates.
    pub(super) distribution: Distribution,
    pub(super) slots: Vec<HeldSlot>,
    /// The sum of gradients, f32, where a step takes several programs.
    pub(super) gradient_sum: Option<Variable>,
    /// Whether the gradient is a sum over the cores of the `tensor` axis too.
    pub(super) adds_tensor_cores: bool,
    /// Whether the sum is of reduced gradients, and not of those of the core's own rows.
    pub(super) sums_reduced: bool,
    pub(super) spec: ParameterSpec,
    /// The number of the parameter's optimizer.
    pub(super) group: usize,
    pub(super) weight_decay: bool,
    /// Whether a checkpoint has the trained value beside another one that is evaluated.
    pub(super) saves_trained: bool,
}

/// How the state of each parameter is declared.
pub(in crate::state) struct Declaration<'a> {
    pub optimizers: &'a Optimizers,
    pub fsdp: Fsdp,
    /// The cores that share what `fsdp` shards.
    pub shards: Shards,
    pub accumulates: bool,
    /// Whether cores that share layers divide the positions between them.
    pub divides_positions: bool,
}

impl Training {
    pub(super) fn declare(
        recorder: &mut Recorder,
        spec: &ParameterSpec,
        sharding: Sharding,
        is_owned: bool,
        declaration: &Declaration<'_>,
    ) -> Training {
        let optimizer = declaration.optimizers.of(spec);
        // An optimizer that reads whole rows or columns cannot update a shard.
        let shards = match optimizer.shardable(spec) {
            Shardable::No => Shards::ONE,
            Shardable::ByElement | Shardable::Gathered => declaration.shards,
        };
        let distribution = Distribution::sharded(sharding, shards, recorder.mesh().data_place());
        let named = |part: &str| format!("{}.{part}", spec.name);
        let is_shard = distribution.layout().is_shard();
        let sums_reduced = is_shard && declaration.fsdp.shards_gradients();
        let sum = match sums_reduced {
            true => distribution.held_shape(),
            false => distribution.divided_shape(),
        };
        Training {
            layer: spec.layer(),
            slots: match is_owned {
                true => slots::declare(recorder, optimizer, spec, &distribution),
                false => Vec::new(),
            },
            gradient_sum: declaration
                .accumulates
                .then(|| recorder.declare(named("gradient_sum"), sum)),
            adds_tensor_cores: recorder.mesh().size(Axis::Tensor) > 1
                && spec.adds_gradients(declaration.divides_positions),
            sums_reduced,
            spec: spec.clone(),
            group: declaration.optimizers.group(spec),
            weight_decay: declaration.optimizers.decays(spec),
            saves_trained: is_owned && optimizer.evaluated_offset().is_some(),
            distribution,
        }
    }

    pub(super) fn start(&self, device: &mut LazyDevice, slots: Option<&StoredSlots>) -> Result<()> {
        self.gradient_sum.map_or(Ok(()), |sum| set_zeros(device, sum))?;
        self.slots.iter().try_for_each(|slot| slot.start(device, slots))
    }
}
