//! Rematerialization (activation checkpointing): the backward pass reads the
//! nodes of a checkpointed scope not as the forward pass left them but as a
//! second computation from the scope's inputs. Nothing inside the scope is
//! then needed between the two passes, and its memory is free in the meantime.
//!
//! The second computation starts behind barriers that wait for the scope's
//! first cotangent, since a compiler would merge it with the first one, and for
//! the gradients of the scopes behind it: a compiler that leaves those to the
//! end keeps all that they are made from.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::iter;

use crate::error::Result;
use crate::graph::{DType, Graph, NodeId, ScopeId};
use crate::tensor::{Tensor, Trace};

/// Each node of a scope, and each of its inputs, as the backward pass reads it.
type Copies = HashMap<NodeId, Tensor>;

#[derive(Default)]
pub(super) struct Rematerialized {
    scopes: HashMap<ScopeId, Copies>,
    /// Gradients that a second computation waited for.
    awaited: HashSet<NodeId>,
}

impl Rematerialized {
    /// The inputs and the result of node `id` for its gradient rule, where
    /// `results` are the gradients asked for, as far as they are known. A scope
    /// inside a checkpointed scope belongs to the outermost one.
    pub(super) fn operands(
        &mut self,
        trace: &Trace,
        id: NodeId,
        cotangent: &Tensor,
        results: impl Iterator<Item = Tensor>,
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
            Entry::Vacant(none) => {
                let new = results.filter(|result| self.awaited.insert(result.node()));
                let awaited: Vec<Tensor> = iter::once(cotangent.clone()).chain(new).collect();
                none.insert(recompute(trace, scope, &awaited)?)
            }
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
fn recompute(trace: &Trace, scope: ScopeId, awaited: &[Tensor]) -> Result<Copies> {
    let never = never(awaited)?;
    let mut copies = Copies::new();
    let members = members(&trace.graph(), scope);
    for id in members {
        let node = trace.graph().node(id).clone();
        for &input in node.inputs.iter().filter(|&&input| !belongs(trace, input, scope)) {
            if let Entry::Vacant(none) = copies.entry(input) {
                none.insert(later(trace, input, &never)?);
            }
        }
        let inputs: Vec<&Tensor> = node.inputs.iter().map(|input| &copies[input]).collect();
        let copy = trace.apply_shared(node.op, &inputs)?;
        copies.insert(id, copy);
    }
    Ok(copies)
}

/// An input of the scope as the second computation reads it. Some compilers
/// drop barriers before they merge what is equal, but none looks through a choice.
fn later(trace: &Trace, input: NodeId, never: &Tensor) -> Result<Tensor> {
    let value = trace.tensor(input).after(&[never])?;
    let is_parameter = trace.graph().node(input).op.parameter_index().is_some();
    if is_parameter || !value.dtype().is_float() {
        return Ok(value);
    }
    never.select(&trace.scalar(0.0, value.dtype())?, &value)
}

/// False, which a compiler learns no sooner than all of `awaited` are there:
/// no number is both above and below zero.
fn never(awaited: &[Tensor]) -> Result<Tensor> {
    let mut sum = first_element(&awaited[0])?;
    for tensor in &awaited[1..] {
        sum = sum.add(&first_element(tensor)?)?;
    }
    sum.gt_scalar(0.0)?.and(&sum.lt_scalar(0.0)?)
}

fn first_element(tensor: &Tensor) -> Result<Tensor> {
    let mut first = tensor.clone();
    for axis in 0..tensor.rank() {
        first = first.slice(axis, 0, 1)?;
    }
    first.reshape(&[])?.convert(DType::F32)
}

fn members(graph: &Graph, scope: ScopeId) -> Vec<NodeId> {
    let ids = graph.nodes().map(|(id, _)| id);
    ids.filter(|&id| checkpoint_of(graph, id) == Some(scope)).collect()
}

fn belongs(trace: &Trace, id: NodeId, scope: ScopeId) -> bool {
    checkpoint_of(&trace.graph(), id) == Some(scope)
}
