//! Comparisons, which give pred.

use super::broadcast::methods_of_two;
use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug)]
enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

methods_of_two! {
    Compare:
    /// A pred: true where elements are equal.
    eq, eq_scalar => Eq;
    /// A pred: true where elements differ, and for NaN.
    ne, ne_scalar => Ne;
    /// A pred: true where elements are less than those of `other`.
    lt, lt_scalar => Lt;
    /// A pred: true where elements are at most those of `other`.
    le, le_scalar => Le;
    /// A pred: true where elements are greater than those of `other`.
    gt, gt_scalar => Gt;
    /// A pred: true where elements are at least those of `other`.
    ge, ge_scalar => Ge;
}

impl Compare {
    fn direction(self) -> &'static str {
        match self {
            Compare::Eq => "EQ",
            Compare::Ne => "NE",
            Compare::Lt => "LT",
            Compare::Le => "LE",
            Compare::Gt => "GT",
            Compare::Ge => "GE",
        }
    }
}

impl Op for Compare {
    fn name(&self) -> &'static str {
        "compare"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [a, b] = operands(inputs)?;
        if a != b {
            return Err("operands differ in dtype or dimensions".into());
        }
        Ok(a.with_dtype(DType::Pred))
    }
}

impl Operation for Compare {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None, None])
    }
}

impl Lower for Compare {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        if let Some(value) = emitter.compared_by_parts(self.direction(), inputs) {
            return value;
        }
        let how = match inputs[0].shape.dtype {
            dtype if dtype.is_float() => "FLOAT",
            DType::S32 | DType::S64 => "SIGNED",
            _ => "UNSIGNED",
        };
        let op = format!("compare {},", self.direction());
        emitter.typed(&op, &[&inputs[0], &inputs[1]], how, result)
    }
}
