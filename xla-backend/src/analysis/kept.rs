//! The values that the first of two programs keeps for the second one.

use super::memory::written;
use super::needed;
use crate::graph::{NodeId, ResultStorage};
use crate::stablehlo::Output;
use crate::tensor::{Graph, Node};

/// The values before `boundary` that what is recorded from there on reads to compute `outputs`, as far as they are in
/// memory of their own: the second program computes again what a compiler would fuse into the operations that read it,
/// and has the arguments of the first.
pub(crate) fn kept(graph: &Graph, boundary: NodeId, outputs: &[Output]) -> Vec<NodeId> {
    let nodes = needed(graph, outputs);
    let written = written(&nodes);
    let mut is_read = vec![false; nodes.len()];
    outputs.iter().for_each(|output| is_read[output.node.index()] = true);
    let mut kept = Vec::new();
    // In reverse order, so that the readers of a node come before it.
    for index in (0..nodes.len()).rev() {
        let node = nodes[index].node;
        let is_first = index < boundary.index() || is_result_of_earlier(node, boundary);
        if is_read[index] && is_first && written[index] {
            kept.push(NodeId(index as u32));
        } else if is_read[index] {
            node.inputs.iter().for_each(|input| is_read[input.index()] = true);
        }
    }
    kept.reverse();
    kept
}

/// Whether a node is a further result of one before `boundary`, for which a gradient rule asks.
fn is_result_of_earlier(node: &Node, boundary: NodeId) -> bool {
    node.op.storage() == ResultStorage::WrittenWithOperand
        && node.inputs.iter().all(|input| *input < boundary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autodiff::gradients;
    use crate::graph::{DType, Shape};
    use crate::tensor::{Tensor, Trace};

    fn matrix(trace: &Trace, name: &str) -> Tensor {
        trace.parameter(name, Shape::new(DType::F32, [4, 4])).unwrap()
    }

    /// The names of the operations whose results are kept for the gradients of `wrt`.
    fn kept_for(states: &Tensor, wrt: &[&Tensor]) -> Vec<&'static str> {
        let trace = states.trace();
        let boundary = NodeId(trace.graph().len() as u32);
        let loss = states.mul(&matrix(trace, "seed")).unwrap().sum(&[0, 1]).unwrap();
        let results = gradients(&loss, wrt).unwrap();
        let outputs: Vec<Output> = results.iter().map(|it| Output::new(it.node())).collect();
        let graph = trace.graph();
        kept(&graph, boundary, &outputs).iter().map(|id| graph.node(*id).op.name()).collect()
    }

    #[test]
    fn operands_of_dots_are_kept_and_elementwise_values_computed_again() {
        let trace = Trace::new();
        let [states, first, second] = ["states", "first", "second"].map(|it| matrix(&trace, it));
        let hidden = states.matmul(&first).unwrap();
        let active = hidden.sin().unwrap();
        let result = active.matmul(&second).unwrap();
        // The gradient of the second matrix reads the activation, of which that of the first computes its own.
        assert_eq!(kept_for(&result, &[&first, &second]), ["dot_general", "sine"]);
        let trace = Trace::new();
        let [states, first] = ["states", "first"].map(|it| matrix(&trace, it));
        let result = states.matmul(&first).unwrap().tanh().unwrap().add_scalar(1.0).unwrap();
        assert_eq!(kept_for(&result, &[&first]), ["dot_general"]);
    }

    #[test]
    fn nothing_is_kept_of_what_no_gradient_reads() {
        let trace = Trace::new();
        let [states, weight] = ["states", "weight"].map(|it| matrix(&trace, it));
        let result = states.matmul(&weight).unwrap();
        // The states are an argument.
        assert_eq!(kept_for(&result, &[&weight]), Vec::<&str>::new());
    }
}
