//! Batches in memory, divided among the cores.

use std::time::Duration;

use traind_loader::{
    ArrayValues, BatchArray, BatchAxis, BatchPlan, BatchSizes, CoreBatch, HostBatch, ScheduledBatch,
};
use traind_models::{InputDim, Model};

use crate::error::{Error, Result};

/// The weight of each row in the loss.
const WEIGHTS: &str = "sample_weights";

/// Divides a batch, of which each row of the data has `sequences` rows, among the cores.
pub(super) fn host_batch(
    model: &Model,
    sequences: usize,
    shards: usize,
    arrays: &[BatchArray],
) -> Result<HostBatch> {
    arrays.iter().try_for_each(|array| check(array, sequences, shards))?;
    let of_batch = arrays.first().map_or(0, |array| array.dims[0]);
    if let Some(other) = arrays.iter().find(|array| array.dims[0] != of_batch) {
        return Err(problem(other, format!("has {} rows, others {of_batch}", other.dims[0])));
    }
    let (rows, of_core) = (of_batch / sequences, of_batch / shards);
    let sizes = sizes_of(model, arrays, rows / shards);
    let weights = (!arrays.iter().any(|it| it.name == WEIGHTS)).then(|| BatchArray {
        name: WEIGHTS,
        dims: vec![of_core],
        values: ArrayValues::F32(vec![1.0; of_core]),
    });
    let own = |shard| arrays.iter().map(move |array| part(array, shard, shards));
    let core = |shard| CoreBatch {
        sizes,
        arrays: own(shard).chain(weights.clone()).collect(),
        padded_length: sizes.get(BatchAxis::Positions),
        spans: Vec::new(),
    };
    let plan = BatchPlan { sizes, rows: (0..rows as u32).collect(), cores: shards };
    Ok(HostBatch {
        scheduled: ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan },
        cores: (0..shards).map(core).collect(),
        shards: 0..shards,
        tokens: 0,
        decoding: Duration::ZERO,
    })
}

/// The sizes of a batch on each core, by the arrays that have them.
fn sizes_of(model: &Model, arrays: &[BatchArray], rows: usize) -> BatchSizes {
    let mut sizes = BatchSizes::of_rows(rows);
    for spec in model.inputs() {
        let Some(array) = arrays.iter().find(|array| array.name == spec.name) else { continue };
        for (dim, size) in spec.dims.iter().zip(&array.dims) {
            let axis = match dim {
                InputDim::Positions => BatchAxis::Positions,
                InputDim::TargetPositions => BatchAxis::TargetPositions,
                InputDim::Rows | InputDim::Size(_) => continue,
            };
            sizes = sizes.with(axis, *size as u32);
        }
    }
    sizes
}

/// Refuses an array that `shards` cores cannot share.
fn check(array: &BatchArray, sequences: usize, shards: usize) -> Result<()> {
    let found = match &array.values {
        ArrayValues::U8(values) => values.len(),
        ArrayValues::S32(values) => values.len(),
        ArrayValues::F32(values) => values.len(),
    };
    let (rows, count) = (array.dims.first().copied(), array.dims.iter().product::<usize>());
    match rows {
        _ if found != count => Err(problem(array, format!("has {found} values, not {count}"))),
        Some(rows) if rows > 0 && rows.is_multiple_of(shards * sequences) => Ok(()),
        Some(rows) if sequences > 1 => Err(problem(
            array,
            format!(
                "has {rows} rows, {sequences} of each of the data, which {shards} cores cannot share"
            ),
        )),
        Some(rows) => {
            Err(problem(array, format!("has {rows} rows, which {shards} cores cannot share")))
        }
        None => Err(problem(array, "has no rows".to_owned())),
    }
}

fn problem(array: &BatchArray, problem: String) -> Error {
    Error::Batch { array: array.name, problem }
}

/// The rows of one of `shards` cores.
fn part(array: &BatchArray, shard: usize, shards: usize) -> BatchArray {
    let size = array.dims.iter().product::<usize>() / shards;
    let range = shard * size..(shard + 1) * size;
    let values = match &array.values {
        ArrayValues::U8(values) => ArrayValues::U8(values[range].to_vec()),
        ArrayValues::S32(values) => ArrayValues::S32(values[range].to_vec()),
        ArrayValues::F32(values) => ArrayValues::F32(values[range].to_vec()),
    };
    let mut dims = array.dims.clone();
    dims[0] /= shards;
    BatchArray { name: array.name, dims, values }
}
