//! Values known when the program is traced.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::{Tensor, Trace};

/// One value in every place.
#[derive(Debug)]
struct Splat {
    value: f64,
    shape: Shape,
}

/// Values in row-major order.
#[derive(Debug)]
struct Constant {
    shape: Shape,
    values: Vec<f64>,
}

impl Trace {
    /// A scalar constant, rounded to `dtype`.
    pub fn scalar(&self, value: f64, dtype: DType) -> Result<Tensor> {
        self.full(value, Shape::scalar(dtype))
    }

    /// A constant with `value` in every place.
    pub fn full(&self, value: f64, shape: Shape) -> Result<Tensor> {
        self.apply(Splat { value, shape }, &[])
    }

    /// A constant of the given values in row-major order, rounded to `dtype`;
    /// integers are exact up to 2^53. It is part of the program's text: pass
    /// anything large as an input instead.
    pub fn constant(&self, dtype: DType, dims: &[usize], values: &[f64]) -> Result<Tensor> {
        let shape = Shape::new(dtype, dims);
        self.apply(Constant { shape, values: values.to_vec() }, &[])
    }
}

impl Op for Splat {
    fn name(&self) -> &'static str {
        "splat"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [] = operands(inputs)?;
        Ok(self.shape.clone())
    }

    fn is_zero(&self) -> bool {
        self.value == 0.0
    }
}

impl Operation for Splat {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(Vec::new())
    }

    fn add_to(&self, sum: &Tensor, _inputs: &[Tensor]) -> Result<Option<Tensor>> {
        Ok(self.is_zero().then(|| sum.clone()))
    }
}

impl Lower for Splat {
    fn lower(&self, emitter: &mut Emitter, _inputs: &[Value], result: &Shape) -> Value {
        emitter.splat(self.value, result)
    }
}

impl Op for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [] = operands(inputs)?;
        let (given, wanted) = (self.values.len(), self.shape.element_count());
        if given != wanted {
            return Err(format!("{given} values for {} of {wanted}", self.shape).into());
        }
        Ok(self.shape.clone())
    }
}

impl Operation for Constant {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(Vec::new())
    }
}

impl Lower for Constant {
    fn lower(&self, emitter: &mut Emitter, _inputs: &[Value], result: &Shape) -> Value {
        emitter.dense(&self.values, result)
    }
}
