//! The update of AdamW where each core has all parameters and updates a shard of each: the copies of all cores change
//! together.

use std::sync::Arc;

use super::adamw::{AdamWScalars, AdamWUpdate, SCALARS};
use super::collectives::group_size;
use super::composite::Composite;
use super::table_of_rows::RowsOfTable;
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
///
/// Gradients that are [tables](Tensor::table_of_rows) are those of the last parameters. Their operands are the rows,
/// and the numbers of the rows and of the first row follow behind all others: the tables are not made.
#[derive(Clone, Debug)]
struct ShardedAdamW {
    groups: Arc<[Vec<usize>]>,
    meeting: usize,
    /// The number of gradients that are tables.
    tables: usize,
}

/// The operands of each parameter.
const OF_PARAMETER: usize = 5;
/// The number of operands of all parameters: the scalars of the update and two numbers.
const OF_ALL: usize = SCALARS + 2;
/// The operands of a table besides its rows.
const OF_TABLE: usize = 2;

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
        let tables: Vec<Option<RowsOfTable>> =
            updates.iter().map(|it| it.gradient.rows_of_table()).collect();
        let mut order: Vec<usize> = (0..updates.len()).collect();
        order.sort_by_key(|&place| tables[place].is_some());
        let ordered = || order.iter().map(|&place| &updates[place]);
        let tables_in_order = || order.iter().filter_map(|&place| tables[place].as_ref());
        let mut inputs: Vec<&Tensor> = order.iter().map(|&place| parameters[place]).collect();
        inputs.extend(ordered().map(|it| it.exp_avg));
        inputs.extend(ordered().map(|it| it.exp_avg_sq));
        let gradient = |place: usize| match &tables[place] {
            Some(table) => &table.rows,
            None => updates[place].gradient,
        };
        inputs.extend(order.iter().map(|&place| gradient(place)));
        let decay_factor = |decays| if decays { scalars.decay_factor } else { &one };
        inputs.extend(ordered().map(|it| decay_factor(it.decays)));
        inputs.extend(scalars.tensors());
        inputs.extend([holders.core, holders.group]);
        inputs.extend(tables_in_order().flat_map(|table| [&table.numbers, &table.first]));
        let (groups, meeting) = (holders.groups.into(), holders.meeting);
        let update = ShardedAdamW { groups, meeting, tables: tables_in_order().count() };
        let first = self.apply(update, &inputs)?;
        let result = |index: usize| match index {
            0 => Ok(first.clone()),
            index => first.part(index, inputs[index].shape().clone()),
        };
        let count = parameters.len();
        let of_parameter = |place: usize| {
            let index = order.iter().position(|&ordered| ordered == place).unwrap_or(place);
            Ok([result(index)?, result(count + index)?, result(2 * count + index)?])
        };
        (0..count).map(of_parameter).collect()
    }
}

impl ShardedAdamW {
    /// The number of parameters.
    fn count(&self, inputs: usize) -> usize {
        inputs.saturating_sub(OF_ALL + OF_TABLE * self.tables) / OF_PARAMETER
    }

    /// The place of the operands of the table that is the gradient of a parameter.
    fn table(&self, parameter: usize, count: usize) -> Option<usize> {
        let table = parameter.checked_sub(count.checked_sub(self.tables)?)?;
        Some(OF_PARAMETER * count + OF_ALL + OF_TABLE * table)
    }
}

/// Checks a parameter and its update.
fn check(
    of_parameter: [&Shape; OF_PARAMETER],
    table: Option<&[Shape]>,
    cores: usize,
) -> Result<(), Problem> {
    let [parameter, exp_avg, exp_avg_sq, gradient, decay_factor] = of_parameter;
    let length = parameter.element_count().div_ceil(cores);
    let (shard, scalar) = (parameter.with_dims([length]), Shape::scalar(parameter.dtype));
    if !parameter.dtype.is_float() || [exp_avg, exp_avg_sq] != [&shard; 2] {
        return Err(format!("takes moments of shape {shard}").into());
    }
    match table {
        None if *gradient != shard => return Err(format!("takes a gradient of {shard}").into()),
        Some(of_table) => check_table(gradient, of_table, &shard)?,
        None => {}
    }
    if *decay_factor != scalar {
        return Err("takes a factor of decay for each parameter".into());
    }
    Ok(())
}

