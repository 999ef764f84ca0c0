//! Arithmetic and bitwise operations on two operands, broadcast together.

use super::broadcast::methods_of_two;
use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug)]
enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Maximum,
    Minimum,
    Pow,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRightLogical,
}

methods_of_two! {
    Binary:
    /// Adds elements.
    add, add_scalar => Add;
    /// Subtracts the elements of `other`.
    sub, sub_scalar => Sub;
    /// Multiplies elements.
    mul, mul_scalar => Mul;
    /// Divides by the elements of `other`; the quotient of integers is truncated.
    div, div_scalar => Div;
    /// The larger of each pair. XLA's CPU backend may drop a NaN.
    maximum, maximum_scalar => Maximum;
    /// The smaller of each pair. XLA's CPU backend may drop a NaN.
    minimum, minimum_scalar => Minimum;
    /// Raises elements to the powers of `other`.
    pow, pow_scalar => Pow;
    /// The remainder of a truncating division, with the sign of the dividend.
    remainder, remainder_scalar => Remainder;
    /// Combines preds, or the bits of integers.
    and, and_scalar => And;
    /// Combines preds, or the bits of integers.
    or, or_scalar => Or;
    /// Combines preds, or the bits of integers.
    xor, xor_scalar => Xor;
    /// 0 where the shift is at least the width.
    shift_left, shift_left_scalar => ShiftLeft;
    /// Fills with zeros; 0 where the shift is at least the width.
    shift_right_logical, shift_right_logical_scalar => ShiftRightLogical;
}

impl Tensor {
    /// 1 / x.
    pub fn reciprocal(&self) -> Result<Tensor> {
        self.trace().full(1.0, self.shape().clone())?.div(self)
    }

    /// 1 - x.
    pub fn one_minus(&self) -> Result<Tensor> {
        self.trace().full(1.0, self.shape().clone())?.sub(self)
    }
}

impl Binary {
    fn accepts(self, dtype: DType) -> bool {
        match self {
            Binary::And | Binary::Or | Binary::Xor => dtype == DType::Pred || dtype.is_integer(),
            Binary::ShiftLeft | Binary::ShiftRightLogical => dtype.is_integer(),
            _ => dtype != DType::Pred,
        }
    }
}

impl Op for Binary {
    fn name(&self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "subtract",
            Binary::Mul => "multiply",
            Binary::Div => "divide",
            Binary::Maximum => "maximum",
            Binary::Minimum => "minimum",
            Binary::Pow => "power",
            Binary::Remainder => "remainder",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRightLogical => "shift_right_logical",
        }
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [a, b] = operands(inputs)?;
        if a != b {
            return Err("operands differ in dtype or dimensions".into());
        }
        if !self.accepts(a.dtype) {
            return Err(format!("does not take {}", a.dtype).into());
        }
        Ok(a.clone())
    }
}

impl Operation for Binary {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (a, b, d) = (&at.inputs[0], &at.inputs[1], at.cotangent);
        let (to_a, to_b) = match self {
            Binary::Add => (d.clone(), d.clone()),
            Binary::Sub => (d.clone(), d.neg()?),
            Binary::Mul => (d.mul(b)?, d.mul(a)?),
            Binary::Div => (d.div(b)?, d.mul(at.output)?.div(b)?.neg()?),
            Binary::Maximum => to_winner(d, &a.gt(b)?, &a.eq(b)?)?,
            Binary::Minimum => to_winner(d, &a.lt(b)?, &a.eq(b)?)?,
            Binary::Pow => pow_gradient(at)?,
            Binary::Remainder => (d.clone(), d.mul(&a.sub(at.output)?.div(b)?)?.neg()?),
            _ => return Ok(vec![None, None]),
        };
        Ok(vec![Some(to_a), Some(to_b)])
    }
}

impl Lower for Binary {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        match emitter.by_parts(self.name(), inputs) {
            Some(value) => value,
            None => emitter.same_type(self.name(), &[&inputs[0], &inputs[1]]),
        }
    }
}

/// The cotangent to the first operand where it `wins` and to the second where
/// it does not; equal operands share it, as in PyTorch.
fn to_winner(cotangent: &Tensor, wins: &Tensor, equal: &Tensor) -> Result<(Tensor, Tensor)> {
    let zeros = cotangent.trace().full(0.0, cotangent.shape().clone())?;
    let half = equal.select(&cotangent.mul_scalar(0.5)?, &zeros)?;
    let first = wins.select(cotangent, &half)?;
    Ok((first.clone(), cotangent.sub(&first)?))
}

/// With respect to the exponent, a base of 0 counts as constant: its limit is
/// 0 for positive exponents, where the logarithm alone would give NaN.
fn pow_gradient(at: &Backward<'_>) -> Result<(Tensor, Tensor)> {
    let (base, exponent) = (&at.inputs[0], &at.inputs[1]);
    let slope = base.pow(&exponent.sub_scalar(1.0)?)?.mul(exponent)?;
    let zeros = base.trace().full(0.0, base.shape().clone())?;
    let log = base.eq(&zeros)?.select(&zeros, &base.log()?)?;
    Ok((at.cotangent.mul(&slope)?, at.cotangent.mul(at.output)?.mul(&log)?))
}
