//! The update of parameters by their reduced gradients in a recorded program.

use std::collections::BTreeMap;

use traind_models::optimizers::{Optimizers, Parts, Scalars, Shardable, Update, Updated};
use traind_xla::Tensor;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ShardHolders;
use traind_xla::runtime::{Recording, Variable};

use super::Gradient;
use super::part_cores::PartCores;
use crate::error::Result;

/// The arguments that the updates of all parameters share.
#[derive(Clone, Copy)]
pub(crate) struct ParameterUpdate<'a> {
    pub optimizers: &'a Optimizers,
    /// The scalars of each group of parameters.
    pub scalars: &'a [Scalars],
    /// The factor that gradients are multiplied with first.
    pub factor: &'a Tensor,
    /// A condition without which nothing changes.
    pub only_if: Option<&'a Tensor>,
    pub mesh: &'a Mesh,
    /// Present where this core updates shards of parameters of which it has the whole.
    pub shard: Option<&'a ShardNumbers>,
    /// u32: this core's place on the `tensor` axis, where that has several cores.
    pub tensor_index: Option<Variable>,
}

/// The shard that a core updates, by u32 scalars.
#[derive(Clone, Debug)]
pub(crate) struct ShardNumbers {
    /// The number among the shards of all cores that have different ones.
    pub shard: Tensor,
    /// The place of these cores on the `tensor` axis.
    pub group: Tensor,
}

/// A parameter and its slots before the update.
struct Before {
    parameter: Tensor,
    slots: Vec<Tensor>,
}

impl ParameterUpdate<'_> {
    /// Records the updates by all of `gradients`.
    pub(crate) fn apply(&self, at: &mut Recording<'_>, gradients: &[Gradient<'_>]) -> Result<()> {
        let (of_copies, others): (Vec<_>, Vec<_>) =
            gradients.iter().partition(|gradient| self.changes_copies(gradient));
        let mut by_layer: BTreeMap<_, Vec<&Gradient<'_>>> = BTreeMap::new();
        for gradient in of_copies {
            let together = (gradient.training.group, gradient.layer());
            by_layer.entry(together).or_default().push(gradient);
        }
        for (number, of_layer) in by_layer.values().enumerate() {
            if !self.apply_to_copies(at, of_layer, number)? {
                of_layer.iter().try_for_each(|gradient| self.apply_to_one(at, gradient))?;
            }
        }
        others.iter().try_for_each(|gradient| self.apply_to_one(at, gradient))
    }

    /// Whether cores of this host alone update a parameter in shards of which each has the whole, whatever the step.
    fn changes_copies(&self, gradient: &Gradient<'_>) -> bool {
        gradient.updates_shard_of_whole() && !gradient.is_over_hosts() && self.only_if.is_none()
    }

    /// Records the updates of such parameters of a layer in one operation, if the optimizer has one.
    fn apply_to_copies(
        &self,
        at: &mut Recording<'_>,
        gradients: &[&Gradient<'_>],
        meeting: usize,
    ) -> Result<bool> {
        let Some(numbers) = self.shard else { return Ok(false) };
        let before = gradients.iter().map(|gradient| Before::of(at, gradient));
        let before = before.collect::<Result<Vec<_>>>()?;
        let updates = before
            .iter()
            .zip(gradients)
            .map(|(before, gradient)| self.update(gradient, before, &before.parameter, None));
        let groups = self.mesh.groups(&[Axis::Data]);
        let ShardNumbers { shard, group } = numbers;
        let holders = ShardHolders { groups: &groups, core: shard, group, meeting };
        let updates: Vec<Update<'_>> = updates.collect();
        let Some(first) = gradients.first() else { return Ok(true) };
        let optimizer = self.optimizers.in_group(first.training.group);
        let Some(updated) = optimizer.update_copies(&updates, &holders)? else {
            return Ok(false);
        };
        for ((gradient, before), updated) in gradients.iter().zip(&before).zip(&updated) {
            self.assign_slots(at, gradient, before, updated)?;
            at.assign(gradient.parameter.value, &updated.parameter)?;
        }
        Ok(true)
    }

    fn apply_to_one(&self, at: &mut Recording<'_>, gradient: &Gradient<'_>) -> Result<()> {
        let before = Before::of(at, gradient)?;
        let whole = &before.parameter;
        let groups = gradient.training.distribution.layout().shards().groups(self.mesh);
        let number = self.shard.filter(|_| gradient.updates_shard_of_whole());
        let held = match number {
            Some(numbers) => whole.shard(&numbers.shard, &groups)?,
            None => whole.clone(),
        };
        let cores = self.part_cores(at, gradient)?;
        let parts = cores.as_ref().map(|cores| -> &dyn Parts { cores });
        let optimizer = self.optimizers.in_group(gradient.training.group);
        let updated = optimizer.update(&self.update(gradient, &before, &held, parts))?;
        self.assign_slots(at, gradient, &before, &updated)?;
        let next = self.chosen(&updated.parameter, &held)?;
        let next = match number {
            Some(_) => next.gather_shards(whole.shape(), &groups)?,
            None => next,
        };
        Ok(at.assign(gradient.parameter.value, &next)?)
    }

    /// `None` where each core has the whole parameter, or its optimizer does not read it.
    fn part_cores<'c>(
        &'c self,
        at: &mut Recording<'_>,
        gradient: &'c Gradient<'_>,
    ) -> Result<Option<PartCores<'c>>> {
        let (distribution, spec) = (&gradient.training.distribution, &gradient.training.spec);
        let shardable = self.optimizers.in_group(gradient.training.group).shardable(spec);
        if shardable != Shardable::Gathered || distribution.axes().is_empty() {
            return Ok(None);
        }
        let is_divided = distribution.sharding().is_divided();
        let index = self.tensor_index.filter(|_| is_divided);
        Ok(Some(PartCores {
            distribution,
            shards: distribution.layout().shards().groups(self.mesh),
            mesh: self.mesh,
            shard: self.shard.map(|numbers| numbers.shard.clone()),
            tensor_index: index.map(|index| at.read(index)).transpose()?,
        }))
    }

    fn update<'u>(
        &'u self,
        gradient: &'u Gradient<'_>,
        before: &'u Before,
        held: &'u Tensor,
        parts: Option<&'u dyn Parts>,
    ) -> Update<'u> {
        let training = gradient.training;
        Update {
            spec: &training.spec,
            parameter: held,
            gradient: &gradient.value,
            factor: Some(self.factor),
            slots: &before.slots,
            scalars: &self.scalars[training.group],
            weight_decay: training.weight_decay,
            parts,
        }
    }

    fn assign_slots(
        &self,
        at: &mut Recording<'_>,
        gradient: &Gradient<'_>,
        before: &Before,
        updated: &Updated,
    ) -> Result<()> {
        let slots = gradient.training.slots.iter().zip(&before.slots).zip(&updated.slots);
        for ((slot, old), new) in slots {
            at.assign(slot.variable, &self.chosen(new, old)?)?;
        }
        Ok(())
    }

    fn chosen(&self, new: &Tensor, old: &Tensor) -> Result<Tensor> {
        match self.only_if {
            Some(condition) => Ok(condition.select(new, old)?),
            None => Ok(new.clone()),
        }
    }
}

impl Before {
    fn of(at: &mut Recording<'_>, gradient: &Gradient<'_>) -> Result<Before> {
        let slots = gradient.training.slots.iter().map(|slot| at.read(slot.variable));
        let slots = slots.collect::<Result<_, _>>()?;
        Ok(Before { parameter: at.read(gradient.parameter.value)?, slots })
    }
}
