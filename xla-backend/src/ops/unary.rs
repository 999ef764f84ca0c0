//! Operations on one element at a time.

use std::f64::consts::FRAC_2_SQRT_PI;

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug)]
enum Unary {
    Neg,
    Abs,
    Exp,
    Log,
    Log1p,
    Sqrt,
    Rsqrt,
    Tanh,
    Logistic,
    Erf,
    Sign,
    Floor,
    Cos,
    Sin,
    Not,
    IsFinite,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident => $kind:ident;)*) => {
        impl Tensor {
            $($(#[$doc])* pub fn $method(&self) -> Result<Tensor> {
                self.apply(Unary::$kind, &[])
            })*
        }
    };
}

methods! {
    /// -x.
    neg => Neg;
    /// The absolute value.
    abs => Abs;
    /// e to the power of x.
    exp => Exp;
    /// The natural logarithm.
    log => Log;
    /// log(1 + x), accurate near 0.
    log1p => Log1p;
    /// The square root.
    sqrt => Sqrt;
    /// 1 / sqrt(x).
    rsqrt => Rsqrt;
    /// The hyperbolic tangent.
    tanh => Tanh;
    /// 1 / (1 + exp(-x)).
    logistic => Logistic;
    /// The error function.
    erf => Erf;
    /// -1, 0 or 1.
    sign => Sign;
    /// The largest whole number of at most x.
    floor => Floor;
    /// The cosine of x in radians.
    cos => Cos;
    /// The sine of x in radians.
    sin => Sin;
    /// Negation of a pred, or of every bit of an integer.
    not => Not;
    /// A pred: true for elements that are neither infinite nor NaN.
    is_finite => IsFinite;
}

impl Unary {
    fn accepts(self, dtype: DType) -> bool {
        match self {
            Unary::Not => dtype == DType::Pred || dtype.is_integer(),
            Unary::Neg => dtype != DType::Pred,
            Unary::Abs | Unary::Sign => {
                dtype.is_float() || matches!(dtype, DType::S32 | DType::S64)
            }
            _ => dtype.is_float(),
        }
    }

    /// The derivative at `x`, where the result is `y`; `None` where it is 0.
    fn derivative(self, x: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(match self {
            Unary::Neg => x.trace().full(-1.0, x.shape().clone())?,
            Unary::Abs => x.sign()?,
            Unary::Exp => y.clone(),
            Unary::Log => x.reciprocal()?,
            Unary::Log1p => x.add_scalar(1.0)?.reciprocal()?,
            Unary::Sqrt => y.mul_scalar(2.0)?.reciprocal()?,
            Unary::Rsqrt => y.mul(y)?.mul(y)?.mul_scalar(-0.5)?,
            Unary::Tanh => y.mul(y)?.one_minus()?,
            Unary::Logistic => y.one_minus()?.mul(y)?,
            Unary::Erf => x.mul(x)?.neg()?.exp()?.mul_scalar(FRAC_2_SQRT_PI)?,
            Unary::Cos => x.sin()?.neg()?,
            Unary::Sin => x.cos()?,
            Unary::Sign | Unary::Floor | Unary::Not | Unary::IsFinite => return Ok(None),
        }))
    }
}

impl Op for Unary {
    fn name(&self) -> &'static str {
        match self {
            Unary::Neg => "negate",
            Unary::Abs => "abs",
            Unary::Exp => "exponential",
            Unary::Log => "log",
            Unary::Log1p => "log_plus_one",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Tanh => "tanh",
            Unary::Logistic => "logistic",
            Unary::Erf => "erf",
            Unary::Sign => "sign",
            Unary::Floor => "floor",
            Unary::Cos => "cosine",
            Unary::Sin => "sine",
            Unary::Not => "not",
            Unary::IsFinite => "is_finite",
        }
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        if !self.accepts(x.dtype) {
            return Err(format!("does not take {}", x.dtype).into());
        }
        match self {
            Unary::IsFinite => Ok(x.with_dtype(DType::Pred)),
            _ => Ok(x.clone()),
        }
    }
}

impl Operation for Unary {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let gradient = match self {
            Unary::Neg => Some(at.cotangent.neg()?),
            _ => match self.derivative(&at.inputs[0], at.output)? {
                Some(derivative) => Some(at.cotangent.mul(&derivative)?),
                None => None,
            },
        };
        Ok(vec![gradient])
    }
}

impl Lower for Unary {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        match self {
            Unary::IsFinite => emitter.typed("is_finite", &[&inputs[0]], "", result),
            Unary::Erf => emitter.erf(&inputs[0]),
            _ => emitter.same_type(self.name(), &[&inputs[0]]),
        }
    }
}
