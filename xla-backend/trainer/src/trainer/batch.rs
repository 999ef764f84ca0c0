//! Batches in memory, divided among the cores.

use std::time::Duration;

use traind_loader::{
    ArrayValues, BatchArray, BatchAxis, BatchPlan, BatchSizes, CoreBatch, HostBatch,
    ScheduledBatch, answer_factors, answer_weights, batch_sums, batch_terms,
};
use traind_models::tasks::question_answering::{ANSWER_WEIGHTS, POSITIONS};
use traind_models::tasks::replaced_tokens::BATCH_SUMS;
use traind_models::{InputDim, InputSpec, Model, PADDED_LENGTH};

use super::arrays::{self, RowShares};
use crate::error::Result;

/// The weight of each row in the loss.
const WEIGHTS: &str = "sample_weights";

/// Divides a batch among the cores, whose arrays are those of `specs`.
pub(super) fn host_batch(
    model: &Model,
    specs: &[InputSpec],
    shares: RowShares,
    arrays: &[BatchArray],
) -> Result<HostBatch> {
    arrays::check(specs, arrays, shares)?;
    let RowShares { sequences, shards, .. } = shares;
    let of_batch = arrays.first().map_or(0, |array| array.dims[0]);
    let (rows, of_core) = (of_batch / sequences, of_batch / shards);
    let sizes = sizes_of(model, arrays, rows / shards);
    let weights = (!arrays.iter().any(|it| it.name == WEIGHTS)).then(|| BatchArray {
        name: WEIGHTS,
        dims: vec![of_core],
        values: ArrayValues::F32(vec![1.0; of_core]),
    });
    let has_sums = model.inputs().iter().any(|spec| spec.name == BATCH_SUMS)
        && !arrays.iter().any(|array| array.name == BATCH_SUMS);
    let answers = answers_of(arrays);
    let core = |shard| {
        let own = arrays.iter().chain(&answers).map(|array| part(array, shard, shards));
        let mut own: Vec<BatchArray> = own.chain(weights.clone()).collect();
        own.extend(has_sums.then(|| sums_of(&own, of_core)));
        let padded_length = sizes.get(BatchAxis::Positions);
        CoreBatch { sizes, arrays: own, padded_length, spans: Vec::new() }
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

/// The loader's weights of the answers of all rows, where the batch has answers without them.
fn answers_of(arrays: &[BatchArray]) -> Option<BatchArray> {
    let integers = |name| match &arrays.iter().find(|array| array.name == name)?.values {
        ArrayValues::S32(values) => Some(values.as_slice()),
        _ => None,
    };
    let [starts, ends] = POSITIONS.map(integers);
    let (starts, ends, lengths) = (starts?, ends?, integers(PADDED_LENGTH)?);
    if arrays.iter().any(|array| array.name == ANSWER_WEIGHTS) {
        return None;
    }
    let weights = arrays.iter().find(|array| array.name == WEIGHTS).map(|array| &array.values);
    let weight = |row: usize| match weights {
        Some(ArrayValues::F32(weights)) => weights[row],
        _ => 1.0,
    };
    let within = |row: usize| [starts[row], ends[row]].map(|position| position < lengths[row]);
    let rows = 0..starts.len();
    let factors = answer_factors(rows.clone().map(|row| (weight(row), within(row))));
    let values: Vec<f32> =
        rows.clone().flat_map(|row| answer_weights(factors, within(row))).collect();
    let dims = vec![rows.len(), 2];
    Some(BatchArray { name: ANSWER_WEIGHTS, dims, values: ArrayValues::F32(values) })
}

/// The loader's sums over a core's `rows` rows, beside each of them.
fn sums_of(arrays: &[BatchArray], rows: usize) -> BatchArray {
    let values = |name| arrays.iter().find(|array| array.name == name).map(|array| &array.values);
    let weight = |row: usize| match values(WEIGHTS) {
        Some(ArrayValues::F32(weights)) => weights[row],
        _ => 1.0,
    };
    let of_row = |name, row: usize| match values(name) {
        Some(ArrayValues::S32(values)) => {
            let length = values.len() / rows;
            &values[row * length..(row + 1) * length]
        }
        _ => &[],
    };
    let terms =
        |row| batch_terms(weight(row), of_row("labels", row), of_row("attention_mask", row));
    BatchArray {
        name: BATCH_SUMS,
        dims: vec![rows, 3],
        values: ArrayValues::F32(batch_sums((0..rows).map(terms)).repeat(rows)),
    }
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
