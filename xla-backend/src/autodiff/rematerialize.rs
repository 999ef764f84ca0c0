//! Rematerialization (activation checkpointing): the backward pass reads the
//! nodes of a checkpointed scope not as the forward pass left them but as a
//! second computation from the scope's inputs. Nothing inside the scope is
//! then needed between the two passes, and its memory is free in the meantime.
//! Of a transient scope it also reads the results so, and nothing but the
//! scope's inputs is needed.
//!
//! The second computation starts behind barriers that wait for the scope's
//! first cotangent, since a compiler would merge it with the first one, and for
//! the gradients of the scopes behind it: a compiler that leaves those to the
//! end keeps all that they are made from.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::iter;

use crate::error::Result;
use crate::graph::{DType, Graph, NodeId, Recompute, ScopeId};
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
    /// `known` gives the gradients asked for, as far as they are known. A scope
    /// inside a checkpointed scope belongs to the outermost one.
    pub(super) fn operands(
        &mut self,
        trace: &Trace,
        id: NodeId,
        cotangent: &Tensor,
        known: &dyn Fn() -> Vec<Tensor>,
    ) -> Result<(Vec<Tensor>, Tensor)> {
        let inputs = trace.graph().node(id).inputs.clone();
        let own = checkpoint_of(&trace.graph(), id);
        let mut read = |id: NodeId| -> Result<Tensor> {
            let scope = own.or_else(|| transient_of(&trace.graph(), id));
            let Some(scope) = scope else { return Ok(trace.tensor(id)) };
            let copies = self.copies(trace, scope, cotangent, known)?;
            Ok(copies.get(&id).cloned().unwrap_or_else(|| trace.tensor(id)))
        };
        Ok((inputs.into_iter().map(&mut read).collect::<Result<_>>()?, read(id)?))
    }

    /// The second computation of a scope, which starts when it is first asked for.
    fn copies(
        &mut self,
        trace: &Trace,
        scope: ScopeId,
        cotangent: &Tensor,
        known: &dyn Fn() -> Vec<Tensor>,
    ) -> Result<&Copies> {
        Ok(match self.scopes.entry(scope) {
            Entry::Occupied(copies) => copies.into_mut(),
            Entry::Vacant(none) => {
                let new = known().into_iter().filter(|it| self.awaited.insert(it.node()));
                let awaited: Vec<Tensor> = iter::once(cotangent.clone()).chain(new).collect();
                none.insert(recompute(trace, scope, &awaited)?)
            }
        })
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
        found = if scope.recompute == Recompute::Nothing { found } else { Some(at) };
        at = scope.parent;
    }
    found
}

/// The transient scope of which a node is a result, or a part.
fn transient_of(graph: &Graph, id: NodeId) -> Option<ScopeId> {
    checkpoint_of(graph, id).filter(|&scope| graph.scope(scope).recompute == Recompute::Results)
}

/// Appends the scope's nodes once more. What the backward pass does not read
/// of them, lowering drops.
fn recompute(trace: &Trace, scope: ScopeId, awaited: &[Tensor]) -> Result<Copies> {
    let never = trace.never(awaited)?;
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
    match value.dtype() {
        _ if is_parameter => Ok(value),
        // Another value that is never true.
        DType::Pred if value.rank() == 0 => value.or(never),
        dtype if dtype.is_float() => value.withheld(never),
        _ => Ok(value),
    }
}

fn members(graph: &Graph, scope: ScopeId) -> Vec<NodeId> {
    let ids = graph.nodes().map(|(id, _)| id);
    ids.filter(|&id| checkpoint_of(graph, id) == Some(scope)).collect()
}

fn belongs(trace: &Trace, id: NodeId, scope: ScopeId) -> bool {
    checkpoint_of(&trace.graph(), id) == Some(scope)
}
