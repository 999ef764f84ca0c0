//! The costs of a recorded program, read from its graph before any compiler has seen it: memory of a
//! core, and communication between cores.

mod collectives;
mod kept;
mod memory;
mod profile;
mod sent_bytes;

use crate::stablehlo::Output;
use crate::tensor::{Graph, Node};

pub use collectives::Collective;
pub(crate) use collectives::collectives;
pub(crate) use kept::kept;
pub use memory::MemoryEstimate;
pub(crate) use memory::{Assumptions, memory, profile};
pub use profile::MemoryProfile;
pub use sent_bytes::SentBytes;

/// A node of a graph with some outputs.
#[derive(Clone, Copy)]
struct Needed<'a> {
    node: &'a Node,
    /// Whether outputs depend on it: lowering drops the others.
    is_needed: bool,
}

/// The nodes of `graph`, of which `outputs` may depend on some alone.
fn needed<'a>(graph: &'a Graph, outputs: &[Output]) -> Vec<Needed<'a>> {
    let nodes = graph.nodes().map(|(_, node)| Needed { node, is_needed: false });
    let mut nodes: Vec<Needed<'_>> = nodes.collect();
    for output in outputs {
        nodes[output.node.index()].is_needed = true;
    }
    // In reverse order, so that the readers of a node come before it.
    for index in (0..nodes.len()).rev() {
        let Needed { node, is_needed } = nodes[index];
        if is_needed {
            node.inputs.iter().for_each(|input| nodes[input.index()].is_needed = true);
        }
    }
    nodes
}
