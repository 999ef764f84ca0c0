//! Adding rows into a table by number: the reverse of taking them.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value, list};
use crate::tensor::Tensor;

#[derive(Debug)]
struct ScatterAdd;

impl Tensor {
    /// This tensor `[V, …]` with `updates[…indices, …]` added to the entries
    /// of axis 0 numbered by `indices` (s32). Numbers outside are clamped, and
    /// what is added to one entry twice counts twice.
    pub fn scatter_add(&self, indices: &Tensor, updates: &Tensor) -> Result<Tensor> {
        self.apply(ScatterAdd, &[indices, updates])
    }
}

impl Op for ScatterAdd {
    fn name(&self) -> &'static str {
        "scatter_add"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::InPlace
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [table, indices, updates] = operands(inputs)?;
        if indices.dtype != DType::S32 {
            return Err("indices are not s32".into());
        }
        if matches!(table.dims.first(), None | Some(0)) {
            return Err("there is nothing to add to".into());
        }
        let expected = table.with_dims([&indices.dims, &table.dims[1..]].concat());
        if *updates != expected {
            return Err(format!("updates must be {expected}").into());
        }
        Ok(table.clone())
    }
}

impl Operation for ScatterAdd {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let to_updates = at.cotangent.take(&at.inputs[1])?;
        Ok(vec![Some(at.cotangent.clone()), None, Some(to_updates)])
    }

    fn add_to(&self, sum: &Tensor, inputs: &[Tensor]) -> Result<Option<Tensor>> {
        let [table, indices, updates] = inputs else { return Ok(None) };
        let updates = updates.convert(sum.dtype())?;
        Ok(Some(sum.accumulated(table)?.scatter_add(indices, &updates)?))
    }
}

impl Lower for ScatterAdd {
    /// A scatter drops what lies outside, so the indices are clamped first.
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let (table, updates) = (&inputs[0], &inputs[2]);
        let indices = emitter.clamp(&inputs[1], table.shape.dims[0] - 1);
        let rank = indices.shape.rank();
        let windows: Vec<usize> = (rank..updates.shape.rank()).collect();
        let attributes = format!(
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, \
             inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], \
             index_vector_dim = {rank}>",
            list(&windows)
        );
        let add = Emitter::region("add", result.dtype);
        emitter.generic("scatter", &[table, &indices, updates], &attributes, &add, result)
    }
}
