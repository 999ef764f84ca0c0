//! Rows of a table by number, as an embedding looks them up.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Dims, Shape};
use crate::stablehlo::{Emitter, Value, list};
use crate::tensor::Tensor;

#[derive(Debug)]
struct Take;

impl Tensor {
    /// The entries of axis 0 numbered by `indices` (s32): `self[V, …]` and
    /// `indices[…]` give `[…indices, …]`. Numbers outside are clamped.
    pub fn take(&self, indices: &Tensor) -> Result<Tensor> {
        self.apply(Take, &[indices])
    }
}

impl Op for Take {
    fn name(&self) -> &'static str {
        "take"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [table, indices] = operands(inputs)?;
        if indices.dtype != DType::S32 {
            return Err("indices are not s32".into());
        }
        match table.dims.first() {
            None | Some(0) => Err("there is nothing to take from".into()),
            Some(_) => Ok(table.with_dims([&indices.dims, &table.dims[1..]].concat())),
        }
    }
}

impl Operation for Take {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let table = &at.inputs[0];
        let zeros = table.trace().full(0.0, table.shape().clone())?;
        Ok(vec![Some(zeros.scatter_add(&at.inputs[1], at.cotangent)?), None])
    }
}

impl Lower for Take {
    /// A gather clamps by definition, except on NeuronCores, where an index outside is an error.
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let last = inputs[0].shape.dims[0] - 1;
        let numbers_of_rows = match emitter.fails_outside() {
            true => emitter.clamp(&inputs[1], last),
            false => inputs[1].clone(),
        };
        let (table, indices) = (&inputs[0].shape, &inputs[1].shape);
        let offsets: Vec<usize> = (indices.rank()..result.rank()).collect();
        let sizes: Dims = [&[1], &table.dims[1..]].concat();
        let numbers = format!(
            "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [0], \
             start_index_map = [0], index_vector_dim = {}>",
            list(&offsets),
            indices.rank()
        );
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let attributes = format!("{numbers}, slice_sizes = array<i64: {}>", sizes.join(", "));
        emitter.generic("gather", &[&inputs[0], &numbers_of_rows], &attributes, "", result)
    }
}
