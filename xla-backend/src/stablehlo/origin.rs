//! The places in a model that the parts of a program come from.

use super::Value;
use crate::graph::{Graph, Node, Op};

/// A call of a kernel in a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelSite {
    /// The number by which the program refers to the call.
    pub call: usize,
    /// The scope in which its operation was recorded, dotted, as of a layer; empty outside of all. For a gradient, that
    /// of the operation whose gradient it is.
    pub scope: String,
    /// Whether it computes a gradient.
    pub is_backward: bool,
    /// The name of the operation.
    pub operation: &'static str,
    /// The shapes of its first two operands.
    pub operands: String,
    /// The floating-point operations of its products.
    pub flops: f64,
}

impl KernelSite {
    pub(super) fn new(call: usize, inputs: &[Value], flops: f64) -> KernelSite {
        let operands: Vec<String> = inputs.iter().take(2).map(|it| it.shape.to_string()).collect();
        KernelSite { call, operands: operands.join(" "), flops, ..KernelSite::default() }
    }

    /// Notes the node that the call belongs to.
    pub(super) fn locate<O: Op + ?Sized>(&mut self, graph: &Graph<O>, node: &Node<O>) {
        self.scope = graph.scope_path(node.backward_of.unwrap_or(node.scope));
        self.is_backward = node.backward_of.is_some();
        self.operation = node.op.name();
    }
}

/// Where an operation was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of the first value that it lowers to.
    pub first_value: usize,
    /// The scope in which it was recorded, dotted, as of a layer; empty outside of all. For a gradient, that of the
    /// operation whose gradient it is.
    pub scope: String,
    /// Whether it computes a gradient.
    pub is_backward: bool,
    /// The name of the operation that was recorded.
    pub operation: &'static str,
}
