//! Counting along an axis.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, check_axis, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::{Tensor, Trace};

#[derive(Debug)]
struct Iota {
    shape: Shape,
    axis: usize,
}

impl Trace {
    /// 0, 1, 2, … along `axis`, the same in every other axis.
    pub fn iota(&self, dtype: DType, dims: &[usize], axis: usize) -> Result<Tensor> {
        self.apply(Iota { shape: Shape::new(dtype, dims), axis }, &[])
    }
}

impl Op for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [] = operands(inputs)?;
        check_axis(self.axis, &self.shape)?;
        if self.shape.dtype == DType::Pred {
            return Err("cannot count in pred".into());
        }
        Ok(self.shape.clone())
    }
}

impl Operation for Iota {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(Vec::new())
    }
}

impl Lower for Iota {
    fn lower(&self, emitter: &mut Emitter, _inputs: &[Value], result: &Shape) -> Value {
        emitter.emit(&format!("stablehlo.iota dim = {} : {}", self.axis, result.mlir()), result)
    }
}
