//! Surrounding a tensor with a value, and spreading it with that value between.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, check_axis, operands};
use crate::error::{Error, Result};
use crate::graph::{Dims, Shape};
use crate::stablehlo::{Emitter, Value, list};
use crate::tensor::Tensor;

#[derive(Debug)]
struct Pad {
    low: Vec<usize>,
    high: Vec<usize>,
    interior: Vec<usize>,
    value: f64,
}

impl Tensor {
    /// `low` times `value` before and `high` times behind, along `axis`.
    pub fn pad(&self, axis: usize, low: usize, high: usize, value: f64) -> Result<Tensor> {
        check_axis(axis, self.shape()).map_err(|problem| Error::Shape {
            op: "pad".to_owned(),
            problem: problem.0,
            inputs: vec![self.shape().clone()],
        })?;
        let on_axis = |count| {
            let mut counts = vec![0; self.rank()];
            counts[axis] = count;
            counts
        };
        self.pad_all(&on_axis(low), &on_axis(high), &on_axis(0), value)
    }

    /// Along axis `i`, `low[i]` times `value` before, `high[i]` times behind
    /// and `interior[i]` times between two elements.
    pub fn pad_all(
        &self,
        low: &[usize],
        high: &[usize],
        interior: &[usize],
        value: f64,
    ) -> Result<Tensor> {
        let [low, high, interior] = [low, high, interior].map(<[usize]>::to_vec);
        self.apply(Pad { low, high, interior, value }, &[])
    }
}

impl Op for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        if [self.low.len(), self.high.len(), self.interior.len()] != [x.rank(); 3] {
            return Err("takes a count for each axis".into());
        }
        let dims: Dims = (0..x.rank())
            .map(|axis| {
                let between = x.dims[axis].saturating_sub(1) * self.interior[axis];
                self.low[axis] + x.dims[axis] + between + self.high[axis]
            })
            .collect();
        Ok(x.with_dims(dims))
    }
}

impl Operation for Pad {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let from = at.output.dims();
        let limits: Vec<usize> = (0..from.len()).map(|axis| from[axis] - self.high[axis]).collect();
        let strides: Vec<usize> = self.interior.iter().map(|between| between + 1).collect();
        Ok(vec![Some(at.cotangent.slice_strided(&self.low, &limits, &strides)?)])
    }
}

impl Lower for Pad {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let value = emitter.splat(self.value, &Shape::scalar(result.dtype));
        let [low, high, interior] =
            [&self.low, &self.high, &self.interior].map(|counts| list(counts));
        let attributes = format!("low = {low}, high = {high}, interior = {interior}");
        emitter.typed("pad", &[&inputs[0], &value], &attributes, result)
    }
}
