//! The update of parameters of which each core of this process has a copy. The last core that calls updates: a thread
//! for each core, which reads and writes a shard of all copies.

use std::thread;

use traind_kernels::adamw::{Scalars, update_copies, update_copies_by_rows};
use traind_kernels::table::FewRows;
use traind_pjrt::{
    DeferredCall, DeferredKernel, KernelCall, KernelError, UpdatedArrays, flush_to_zero,
};

use super::meeting::{Meetings, Participant};
use super::optimizer::{SCALARS, first, scalars};

/// Parameters, first and second moments, all in place, gradients, factors of decay, the scalars of all, the number of
/// the core in its group, and that of the group. The cores of a group meet in each of its calls, which the attribute
/// `meeting` numbers. The gradients of the last parameters, as many as the attribute `tables` says, are rows of
/// a table, whose numbers and that of the first one follow.
pub(crate) struct ShardedAdamW {
    place: Participant,
    operands: Operands,
}

#[derive(Clone, Copy)]
struct Operands {
    parameters: usize,
    /// The gradients that are tables.
    tables: usize,
}

static MEETINGS: Meetings = Meetings::new();

impl DeferredKernel for ShardedAdamW {
    const NAME: &'static str = "traind.sharded_adamw";

    fn of_call(call: &KernelCall<'_>) -> Result<ShardedAdamW, KernelError> {
        let parameters = call.result_count() / 3;
        let number = |index: usize| first(call.operand::<u32>(5 * parameters + SCALARS + index)?);
        let cores = usize::try_from(call.attribute::<i64>("cores")?);
        let place = Participant {
            meeting: (call.run_id()?, number(1)?, call.attribute("meeting")?),
            core: number(0)? as usize,
            cores: cores.map_err(|_| "has no cores")?,
        };
        let tables = usize::try_from(call.attribute::<i64>("tables")?);
        let tables = tables.ok().filter(|tables| *tables <= parameters);
        let operands = Operands { parameters, tables: tables.ok_or("has too many tables")? };
        Ok(ShardedAdamW { place, operands })
    }

    fn start(self, call: DeferredCall) {
        MEETINGS.join(self.place, call, |calls| update(calls.iter_mut(), self.operands));
    }
}

/// The part of a parameter that a thread updates.
struct Shard<'a> {
    copies: Vec<&'a mut [f32]>,
    exp_avg: &'a mut [f32],
    exp_avg_sq: &'a mut [f32],
    gradient: Gradient<'a>,
    scalars: Scalars,
}

enum Gradient<'a> {
    Whole(&'a [f32]),
    Rows { rows: &'a [f32], table: Table },
}

/// The numbers of rows in a table, and that of its first one.
struct Table {
    numbers: Vec<i32>,
    first: i32,
}

/// Updates by the calls of all cores, in the order of their numbers.
fn update<'a>(
    calls: impl Iterator<Item = &'a mut DeferredCall>,
    operands: Operands,
) -> Result<(), KernelError> {
    let parameters = operands.parameters;
    let (mut copies, mut shards) = (Vec::new(), Vec::new());
    for call in calls {
        let tables = operands.tables_of(call)?;
        let arrays = call.updated_arrays::<f32>(3 * parameters..5 * parameters + SCALARS)?;
        let UpdatedArrays { mut updated, read } = arrays;
        let moments = updated.split_off(parameters);
        copies.push(updated);
        shards.push(without_copies(moments, &read, tables)?);
    }
    for (core, copies) in copies.into_iter().enumerate() {
        for (parameter, copy) in copies.into_iter().enumerate() {
            divide(copy, core, parameter, &mut shards)?;
        }
    }
    update_shards(shards);
    Ok(())
}

impl Operands {
    /// The tables, and none for each parameter before theirs.
    fn tables_of(self, call: &DeferredCall) -> Result<Vec<Option<Table>>, KernelError> {
        let Operands { parameters, tables } = self;
        let start = 5 * parameters + SCALARS + 2;
        let table = |index: usize| {
            let numbers = call.operand(start + 2 * index)?.to_vec();
            Ok(Some(Table { numbers, first: first(call.operand(start + 2 * index + 1)?)? }))
        };
        let before = (tables..parameters).map(|_| Ok(None));
        before.chain((0..tables).map(table)).collect()
    }
}

/// The moments and the gradient of each parameter.
fn without_copies<'a>(
    mut exp_avg: Vec<&'a mut [f32]>,
    read: &[&'a [f32]],
    tables: Vec<Option<Table>>,
) -> Result<Vec<Shard<'a>>, KernelError> {
    let parameters = tables.len();
    let exp_avg_sq = exp_avg.split_off(parameters);
    let (gradients, others) = read.split_at(parameters);
    let (decay_factors, of_all) = others.split_at(parameters);
    let of_all = scalars(|index| Ok(of_all[index]))?;
    let moments = exp_avg.into_iter().zip(exp_avg_sq).zip(gradients.iter().zip(tables));
    let shard = |(((exp_avg, exp_avg_sq), (&gradient, table)), &decay_factor)| {
        let gradient = match table {
            Some(table) => Gradient::Rows { rows: gradient, table },
            None => Gradient::Whole(gradient),
        };
        let scalars = Scalars { decay_factor: first(decay_factor)?, ..of_all };
        Ok(Shard { copies: Vec::new(), exp_avg, exp_avg_sq, gradient, scalars })
    };
    moments.zip(decay_factors).map(shard).collect()
}

/// Gives each core its shard of the copy that `core` has of a parameter.
fn divide<'a>(
    copy: &'a mut [f32],
    core: usize,
    parameter: usize,
    shards: &mut [Vec<Shard<'a>>],
) -> Result<(), KernelError> {
    let length = shards[core][parameter].exp_avg.len().max(1);
    for (holder, part) in copy.chunks_mut(length).enumerate() {
        let shard = shards.get_mut(holder).ok_or("shards are shorter than the parameter")?;
        let copies = &mut shard[parameter].copies;
        copies.push(part);
        if holder == core {
            // A core reads its own.
            let last = copies.len() - 1;
            copies.swap(0, last);
        }
    }
    Ok(())
}

/// Each core's shards on a thread, the first core's on this one.
fn update_shards(shards: Vec<Vec<Shard<'_>>>) {
    let mut shards = shards.into_iter();
    let first = shards.next();
    thread::scope(|scope| {
        for shards in shards {
            scope.spawn(|| {
                flush_to_zero();
                shards.into_iter().for_each(Shard::update);
            });
        }
        first.into_iter().flatten().for_each(Shard::update);
    });
}

impl Shard<'_> {
    fn update(mut self) {
        // Zeros follow the last elements of a parameter.
        let length = self.copies.first().map_or(0, |copy| copy.len());
        let (exp_avg, exp_avg_sq) = (&mut self.exp_avg[..length], &mut self.exp_avg_sq[..length]);
        let (copies, scalars) = (&mut self.copies, self.scalars);
        match self.gradient {
            Gradient::Whole(gradient) => {
                update_copies(copies, exp_avg, exp_avg_sq, &gradient[..length], scalars);
            }
            Gradient::Rows { rows, table: Table { numbers, first } } => {
                let width = rows.len() / numbers.len().max(1);
                let gradient = FewRows::of(length / width.max(1), width, rows, &numbers, first);
                update_copies_by_rows(copies, exp_avg, exp_avg_sq, &gradient, scalars);
            }
        }
    }
}
