//! Operations that other operations describe, yet with a gradient rule of
//! their own: shorter, or steadier, than what their parts would give.

use std::fmt;

use super::{Backward, Op, Problem, ResultStorage};
use crate::error::Result;
use crate::graph::Shape;
use crate::stablehlo::{Emitter, Value};
use crate::tensor::{Tensor, Trace};

pub(super) trait Composite: fmt::Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn storage(&self) -> ResultStorage;

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem>;

    /// The value, in terms of other operations. It must not fail on shapes
    /// that `infer` accepts.
    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor>;

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>>;
}

impl<C: Composite> Op for C {
    fn name(&self) -> &'static str {
        Composite::name(self)
    }

    fn storage(&self) -> ResultStorage {
        Composite::storage(self)
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        Composite::infer(self, inputs)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Composite::gradient(self, at)
    }

    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        let trace = Trace::new();
        let parameter = |value: &Value| trace.parameter("", value.shape.clone());
        let output = inputs
            .iter()
            .map(parameter)
            .collect::<Result<Vec<Tensor>>>()
            .and_then(|parameters| self.expand(&parameters))
            .expect("the shape rule has accepted these operands");
        let mut values = emitter.inline(&trace.graph(), &[output.node()], inputs);
        values.remove(0)
    }
}
