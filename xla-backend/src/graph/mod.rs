//! The arena of nodes that a trace fills. Nodes are in topological order by
//! construction: an operand always has a smaller id than its user.

mod division;
mod op;
mod parameter;

pub mod print;

use std::fmt;
use std::sync::Arc;

pub(crate) use division::Continuation;
pub use op::{Op, Participants, Problem, ResultStorage};
pub use parameter::Parameter;

pub use crate::dtype::DType;
use crate::error::{Error, Result};
pub use crate::shape::{Dims, Shape};

/// The index of a node in its graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Returns the place of the node in its graph.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// One operation applied to earlier nodes. `O` is the interface of operations above [`Op`] that the graph's user needs.
#[derive(Debug)]
pub struct Node<O: ?Sized> {
    /// The operation.
    pub op: Arc<O>,
    /// The nodes whose results are its operands.
    pub inputs: Vec<NodeId>,
    /// The shape of its result.
    pub shape: Shape,
    /// The scope in which it was recorded.
    pub scope: ScopeId,
    /// The scope of the operation whose gradient it computes, if any.
    pub backward_of: Option<ScopeId>,
}

impl<O: ?Sized> Clone for Node<O> {
    fn clone(&self) -> Self {
        let Node { op, inputs, shape, scope, backward_of } = self;
        let (op, inputs, shape) = (Arc::clone(op), inputs.clone(), shape.clone());
        Node { op, inputs, shape, scope: *scope, backward_of: *backward_of }
    }
}

/// The index of a scope in its graph; 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ScopeId(pub u32);

/// A named region of the trace, such as one encoder layer.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The name in its parent, such as `layer.0`.
    pub name: String,
    /// The scope around it; the outermost scope is its own parent.
    pub parent: ScopeId,
    /// The values that the backward pass computes again.
    pub recompute: Recompute,
}

/// The values of a scope that the backward pass computes again instead of keeping them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recompute {
    /// No values: the forward pass keeps them.
    #[default]
    Nothing,
    /// The nodes that it reads inside the scope (activation checkpointing).
    Inside,
    /// The same nodes, and the scope's results that it reads outside.
    Results,
}

/// A program parameter: a variable's current value or an input of the step.
#[derive(Clone, Debug)]
pub struct ParameterInfo {
    /// The name of the variable or input.
    pub name: String,
    /// The node that stands for its value.
    pub node: NodeId,
}

/// The nodes of a program with its parameters and scopes. [`tensor::Graph`](crate::tensor::Graph) is that of a trace.
#[derive(Debug)]
pub struct Graph<O: ?Sized> {
    nodes: Vec<Node<O>>,
    parameters: Vec<ParameterInfo>,
    scopes: Vec<Scope>,
    current_scope: ScopeId,
    /// The scope of the operation whose gradient is being recorded.
    backward_of: Option<ScopeId>,
}

impl<O: ?Sized> Clone for Graph<O> {
    fn clone(&self) -> Self {
        Graph {
            nodes: self.nodes.clone(),
            parameters: self.parameters.clone(),
            scopes: self.scopes.clone(),
            current_scope: self.current_scope,
            backward_of: self.backward_of,
        }
    }
}

impl<O: ?Sized> Default for Graph<O> {
    fn default() -> Self {
        let (parent, recompute) = (ScopeId::default(), Recompute::Nothing);
        let root = Scope { name: String::new(), parent, recompute };
        Graph {
            nodes: Vec::new(),
            parameters: Vec::new(),
            scopes: vec![root],
            current_scope: ScopeId::default(),
            backward_of: None,
        }
    }
}

impl<O: Op + ?Sized> Graph<O> {
    /// Appends `op(inputs)` after inferring its shape.
    pub fn add(&mut self, op: Arc<O>, inputs: Vec<NodeId>) -> Result<NodeId> {
        let shapes: Vec<Shape> = inputs.iter().map(|&id| self.node(id).shape.clone()).collect();
        let shape = op.infer(&shapes).map_err(|problem| Error::Shape {
            op: op.name().to_owned(),
            problem: problem.0,
            inputs: shapes,
        })?;
        let id = NodeId(self.nodes.len() as u32);
        let (scope, backward_of) = (self.current_scope, self.backward_of);
        self.nodes.push(Node { op, inputs, shape, scope, backward_of });
        Ok(id)
    }

    /// Appends a program parameter; its position is its argument number.
    pub fn add_parameter(&mut self, name: &str, shape: Shape) -> Result<NodeId>
    where
        Arc<O>: From<Parameter>,
    {
        let index = self.parameters.len();
        let node = self.add(Parameter { index, shape }.into(), Vec::new())?;
        self.parameters.push(ParameterInfo { name: name.to_owned(), node });
        Ok(node)
    }
}

impl<O: ?Sized> Graph<O> {
    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &Node<O> {
        &self.nodes[id.index()]
    }

    /// All nodes, operands before their users.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node<O>)> {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i as u32), node))
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The program parameters, by argument number.
    pub fn parameters(&self) -> &[ParameterInfo] {
        &self.parameters
    }

    /// Returns a scope.
    pub fn scope(&self, id: ScopeId) -> &Scope {
        &self.scopes[id.0 as usize]
    }

    /// Whether a node is in a scope whose results are computed again, or in one inside such a scope.
    pub fn is_transient(&self, id: NodeId) -> bool {
        let mut at = self.node(id).scope;
        while at != ScopeId::default() && self.scope(at).recompute != Recompute::Results {
            at = self.scope(at).parent;
        }
        at != ScopeId::default()
    }

    /// Opens a scope inside the current one and makes it current.
    pub fn enter_scope(&mut self, name: &str, recompute: Recompute) -> ScopeId {
        let parent = self.current_scope;
        self.scopes.push(Scope { name: name.to_owned(), parent, recompute });
        self.current_scope = ScopeId(self.scopes.len() as u32 - 1);
        self.current_scope
    }

    /// Makes the parent of the current scope current again.
    pub fn leave_scope(&mut self) {
        self.current_scope = self.scope(self.current_scope).parent;
    }

    /// Marks the nodes that are added from here on as those of the gradient of a node, or of none.
    pub fn set_backward_of(&mut self, id: Option<NodeId>) {
        self.backward_of = id.map(|id| {
            let node = self.node(id);
            node.backward_of.unwrap_or(node.scope)
        });
    }

    /// The dotted path of a scope, for the printer and for profiles.
    pub fn scope_path(&self, id: ScopeId) -> String {
        let mut names = Vec::new();
        let mut at = id;
        while at != ScopeId::default() {
            names.push(self.scope(at).name.as_str());
            at = self.scope(at).parent;
        }
        names.reverse();
        names.join(".")
    }
}
