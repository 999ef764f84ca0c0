//! Operations that other operations describe, yet with a gradient rule of
//! their own: shorter, or steadier, than what their parts would give.

use std::fmt;

use super::{Backward, Lower, Op, Operation, Participants, Problem, ResultStorage};
use crate::error::{Error, Result};
use crate::graph::{NodeId, Shape};
use crate::kernels::{KernelUse, Kernels, LibraryCall};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::{Tensor, Trace};

pub(super) trait Composite: fmt::Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn storage(&self) -> ResultStorage;

    /// See [`Op::reads_memory`].
    fn reads_memory(&self) -> bool {
        false
    }

    /// Whether what [`expand`](Self::expand) gives for the operation keeps an intermediate value, as
    /// [`Op::keeps_intermediate`] says. Kernels keep none.
    fn keeps_intermediate(&self) -> bool {
        false
    }

    /// The bytes that what [`expand`](Self::expand) gives takes while it is computed, besides operands and
    /// results.
    fn workspace(&self, inputs: &[Shape]) -> usize {
        let _ = inputs;
        0
    }

    /// See [`Op::participants`].
    fn participants(&self) -> Option<Participants> {
        None
    }

    /// The bytes of what a collective exchanges, on each replica.
    fn exchanged_bytes(&self, inputs: &[Shape]) -> usize {
        inputs.first().map_or(0, Shape::size_bytes)
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem>;

    /// The value, in terms of other operations. It must not fail on shapes
    /// that `infer` accepts.
    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor>;

    /// All results, for an operation that has several: [`Tensor::part`] names the others.
    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![self.expand(inputs)?])
    }

    /// The kernel that computes all results from the operands, where there is one for these
    /// shapes.
    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let _ = inputs;
        None
    }

    /// The call of a library that computes all results on GPUs, where there is one for these shapes.
    fn library_call(&self, inputs: &[Shape]) -> Option<LibraryCall> {
        let _ = inputs;
        None
    }

    /// Whether one of `kernels` computes it.
    fn has_kernel(&self, inputs: &[Shape], kernels: Kernels) -> bool {
        match kernels {
            Kernels::None => false,
            Kernels::Own => self.kernel(inputs).is_some(),
            Kernels::CudnnAttention => self.library_call(inputs).is_some(),
        }
    }

    /// The bytes that it takes where one of `kernels` computes it, besides operands and results.
    fn kernel_workspace(&self, inputs: &[Shape], kernels: Kernels) -> usize {
        let _ = (inputs, kernels);
        0
    }

    /// Operations that are gradients themselves have none.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let _ = at;
        Err(Error::NotDifferentiable { op: Composite::name(self).to_owned() })
    }
}

impl<C: Composite> Op for C {
    fn name(&self) -> &'static str {
        Composite::name(self)
    }

    fn storage(&self) -> ResultStorage {
        Composite::storage(self)
    }

    fn reads_memory(&self) -> bool {
        Composite::reads_memory(self)
    }

    fn keeps_intermediate(&self, inputs: &[Shape], kernels: Kernels) -> bool {
        Composite::keeps_intermediate(self) && !self.has_kernel(inputs, kernels)
    }

    fn workspace(&self, inputs: &[Shape], kernels: Kernels) -> usize {
        match self.has_kernel(inputs, kernels) {
            true => self.kernel_workspace(inputs, kernels),
            false => Composite::workspace(self, inputs),
        }
    }

    fn participants(&self) -> Option<Participants> {
        Composite::participants(self)
    }

    fn exchanged_bytes(&self, inputs: &[Shape], _result: &Shape) -> [usize; 2] {
        [Composite::exchanged_bytes(self, inputs); 2]
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        Composite::infer(self, inputs)
    }
}

impl<C: Composite> Operation for C {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Composite::gradient(self, at)
    }
}

impl<C: Composite> Lower for C {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        let shapes: Vec<Shape> = inputs.iter().map(|input| input.shape.clone()).collect();
        if emitter.kernels() == Kernels::CudnnAttention
            && let Some(call) = self.library_call(&shapes)
        {
            return emitter.call_library(&call, inputs);
        }
        let trace = Trace::with_kernels(emitter.kernels());
        let parameter = |value: &Value| trace.parameter("", value.shape.clone());
        let outputs = inputs
            .iter()
            .map(parameter)
            .collect::<Result<Vec<Tensor>>>()
            .and_then(|parameters| self.expand_all(&parameters))
            .expect("the shape rule has accepted these operands");
        if emitter.calls_kernels()
            && let Some(kernel) = self.kernel(&shapes)
        {
            let results: Vec<Shape> = outputs.iter().map(|o| o.shape().clone()).collect();
            return emitter.call_kernel(&kernel, inputs, &results);
        }
        let nodes: Vec<NodeId> = outputs.iter().map(Tensor::node).collect();
        Value::with_parts(emitter.inline(&trace.graph(), &nodes, inputs))
    }
}
