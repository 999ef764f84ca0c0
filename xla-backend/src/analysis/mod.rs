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

/// The nodes of `graph`, each with whether `outputs` depend on it: lowering drops the others.
fn needed<'a>(graph: &'a Graph, outputs: &[Output]) -> Vec<(&'a Node, bool)> {
    let mut nodes: Vec<(&Node, bool)> = graph.nodes().map(|(_, node)| (node, false)).collect();
    for output in outputs {
        nodes[output.node.index()].1 = true;
    }
    // In reverse order, so that the readers of a node come before it.
    for index in (0..nodes.len()).rev() {
        let (node, is_needed) = nodes[index];
        if is_needed {
            node.inputs.iter().for_each(|input| nodes[input.index()].1 = true);
        }
    }
    nodes
}
