//! The two programs that a graph is divided into, of which the second reads what the first one keeps.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Graph, Node, NodeId, Parameter, ParameterInfo, ScopeId};

impl<O: ?Sized> Graph<O> {
    /// The nodes before `end` with the parameters among them, and where `values` are: those behind `end` are further
    /// results of nodes before it.
    pub(crate) fn beginning(&self, end: NodeId, values: &[NodeId]) -> (Self, Vec<NodeId>) {
        let mut graph = self.clone();
        graph.nodes.truncate(end.index());
        graph.parameters.retain(|parameter| parameter.node < end);
        let place = |&value: &NodeId| {
            if value < end {
                return value;
            }
            graph.nodes.push(self.node(value).clone());
            NodeId(graph.nodes.len() as u32 - 1)
        };
        let places = values.iter().map(place).collect();
        (graph, places)
    }
}

/// A graph that reads parameters in place of some values of another graph.
pub(crate) struct Continuation<O: ?Sized> {
    pub graph: Graph<O>,
    /// The parameters of the values, by value.
    read: HashMap<NodeId, NodeId>,
}

impl<O: ?Sized> Continuation<O>
where
    Arc<O>: From<Parameter>,
{
    /// The rest of `whole`, where each of `values` is a parameter, behind those that `whole` has.
    pub(crate) fn new(whole: &Graph<O>, values: &[NodeId]) -> Self {
        let places = (0..values.len()).map(|place| NodeId(place as u32));
        let read: HashMap<NodeId, NodeId> = values.iter().copied().zip(places).collect();
        let parameter = |(place, value): (usize, &NodeId)| {
            let index = whole.parameters.len() + place;
            let shape = whole.node(*value).shape.clone();
            let op = Arc::from(Parameter { index, shape: shape.clone() });
            let (scope, backward_of) = (ScopeId::default(), None);
            Node { op, inputs: Vec::new(), shape, scope, backward_of }
        };
        let nodes = values.iter().enumerate().map(parameter).collect();
        let (parameters, scopes) = (Vec::new(), whole.scopes.clone());
        let (current_scope, backward_of) = (whole.current_scope, None);
        let graph = Graph { nodes, parameters, scopes, current_scope, backward_of };
        let mut continuation = Continuation { graph, read };
        continuation.add_nodes(whole);
        continuation.add_parameters(whole, values);
        continuation
    }

    /// The node that stands for one of the other graph.
    pub(crate) fn node(&self, id: NodeId) -> NodeId {
        let behind = || NodeId(id.0 + self.read.len() as u32);
        self.read.get(&id).copied().unwrap_or_else(behind)
    }

    fn add_nodes(&mut self, whole: &Graph<O>) {
        for (_, node) in whole.nodes() {
            let inputs = node.inputs.iter().map(|input| self.node(*input)).collect();
            self.graph.nodes.push(Node { inputs, ..node.clone() });
        }
    }

    fn add_parameters(&mut self, whole: &Graph<O>, values: &[NodeId]) {
        let own = whole.parameters.iter().map(|it| (it.name.clone(), it.node));
        let kept = values.iter().enumerate().map(|(place, id)| (format!("kept.{place}"), *id));
        let parameters = own.chain(kept);
        self.graph.parameters =
            parameters.map(|(name, node)| ParameterInfo { name, node: self.node(node) }).collect();
    }
}