/// Checks the rows of a table, and their numbers with that of the first row.
fn check_table(rows: &Shape, of_table: &[Shape], shard: &Shape) -> Result<(), Problem> {
    let are_numbers = of_table.iter().all(|numbers| numbers.dtype == DType::S32);
    match (&rows.dims[..], of_table) {
        (&[count, width], [numbers, first])
            if are_numbers
                && rows.dtype == shard.dtype
                && numbers.dims[..] == [count]
                && first.rank() == 0
                && width > 0
                && shard.element_count().is_multiple_of(width) =>
        {
            Ok(())
        }
        _ => Err(format!("takes rows of a table of {shard}, and their numbers").into()),
    }
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
        inputs[..self.count(inputs.len())].iter().map(Shape::size_bytes).sum()
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let (cores, count) = (group_size(&self.groups)?, self.count(inputs.len()));
        let expected = OF_PARAMETER * count + OF_ALL + OF_TABLE * self.tables;
        if count == 0 || self.tables > count || inputs.len() != expected {
            return Err(
                "takes five operands for each parameter, ten for all and two for each table".into(),
            );
        }
        for parameter in 0..count {
            let place = |operand: usize| &inputs[operand * count + parameter];
            let table = self.table(parameter, count).map(|start| &inputs[start..start + OF_TABLE]);
            check(std::array::from_fn(place), table, cores)?;
        }
        let (scalars, numbers) = inputs[OF_PARAMETER * count..].split_at(SCALARS);
        if scalars.iter().any(|scalar| *scalar != Shape::scalar(inputs[0].dtype)) {
            return Err(format!("takes scalars of {}", inputs[0].dtype).into());
        }
        if numbers[..OF_ALL - SCALARS].iter().any(|number| *number != Shape::scalar(DType::U32)) {
            return Err("takes the numbers of core and group as u32 scalars".into());
        }
        Ok(inputs[0].clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.swap_remove(0))
    }

    /// Each shard is updated and gathered.
    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let count = self.count(inputs.len());
        let groups = ShardGroups { cores: self.groups.to_vec(), hosts: 1 };
        let all = &inputs[OF_PARAMETER * count..];
        let mut results: [Vec<Tensor>; 3] = Default::default();
        for (index, parameter) in inputs[..count].iter().enumerate() {
            let operand = |number: usize| &inputs[number * count + index];
            let shard = parameter.shard(&all[SCALARS], &groups)?;
            let gradient = match self.table(index, count) {
                None => operand(3).clone(),
                Some(table) => {
                    let (rows, length) = (operand(3), shard.dims()[0]);
                    let (numbers, first) = (&inputs[table], &inputs[table + 1]);
                    let table = rows.table_of_rows(numbers, first, length / rows.dims()[1])?;
                    table.reshape(&[length])?
                }
            };
            let [shard, exp_avg, exp_avg_sq] = shard.adamw(&AdamWUpdate {
                exp_avg: operand(1),
                exp_avg_sq: operand(2),
                gradient: &gradient,
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
        let attributes = format!(
            "cores = {}, meeting = {meeting}, tables = {}",
            integer(cores),
            integer(self.tables)
        );
        let updated = (0..3 * self.count(inputs.len())).map(|index| [index, index]).collect();
        let kernel = || KernelUse::of_deferred::<ShardedAdamWKernel>(attributes).in_place(updated);
        (inputs[0].dtype == DType::F32).then(kernel)
    }
}
