//! The collectives of a program.

use super::{Needed, needed};
use crate::graph::Participants;
use crate::mesh::{Axis, Mesh};
use crate::stablehlo::Output;
use crate::tensor::Graph;

/// A collective operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// StableHLO's name: `all_reduce`.
    pub operation: &'static str,
    /// Bytes that each core contributes.
    pub operand_bytes: u64,
    /// Bytes that each core gets.
    pub result_bytes: u64,
    /// The cores that exchange values.
    pub participants: Participants,
}

impl Collective {
    /// The first axis of `mesh` along which the cores of a group differ; `None` between hosts.
    pub fn axis(&self, mesh: &Mesh) -> Option<Axis> {
        match self.participants {
            Participants::Hosts(_) => None,
            _ => mesh.axes_between(&self.participants.first()).first().copied(),
        }
    }

    /// The bytes that each core sends if the members of its group form a ring, in which a reduction moves as few as
    /// it can: all but one member's share of the operand, twice.
    pub fn sent_bytes(&self) -> f64 {
        let members = self.participants.group_size() as f64;
        let others = (members - 1.0) / members;
        match self.operation {
            "all_reduce" | "all_reduce_hosts" | "sum_together" => {
                2.0 * others * self.operand_bytes as f64
            }
            "all_gather" | "all_gather_hosts" => others * self.result_bytes as f64,
            "collective_permute" => self.operand_bytes as f64,
            _ => others * self.operand_bytes as f64,
        }
    }
}

/// Returns the collectives in which more than one replica takes part, in the order of the graph.
pub(crate) fn collectives(graph: &Graph, outputs: &[Output]) -> Vec<Collective> {
    let nodes = needed(graph, outputs).into_iter().filter(|it| it.is_needed);
    let collectives = nodes.filter_map(|Needed { node, .. }| {
        let participants = node.op.participants().filter(|it| it.group_size() > 1)?;
        let inputs = node.inputs.iter().map(|&input| graph.node(input).shape.clone());
        let bytes = node.op.exchanged_bytes(&inputs.collect::<Vec<_>>(), &node.shape);
        let [operand_bytes, result_bytes] = bytes.map(|bytes| bytes as u64);
        Some(Collective { operation: node.op.name(), operand_bytes, result_bytes, participants })
    });
    collectives.collect()
}
