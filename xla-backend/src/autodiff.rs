//! Reverse-mode differentiation: the reverse walk alone. Gradient rules belong to
//! the operations.

mod rematerialize;

use std::collections::HashMap;

use rematerialize::Rematerialized;

use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::tensor::{Backward, Tensor, Trace};

/// The gradient of the scalar `loss` with respect to each of `wrt`; zeros
/// where the loss does not depend on it.
pub fn gradients(loss: &Tensor, wrt: &[&Tensor]) -> Result<Vec<Tensor>> {
    accumulated_gradients(loss, wrt, &vec![None; wrt.len()])
}

/// The same gradients, added to those of `sums` that are there. Each sum has the shape of its tensor.
pub fn accumulated_gradients(
    loss: &Tensor,
    wrt: &[&Tensor],
    sums: &[Option<Tensor>],
) -> Result<Vec<Tensor>> {
    if loss.rank() != 0 || !loss.dtype().is_float() {
        return Err(Error::NotAScalarLoss { shape: loss.shape().clone() });
    }
    let trace = loss.trace().clone();
    let mut walk = Walk::new(&trace, loss, wrt, sums);
    walk.cotangents[loss.node().index()] = Some(trace.scalar(1.0, loss.dtype())?);
    walk.run(loss.node())?;
    wrt.iter().map(|tensor| walk.gradient_of(tensor)).collect()
}

struct Walk<'a> {
    trace: &'a Trace,
    wrt: Vec<NodeId>,
    /// Whether the value of each node depends on a differentiated tensor.
    depends: Vec<bool>,
    cotangents: Vec<Option<Tensor>>,
    /// The value that the gradient of each differentiated node is added to.
    sums: HashMap<NodeId, Tensor>,
    rematerialized: Rematerialized,
}

impl<'a> Walk<'a> {
    fn new(trace: &'a Trace, loss: &Tensor, wrt: &[&Tensor], sums: &[Option<Tensor>]) -> Walk<'a> {
        let graph = trace.graph();
        let count = loss.node().index() + 1;
        let mut depends = vec![false; count];
        for tensor in wrt.iter().filter(|tensor| tensor.node().index() < count) {
            depends[tensor.node().index()] = true;
        }
        for (id, node) in graph.nodes().take(count) {
            depends[id.index()] |= node.inputs.iter().any(|input| depends[input.index()]);
        }
        let rematerialized = Rematerialized::default();
        let wrt: Vec<NodeId> = wrt.iter().map(|tensor| tensor.node()).collect();
        let sums = wrt.iter().zip(sums).filter_map(|(of, sum)| Some((*of, sum.clone()?))).collect();
        Walk { trace, wrt, depends, cotangents: vec![None; count], sums, rematerialized }
    }

    fn run(&mut self, from: NodeId) -> Result<()> {
        for index in (0..=from.index()).rev() {
            if self.depends[index]
                && let Some(cotangent) = self.cotangents[index].clone()
            {
                let id = NodeId(index as u32);
                self.trace.mark_backward_of(Some(id));
                let visited = self.visit(id, &cotangent);
                self.trace.mark_backward_of(None);
                visited?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, id: NodeId, cotangent: &Tensor) -> Result<()> {
        let node = self.trace.graph().node(id).clone();
        if !node.inputs.iter().any(|input| self.depends[input.index()]) {
            return Ok(());
        }
        let (cotangents, wrt) = (&self.cotangents, &self.wrt);
        let known = || wrt.iter().filter_map(|of| cotangents.get(of.index())?.clone()).collect();
        let (inputs, output) = self.rematerialized.operands(self.trace, id, cotangent, &known)?;
        let recorded = NodeId(self.trace.graph().len() as u32);
        let at = Backward { inputs: &inputs, output: &output, cotangent };
        for (input, gradient) in node.inputs.iter().zip(node.op.gradient(&at)?) {
            if let Some(gradient) = gradient.filter(|_| self.depends[input.index()]) {
                self.accumulate(*input, gradient, recorded)?;
            }
        }
        Ok(())
    }

    /// Adds to the cotangent of a node. `recorded` is the first node of the rule that gives `gradient`: an earlier one
    /// has other readers.
    fn accumulate(&mut self, id: NodeId, gradient: Tensor, recorded: NodeId) -> Result<()> {
        let slot = &mut self.cotangents[id.index()];
        let sum = slot.take().or_else(|| self.sums.get(&id).cloned());
        *slot = Some(match sum {
            Some(sum) if gradient.node() < recorded => sum.add(&gradient)?,
            Some(sum) => sum.accumulated(&gradient)?,
            None => gradient,
        });
        Ok(())
    }

    fn gradient_of(&self, tensor: &Tensor) -> Result<Tensor> {
        let gradient = self.cotangents.get(tensor.node().index()).cloned().flatten();
        match gradient.or_else(|| self.sums.get(&tensor.node()).cloned()) {
            Some(gradient) => Ok(gradient),
            None => self.trace.full(0.0, tensor.shape().clone()),
        }
    }
}
