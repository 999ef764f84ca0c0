//! A part of a tensor that begins at a place known when the program runs, and its way back.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, check_axis, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value, list};
use crate::tensor::Tensor;

/// Takes `size` elements along `axis`.
#[derive(Debug)]
struct DynamicSlice {
    axis: usize,
    size: usize,
}

/// Puts a tensor among zeros, of which there are `size` along `axis` with it.
#[derive(Debug)]
struct DynamicPlace {
    axis: usize,
    size: usize,
}

impl Tensor {
    /// The `size` elements along `axis` that begin at `start`, a u32 scalar. A start that leaves fewer
    /// counts as the last one that does not.
    pub fn dynamic_slice(&self, axis: usize, start: &Tensor, size: usize) -> Result<Tensor> {
        self.apply(DynamicSlice { axis, size }, &[start])
    }

    /// Zeros of `size` elements along `axis`, among which the tensor stands from `start` on, a u32
    /// scalar.
    pub fn dynamic_place(&self, axis: usize, start: &Tensor, size: usize) -> Result<Tensor> {
        self.apply(DynamicPlace { axis, size }, &[start])
    }
}

impl Op for DynamicSlice {
    fn name(&self) -> &'static str {
        "dynamic_slice"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let x = starting_at_scalar(inputs)?;
        check_axis(self.axis, x)?;
        if self.size > x.dims[self.axis] {
            return Err(format!("axis {} has no {} elements", self.axis, self.size).into());
        }
        Ok(resized(x, self.axis, self.size))
    }
}

impl Operation for DynamicSlice {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let size = at.inputs[0].dims()[self.axis];
        Ok(vec![Some(at.cotangent.dynamic_place(self.axis, &at.inputs[1], size)?), None])
    }
}

impl Lower for DynamicSlice {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let last = inputs[0].shape.dims[self.axis] - self.size;
        let starts = starts(emitter, &inputs[1], self.axis, last, result.rank());
        let operands: Vec<&Value> = [&inputs[0]].into_iter().chain(&starts).collect();
        let sizes = format!("sizes = {}", list(&result.dims));
        emitter.typed("dynamic_slice", &operands, &sizes, result)
    }
}

impl Op for DynamicPlace {
    fn name(&self) -> &'static str {
        "dynamic_place"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let x = starting_at_scalar(inputs)?;
        check_axis(self.axis, x)?;
        if self.size < x.dims[self.axis] {
            return Err(format!("does not fit into {} elements", self.size).into());
        }
        Ok(resized(x, self.axis, self.size))
    }
}

impl Operation for DynamicPlace {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let size = at.inputs[0].dims()[self.axis];
        Ok(vec![Some(at.cotangent.dynamic_slice(self.axis, &at.inputs[1], size)?), None])
    }
}

impl Lower for DynamicPlace {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let last = self.size - inputs[0].shape.dims[self.axis];
        let starts = starts(emitter, &inputs[1], self.axis, last, result.rank());
        let zeros = emitter.splat(0.0, result);
        let operands: Vec<&Value> = [&zeros, &inputs[0]].into_iter().chain(&starts).collect();
        emitter.typed("dynamic_update_slice", &operands, "", result)
    }
}

/// The first operand; the second is where the part begins.
fn starting_at_scalar(inputs: &[Shape]) -> Result<&Shape, Problem> {
    let [x, start] = operands(inputs)?;
    if *start != Shape::scalar(DType::U32) {
        return Err("begins at a u32 scalar".into());
    }
    Ok(x)
}

fn resized(x: &Shape, axis: usize, size: usize) -> Shape {
    let mut resized = x.clone();
    resized.dims[axis] = size;
    resized
}

/// Where the part begins on each axis: at `last` at most on the one that is given.
fn starts(
    emitter: &mut Emitter,
    start: &Value,
    axis: usize,
    last: usize,
    rank: usize,
) -> Vec<Value> {
    let start = match emitter.fails_outside() {
        true => &emitter.clamp(start, last),
        false => start,
    };
    let zero = emitter.splat(0.0, &Shape::scalar(DType::U32));
    (0..rank).map(|other| if other == axis { start.clone() } else { zero.clone() }).collect()
}
