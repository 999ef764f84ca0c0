//! Every replica of a group sends a part of its tensor to each other one.

use std::sync::Arc;

use super::{group_size, groups_attribute, part_of, storage};
use crate::error::Result;
use crate::graph::Shape;
use crate::ops::{
    Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, check_axis, operands,
};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct AllToAll {
    split_axis: usize,
    concat_axis: usize,
    groups: Arc<[Vec<usize>]>,
}

impl Tensor {
    /// Cuts the tensor along `split_axis`, sends the n-th part to the n-th
    /// replica of the group, and joins what arrives along `concat_axis`.
    pub fn all_to_all(
        &self,
        split_axis: usize,
        concat_axis: usize,
        groups: &[Vec<usize>],
    ) -> Result<Tensor> {
        self.apply(AllToAll { split_axis, concat_axis, groups: groups.into() }, &[])
    }
}

impl Op for AllToAll {
    fn name(&self) -> &'static str {
        "all_to_all"
    }

    fn storage(&self) -> ResultStorage {
        storage(&self.groups)
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Groups(self.groups.clone()))
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_axis(self.concat_axis, x)?;
        let parts = group_size(&self.groups)?;
        let mut exchanged = part_of(x, self.split_axis, parts)?;
        exchanged.dims[self.concat_axis] *= parts;
        Ok(exchanged)
    }
}

impl Operation for AllToAll {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let back = at.cotangent.all_to_all(self.concat_axis, self.split_axis, &self.groups)?;
        Ok(vec![Some(back)])
    }
}

impl Lower for AllToAll {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let parts = self.groups.first().map_or(0, Vec::len);
        let attributes = format!(
            "split_dimension = {} : i64, concat_dimension = {} : i64, split_count = {parts} : i64, {}",
            self.split_axis,
            self.concat_axis,
            groups_attribute(emitter, &self.groups)
        );
        emitter.generic("all_to_all", &[&inputs[0]], &attributes, "", result)
    }
}
