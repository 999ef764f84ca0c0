//! The update of AdamW where each core has all parameters and updates a shard of each: the copies of all cores change
//! together.

use std::sync::Arc;

use super::adamw::{AdamWScalars, AdamWUpdate, SCALARS};
use super::collectives::group_size;
use super::composite::Composite;
use super::{Participants, Problem, ResultStorage, ShardGroups};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::integer;
use crate::kernels::{KernelUse, ShardedAdamW as ShardedAdamWKernel};
use crate::tensor::{Tensor, Trace};

/// The cores that have copies of the same parameters.
#[derive(Clone, Copy, Debug)]
pub struct ShardHolders<'a> {
    /// The groups of one host's cores.
    pub groups: &'a [Vec<usize>],
    /// The number of this core in its group, a u32 scalar.
    pub core: &'a Tensor,
    /// The number of the group, a u32 scalar.
    pub group: &'a Tensor,
    /// Another one for each operation of a program.
    pub meeting: usize,
}

/// Parameters, first moments, second moments, gradients and factors of decay, so many of each, the scalars of all, and
/// the numbers of [`ShardHolders`] to parameters and moments anew. Moments and gradients are shards.
#[derive(Clone, Debug)]
struct ShardedAdamW {
    groups: Arc<[Vec<usize>]>,
    meeting: usize,
}

/// The operands of each parameter.
const OF_PARAMETER: usize = 5;
/// The number of operands of all parameters: the scalars of the update and two numbers.
const OF_ALL: usize = SCALARS + 2;

impl Trace {
    /// The parameters after their updates, each with both moments. `updates` have the same scalars, and moments and
    /// gradients that are [shards](Tensor::shard).
    pub fn sharded_adamw(
        &self,
        parameters: &[&Tensor],
        updates: &[AdamWUpdate<'_>],
        holders: &ShardHolders<'_>,
    ) -> Result<Vec<[Tensor; 3]>> {
        let Some(AdamWUpdate { scalars, .. }) = updates.first() else { return Ok(Vec::new()) };
        let one = self.scalar(1.0, scalars.factor.dtype())?;
        let mut inputs = parameters.to_vec();
        inputs.extend(updates.iter().map(|it| it.exp_avg));
        inputs.extend(updates.iter().map(|it| it.exp_avg_sq));
        inputs.extend(updates.iter().map(|it| it.gradient));
        let decay_factor = |decays| if decays { scalars.decay_factor } else { &one };
        inputs.extend(updates.iter().map(|it| decay_factor(it.decays)));
        inputs.extend(scalars.tensors());
        inputs.extend([holders.core, holders.group]);
        let update = ShardedAdamW { groups: holders.groups.into(), meeting: holders.meeting };
        let first = self.apply(update, &inputs)?;
        let result = |index: usize| match index {
            0 => Ok(first.clone()),
            index => first.part(index, inputs[index].shape().clone()),
        };
        let count = parameters.len();
        let of_parameter =
            |index| Ok([result(index)?, result(count + index)?, result(2 * count + index)?]);
        (0..count).map(of_parameter).collect()
    }
}

/// The number of parameters.
fn count(inputs: usize) -> usize {
    inputs.saturating_sub(OF_ALL) / OF_PARAMETER
}

/// Checks a parameter and its update.
fn check(of_parameter: [&Shape; OF_PARAMETER], cores: usize) -> Result<(), Problem> {
    let [parameter, exp_avg, exp_avg_sq, gradient, decay_factor] = of_parameter;
    let length = parameter.element_count().div_ceil(cores);
    let (shard, scalar) = (parameter.with_dims([length]), Shape::scalar(parameter.dtype));
    if !parameter.dtype.is_float() || [exp_avg, exp_avg_sq, gradient] != [&shard; 3] {
        return Err(format!("takes moments and a gradient of shape {shard}").into());
    }
    if *decay_factor != scalar {
        return Err("takes a factor of decay for each parameter".into());
    }
    Ok(())
}

impl Composite for ShardedAdamW {
    fn name(&self) -> &'static str {
        "sharded_adamw"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Groups(self.groups.clone()))
    }

    fn exchanged_bytes(&self, inputs: &[Shape]) -> usize {
        inputs[..count(inputs.len())].iter().map(Shape::size_bytes).sum()
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let (cores, count) = (group_size(&self.groups)?, count(inputs.len()));
        if count == 0 || inputs.len() != OF_PARAMETER * count + OF_ALL {
            return Err("takes five operands for each parameter and ten for all".into());
        }
        for parameter in 0..count {
            let place = |operand: usize| &inputs[operand * count + parameter];
            check(std::array::from_fn(place), cores)?;
        }
        let (scalars, numbers) = inputs[OF_PARAMETER * count..].split_at(SCALARS);
        if scalars.iter().any(|scalar| *scalar != Shape::scalar(inputs[0].dtype)) {
            return Err(format!("takes scalars of {}", inputs[0].dtype).into());
        }
        if numbers.iter().any(|number| *number != Shape::scalar(DType::U32)) {
            return Err("takes the numbers of core and group as u32 scalars".into());
        }
        Ok(inputs[0].clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.swap_remove(0))
    }

    /// Each shard is updated and gathered.
    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let count = count(inputs.len());
        let groups = ShardGroups { cores: self.groups.to_vec(), hosts: 1 };
        let all = &inputs[OF_PARAMETER * count..];
        let mut results: [Vec<Tensor>; 3] = Default::default();
        for (index, parameter) in inputs[..count].iter().enumerate() {
            let operand = |number: usize| &inputs[number * count + index];
            let shard = parameter.shard(&all[SCALARS], &groups)?;
            let [shard, exp_avg, exp_avg_sq] = shard.adamw(&AdamWUpdate {
                exp_avg: operand(1),
                exp_avg_sq: operand(2),
                gradient: operand(3),
                scalars: AdamWScalars { decay_factor: operand(4), ..AdamWScalars::of_tensors(all) },
                decays: true,
            })?;
            let whole = shard.gather_shards(parameter.shape(), &groups)?;
            for (results, result) in results.iter_mut().zip([whole, exp_avg, exp_avg_sq]) {
                results.push(result);
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let cores = self.groups.first().map_or(1, Vec::len);
        let meeting = integer(self.meeting);
        let attributes = format!("cores = {}, meeting = {meeting}", integer(cores));
        let updated = (0..3 * count(inputs.len())).map(|index| [index, index]).collect();
        let kernel = || KernelUse::of_deferred::<ShardedAdamWKernel>(attributes).in_place(updated);
        (inputs[0].dtype == DType::F32).then(kernel)
    }
}
