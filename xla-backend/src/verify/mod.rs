//! Well-formedness: run in tests after every pass that writes a graph. [`neuron`] checks programs against the limits of
//! NeuronCores.

pub mod neuron;

use crate::error::{Error, Result};
use crate::graph::{NodeId, Shape};
use crate::ops;
use crate::tensor::{Graph, Node};

/// Checks that every operation is a registered one, that operands come before
/// users, that every recorded shape is the one its shape rule gives, and that
/// parameters are numbered in order.
pub fn verify(graph: &Graph) -> Result<()> {
    for (id, node) in graph.nodes() {
        verify_node(graph, id, node)?;
    }
    for (index, parameter) in graph.parameters().iter().enumerate() {
        let node = graph.node(parameter.node);
        if node.op.parameter_index() != Some(index) {
            return Err(malformed(parameter.node, node, format!("is not parameter {index}")));
        }
    }
    Ok(())
}

fn verify_node(graph: &Graph, id: NodeId, node: &Node) -> Result<()> {
    if !ops::NAMES.contains(&node.op.name()) {
        return Err(malformed(id, node, "is not in the list of operations".to_owned()));
    }
    if let Some(late) = node.inputs.iter().find(|&&input| input >= id) {
        return Err(malformed(id, node, format!("uses {late}, which comes later")));
    }
    let inputs: Vec<Shape> = node.inputs.iter().map(|&i| graph.node(i).shape.clone()).collect();
    match node.op.infer(&inputs) {
        Ok(shape) if shape == node.shape => Ok(()),
        Ok(shape) => {
            Err(malformed(id, node, format!("is recorded as {}, inferred as {shape}", node.shape)))
        }
        Err(problem) => Err(malformed(id, node, problem.0)),
    }
}

fn malformed(id: NodeId, node: &Node, problem: String) -> Error {
    Error::Malformed { node: id.0, op: node.op.name().to_owned(), problem }
}
