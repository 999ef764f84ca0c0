//! Rematerialization (activation checkpointing): the backward pass reads the
//! nodes of a checkpointed scope not as the forward pass left them but as a
//! second computation from the scope's inputs. Nothing inside the scope is
//! then needed between the two passes, and its memory is free in the meantime.
//!
//! The second computation starts behind barriers that wait for the scope's
//! first cotangent: otherwise a compiler would merge it with the first one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::error::Result;
use crate::graph::{Graph, NodeId, ScopeId};
use crate::tensor::{Tensor, Trace};

/// Each node of a scope, and each of its inputs, as the backward pass reads it.
type Copies = HashMap<NodeId, Tensor>;

#[derive(Default)]
pub(super) struct Rematerialized {
    scopes: HashMap<ScopeId, Copies>,
}

impl Rematerialized {
    /// The inputs and the result of node `id` for its gradient rule. A scope
    /// inside a checkpointed scope belongs to the outermost one.
    pub(super) fn operands(
        &mut self,
        trace: &Trace,
        id: NodeId,
        cotangent: &Tensor,
    ) -> Result<(Vec<Tensor>, Tensor)> {
        let inputs = trace.graph().node(id).inputs.clone();
        let Some(scope) = checkpoint_of(&trace.graph(), id) else {
            return Ok((
                inputs.iter().map(|&input| trace.tensor(input)).collect(),
                trace.tensor(id),
            ));
        };
        let copies = match self.scopes.entry(scope) {
            Entry::Occupied(copies) => copies.into_mut(),
            Entry::Vacant(none) => none.insert(recompute(trace, scope, cotangent)?),
        };
        let copy = |id: &NodeId| copies.get(id).cloned().unwrap_or_else(|| trace.tensor(*id));
        Ok((inputs.iter().map(copy).collect(), copy(&id)))
    }
}

/// The outermost checkpointed scope around a node. Parameters have none: they
/// are there all the time.
fn checkpoint_of(graph: &Graph, id: NodeId) -> Option<ScopeId> {
    let node = graph.node(id);
    if node.op.parameter_index().is_some() {
        return None;
    }
    let mut found = None;
    let mut at = node.scope;
    while at != ScopeId::default() {
        let scope = graph.scope(at);
        found = if scope.rematerialize { Some(at) } else { found };
        at = scope.parent;
    }
    found
}

/// Appends the scope's nodes once more. What the backward pass does not read
/// of them, lowering drops.
fn recompute(trace: &Trace, scope: ScopeId, cotangent: &Tensor) -> Result<Copies> {
    let mut copies = Copies::new();
    let members = members(&trace.graph(), scope);
    for id in members {
        let node = trace.graph().node(id).clone();
        for &input in node.inputs.iter().filter(|&&input| !belongs(trace, input, scope)) {
            if let Entry::Vacant(none) = copies.entry(input) {
                none.insert(trace.tensor(input).after(&[cotangent])?);
            }
        }
        let inputs: Vec<&Tensor> = node.inputs.iter().map(|input| &copies[input]).collect();
        let copy = trace.apply_shared(node.op, &inputs)?;
        copies.insert(id, copy);
    }
    Ok(copies)
}

fn members(graph: &Graph, scope: ScopeId) -> Vec<NodeId> {
    let ids = graph.nodes().map(|(id, _)| id);
    ids.filter(|&id| checkpoint_of(graph, id) == Some(scope)).collect()
}

fn belongs(trace: &Trace, id: NodeId, scope: ScopeId) -> bool {
    checkpoint_of(&trace.graph(), id) == Some(scope)
}
