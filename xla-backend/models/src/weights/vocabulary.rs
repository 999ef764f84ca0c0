//! Embeddings with more rows than a checkpoint has, since tokens were added: as with the
//! `resize_token_embeddings` of transformers, new rows are the mean of the stored ones, without the noise
//! (of a billionth of their covariance) that transformers adds.

use std::borrow::Cow;

use traind_xla::runtime::HostArray;

use super::{as_f32, dtype};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::parameters::{ParameterSpec, Partition};

/// The parameter as a file has it whose array has the dimensions `found`: with the rows of the model
/// that training started from, or with all.
pub(super) fn stored<'spec>(
    config: &ModelConfig,
    spec: &'spec ParameterSpec,
    found: &[usize],
) -> Cow<'spec, ParameterSpec> {
    match (config.stored_vocab_size(), dimension(spec)) {
        (Some(rows), Some(dimension)) if found.get(dimension) == Some(&rows) => {
            let mut spec = spec.clone();
            spec.shape.dims[dimension] = rows;
            Cow::Owned(spec)
        }
        _ => Cow::Borrowed(spec),
    }
}

/// The dimension of token ids.
fn dimension(spec: &ParameterSpec) -> Option<usize> {
    spec.partitions.iter().position(|partition| *partition == Partition::Vocabulary)
}

/// An array of the checkpoint with the shape of its parameter.
pub(super) fn grown(array: HostArray, spec: &ParameterSpec) -> Result<HostArray> {
    let (Some(dimension), true) = (dimension(spec), array.shape().dims != spec.shape.dims) else {
        return Ok(array);
    };
    let values = as_f32(&array)?.to_f32()?;
    let (stored, rows) = (array.shape().dims[dimension], spec.shape.dims[dimension]);
    let values = match (dimension, spec.shape.rank()) {
        (0, 2) => with_means(values, stored, rows),
        // A bias of logits begins with zeros.
        _ => with_zeros(&values, stored, rows),
    };
    dtype::stored(HostArray::from_f32(&spec.shape.dims, &values)?, spec.shape.dtype)
}

fn with_means(mut values: Vec<f32>, stored: usize, rows: usize) -> Vec<f32> {
    let width = values.len() / stored;
    let mut sums = vec![0.0f64; width];
    for row in values.chunks(width) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let means: Vec<f32> = sums.iter().map(|sum| (sum / stored as f64) as f32).collect();
    (stored..rows).for_each(|_| values.extend(&means));
    values
}

fn with_zeros(values: &[f32], stored: usize, rows: usize) -> Vec<f32> {
    let zeros = vec![0.0; rows - stored];
    values.chunks(stored).flat_map(|row| [row, &zeros].concat()).collect()
}

#[cfg(test)]
mod tests {
    use traind_xla::{DType, Shape};

    use super::*;
    use crate::parameters::{Dimension, ParameterPath};

    fn specs(tokens: usize) -> Vec<ParameterSpec> {
        let mut specs = Vec::new();
        let mut root = ParameterPath::root(&mut specs);
        root.bias("bias", Dimension::vocabulary(tokens));
        let bias = specs[0].clone();
        let table = ParameterSpec {
            shape: Shape::new(DType::F32, [tokens, 2]),
            partitions: vec![Partition::Vocabulary, Partition::Replicated],
            ..bias.clone()
        };
        let row = ParameterSpec {
            shape: Shape::new(DType::F32, [1, tokens]),
            partitions: vec![Partition::Replicated, Partition::Vocabulary],
            ..bias.clone()
        };
        vec![bias, table, row]
    }

    fn config(tokens: usize) -> ModelConfig {
        let keys = serde_json::json!({"vocab_size": 2});
        let mut config = ModelConfig::new("config.json", keys.as_object().unwrap().clone());
        config.grow_vocabulary(tokens, Some(4)).unwrap();
        config
    }

    #[test]
    fn new_rows_are_means_and_new_biases_are_zero() {
        let config = config(3);
        assert_eq!((config.size("vocab_size").unwrap(), config.stored_vocab_size()), (4, Some(2)));
        let [bias, table, row] = &specs(4)[..] else { panic!() };
        let grow = |spec: &ParameterSpec, values: &[f32]| {
            let dims: Vec<usize> =
                spec.shape.dims.iter().map(|size| if *size == 4 { 2 } else { *size }).collect();
            assert_eq!(stored(&config, spec, &dims).shape.dims, dims);
            assert_eq!(stored(&config, spec, &spec.shape.dims).as_ref(), spec);
            let array = HostArray::from_f32(&dims, values).unwrap();
            grown(array, spec).unwrap().to_f32().unwrap()
        };
        assert_eq!(grow(bias, &[1.0, 3.0]), [1.0, 3.0, 0.0, 0.0]);
        assert_eq!(grow(row, &[1.0, 3.0]), [1.0, 3.0, 0.0, 0.0]);
        let table = grow(table, &[1.0, 2.0, 3.0, 6.0]);
        assert_eq!(table, [1.0, 2.0, 3.0, 6.0, 2.0, 4.0, 2.0, 4.0]);
    }

    #[test]
    fn a_vocabulary_never_shrinks() {
        let mut config = config(3);
        config.grow_vocabulary(1, None).unwrap();
        assert_eq!(config.size("vocab_size").unwrap(), 4);
    }
}
