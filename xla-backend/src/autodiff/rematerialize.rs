//! Rematerialization (activation checkpointing): the backward pass reads the
//! nodes of a checkpointed scope not as the forward pass left them but as a
//! second computation from the scope's inputs. Nothing inside the scope is
//! then needed between the two passes, and its memory is free in the meantime.
//! It reads the results of a transient scope so, too, and nothing but the
//! scope's inputs is needed.
//!
//! The second computation starts behind barriers that wait for the scope's
//! first cotangent, since a compiler would merge it with the first one, and for
//! the gradients of the scopes behind it: a compiler that leaves those to the
//! end keeps all that they are made from.
//!
//! Transient scopes are for values that other cores send. They start one layer
//! ahead, where the second computation of the layer behind theirs starts, so that
//! the backward pass of that layer runs while the values arrive.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::iter;

use crate::error::Result;
use crate::graph::{DType, NodeId, Recompute, Scope, ScopeId};
use crate::tensor::{Graph, Tensor, Trace};

/// Each node of a scope, and each of its inputs, as the backward pass reads it.
type Copies = HashMap<NodeId, Tensor>;

#[derive(Default)]
pub(super) struct Rematerialized {
    scopes: HashMap<ScopeId, Copies>,
    /// The starts of layers.
    starts: HashMap<ScopeId, Start>,
    /// The values that the last layer waited for.
    latest: Vec<Tensor>,
    /// And the results of its transient scopes. A compiler that joins what other cores send would wait for two
    /// layers at once, if nothing put the next layer behind these.
    arrived: Vec<Tensor>,
    /// Gradients that a second computation waited for.
    awaited: HashSet<NodeId>,
}

/// The values that the second computations of a layer wait for: those of [`Trace::never`].
#[derive(Clone)]
struct Start {
    /// Known where the backward pass reaches the layer.
    never: Tensor,
    /// Known where it reached the layer behind this one, whose transient scopes have arrived. Those of this
    /// layer wait for it.
    ahead: Tensor,
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

    /// The second computation of a scope, which is recorded when it is first asked for.
    fn copies(
        &mut self,
        trace: &Trace,
        scope: ScopeId,
        cotangent: &Tensor,
        known: &dyn Fn() -> Vec<Tensor>,
    ) -> Result<&Copies> {
        if !self.scopes.contains_key(&scope) {
            let layer = layer_of(&trace.graph(), scope);
            let start = self.start(trace, layer, cotangent, known)?;
            let copies = recompute(trace, scope, &start)?;
            let results = results(&trace.graph(), scope);
            // The backward pass reads no vectors, which are biases.
            let results = results.iter().map(|id| &copies[id]).filter(|it| it.rank() > 1);
            self.arrived.extend(results.cloned());
            self.scopes.insert(scope, copies);
        }
        Ok(&self.scopes[&scope])
    }

    /// The start of a layer, which is there when one of its scopes is first asked for.
    fn start(
        &mut self,
        trace: &Trace,
        layer: ScopeId,
        cotangent: &Tensor,
        known: &dyn Fn() -> Vec<Tensor>,
    ) -> Result<Start> {
        if let Some(start) = self.starts.get(&layer) {
            return Ok(start.clone());
        }
        let new = known().into_iter().filter(|it| self.awaited.insert(it.node()));
        let awaited: Vec<Tensor> = iter::once(cotangent.clone()).chain(new).collect();
        let never = trace.never(&awaited)?;
        let latest = std::mem::replace(&mut self.latest, awaited);
        let arrived = std::mem::take(&mut self.arrived);
        let ahead = match latest.is_empty() {
            true => never.clone(),
            false => trace.never(&[latest, arrived].concat())?,
        };
        let start = Start { never, ahead };
        self.starts.insert(layer, start.clone());
        Ok(start)
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

/// The scope that a checkpointed or transient scope shares with those that its layer computes again
/// together with it.
fn layer_of(graph: &Graph, scope: ScopeId) -> ScopeId {
    let Scope { parent, recompute, .. } = graph.scope(scope);
    let is_part = *recompute == Recompute::Results && *parent != ScopeId::default();
    if is_part { *parent } else { scope }
}

/// Appends the scope's nodes once more. What the backward pass does not read
/// of them, lowering drops.
fn recompute(trace: &Trace, scope: ScopeId, start: &Start) -> Result<Copies> {
    // Those that transient scopes read are there earlier.
    let (mut copies, mut ahead) = (Copies::new(), Copies::new());
    let members = members(&trace.graph(), scope);
    for id in members {
        let (node, is_transient) = {
            let graph = trace.graph();
            (graph.node(id).clone(), graph.is_transient(id))
        };
        // A choice reads nothing of the first computation, which may run in another program.
        let choice = (node.op.name() == "withhold").then(|| node.inputs[1]);
        let mut read = |input: NodeId| -> Result<Tensor> {
            if choice == Some(input) && !belongs(trace, input, scope) {
                return Ok(if is_transient { start.ahead.clone() } else { start.never.clone() });
            }
            let (known, never) = match is_transient && !belongs(trace, input, scope) {
                true => (&mut ahead, &start.ahead),
                false => (&mut copies, &start.never),
            };
            Ok(match known.entry(input) {
                Entry::Occupied(copy) => copy.get().clone(),
                Entry::Vacant(none) => none.insert(later(trace, input, never)?).clone(),
            })
        };
        let inputs = node.inputs.iter().map(|&input| read(input)).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let copy = || trace.apply_shared(node.op, &inputs);
        copies.insert(id, if is_transient { trace.transient("again", copy) } else { copy() }?);
    }
    for (input, copy) in ahead {
        copies.entry(input).or_insert(copy);
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

/// The last node of each transient scope in a scope.
fn results(graph: &Graph, scope: ScopeId) -> Vec<NodeId> {
    let mut results: HashMap<ScopeId, NodeId> = HashMap::new();
    for id in members(graph, scope).into_iter().filter(|id| graph.is_transient(*id)) {
        results.insert(graph.node(id).scope, id);
    }
    let mut results: Vec<NodeId> = results.into_values().collect();
    results.sort_unstable();
    results
}

fn members(graph: &Graph, scope: ScopeId) -> Vec<NodeId> {
    let ids = graph.nodes().map(|(id, _)| id);
    ids.filter(|&id| checkpoint_of(graph, id) == Some(scope)).collect()
}

fn belongs(trace: &Trace, id: NodeId, scope: ScopeId) -> bool {
    checkpoint_of(&trace.graph(), id) == Some(scope)
}
