//! The handle that model code composes. A [`Tensor`] names a node of a trace;
//! its methods, defined beside their operations in [`crate::ops`], append nodes.

mod operation;

use std::cell::{Ref, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::graph::{self, DType, NodeId, Recompute, Shape};
use crate::kernels::Kernels;

pub use operation::{Backward, Operation};

/// The graph of a trace, whose operations have gradient rules and lowerings.
pub type Graph = graph::Graph<dyn Operation>;
/// A node of the graph of a trace.
pub type Node = graph::Node<dyn Operation>;

/// A graph under construction, shared by the tensors that point into it.
#[derive(Clone, Default, Debug)]
pub struct Trace {
    graph: Rc<RefCell<Graph>>,
    kernels: Kernels,
}

impl Trace {
    /// Returns an empty trace, whose programs call no kernels.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// A trace whose program may call kernels: what is one kernel is recorded as one operation.
    pub fn with_kernels(kernels: Kernels) -> Trace {
        Trace { kernels, ..Trace::default() }
    }

    /// A trace that continues `graph`.
    pub(crate) fn of_graph(graph: Graph, kernels: Kernels) -> Trace {
        Trace { graph: Rc::new(RefCell::new(graph)), kernels }
    }

    /// The kernels that the program may call.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Whether the program may call kernels of ours.
    pub fn calls_kernels(&self) -> bool {
        self.kernels == Kernels::Own
    }

    /// The graph recorded so far.
    pub fn graph(&self) -> Ref<'_, Graph> {
        self.graph.borrow()
    }

    /// A new program parameter.
    pub fn parameter(&self, name: &str, shape: Shape) -> Result<Tensor> {
        let node = self.graph.borrow_mut().add_parameter(name, shape)?;
        Ok(self.tensor(node))
    }

    /// Appends `op(inputs)`.
    pub fn apply(&self, op: impl Operation, inputs: &[&Tensor]) -> Result<Tensor> {
        self.apply_shared(Arc::new(op), inputs)
    }

    /// Appends an operation that already stands elsewhere in a graph.
    pub fn apply_shared(&self, op: Arc<dyn Operation>, inputs: &[&Tensor]) -> Result<Tensor> {
        if inputs.iter().any(|input| !self.owns(input)) {
            return Err(Error::ForeignTensor { op: op.name().to_owned() });
        }
        let ids = inputs.iter().map(|input| input.node).collect();
        let node = self.graph.borrow_mut().add(op, ids)?;
        Ok(self.tensor(node))
    }

    /// Marks the operations that follow as those of the gradient of a node, or of none.
    pub(crate) fn mark_backward_of(&self, node: Option<NodeId>) {
        self.graph.borrow_mut().set_backward_of(node);
    }

    /// Records `body` inside a named scope, such as one encoder layer.
    pub fn scope<T>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.record_scope(name, Recompute::Nothing, body)
    }

    /// Records `body` in a scope whose activations the backward pass recomputes.
    pub fn checkpoint<T>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.record_scope(name, Recompute::Inside, body)
    }

    /// Records `body` in a scope whose results the backward pass recomputes where it reads them.
    pub fn transient<T>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.record_scope(name, Recompute::Results, body)
    }

    /// The handle of a node of this trace.
    pub fn tensor(&self, node: NodeId) -> Tensor {
        let shape = self.graph.borrow().node(node).shape.clone();
        Tensor { trace: self.clone(), node, shape }
    }

    fn owns(&self, tensor: &Tensor) -> bool {
        Rc::ptr_eq(&self.graph, &tensor.trace.graph)
    }

    fn record_scope<T>(
        &self,
        name: &str,
        recompute: Recompute,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.graph.borrow_mut().enter_scope(name, recompute);
        let result = body();
        self.graph.borrow_mut().leave_scope();
        result
    }
}

/// A value of the traced program. Cloning it clones the name, not the value.
#[derive(Clone)]
pub struct Tensor {
    trace: Trace,
    node: NodeId,
    shape: Shape,
}

impl Tensor {
    /// Returns the trace that recorded the tensor.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the node whose result the tensor is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the type and the dimensions.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the dimensions, the outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.shape.dims
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.shape.dtype
    }

    /// Appends `op(self, rest…)`.
    pub fn apply(&self, op: impl Operation, rest: &[&Tensor]) -> Result<Tensor> {
        let mut inputs = vec![self];
        inputs.extend(rest);
        self.trace.apply(op, &inputs)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.shape)
    }
}
