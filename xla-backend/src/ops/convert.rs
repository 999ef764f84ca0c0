//! Changing the element type.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct Convert {
    to: DType,
}

#[derive(Debug)]
struct BitcastConvert {
    to: DType,
}

impl Tensor {
    /// Converts the numbers to `dtype`; returns the tensor itself where it has it.
    pub fn convert(&self, dtype: DType) -> Result<Tensor> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        self.apply(Convert { to: dtype }, &[])
    }

    /// Reads the bits as a dtype of equal width.
    pub fn bitcast_convert(&self, dtype: DType) -> Result<Tensor> {
        self.apply(BitcastConvert { to: dtype }, &[])
    }

    /// Half-precision numbers as f32, in which sums of them are taken.
    pub(super) fn widen(&self) -> Result<Tensor> {
        self.convert(self.dtype().accumulator())
    }
}

impl Op for Convert {
    fn name(&self) -> &'static str {
        "convert"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        Ok(x.with_dtype(self.to))
    }
}

impl Operation for Convert {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let from = at.inputs[0].dtype();
        if !from.is_float() || !self.to.is_float() {
            return Ok(vec![None]);
        }
        Ok(vec![Some(at.cotangent.convert(from)?)])
    }

    /// The sum of what is converted is rounded once less where its dtype is the narrower one.
    fn add_to(&self, sum: &Tensor, inputs: &[Tensor]) -> Result<Option<Tensor>> {
        let from = inputs[0].dtype();
        let widens = from.is_float() && from.size_bytes() <= sum.dtype().size_bytes();
        if widens { inputs[0].added_in_place(sum) } else { Ok(None) }
    }
}

impl Lower for Convert {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        emitter.typed("convert", &[&inputs[0]], "", result)
    }
}

impl Op for BitcastConvert {
    fn name(&self) -> &'static str {
        "bitcast_convert"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        let pred = x.dtype == DType::Pred || self.to == DType::Pred;
        if pred || x.dtype.size_bytes() != self.to.size_bytes() {
            return Err(format!("{} has not the width of {}", self.to, x.dtype).into());
        }
        Ok(x.with_dtype(self.to))
    }
}

impl Operation for BitcastConvert {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None])
    }
}

impl Lower for BitcastConvert {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        emitter.typed("bitcast_convert", &[&inputs[0]], "", result)
    }
}
