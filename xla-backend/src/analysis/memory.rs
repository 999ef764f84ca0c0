//! The memory of a program on one core, by how long each value is alive.
//!
//! A compiler fuses elementwise operations into their users, so their results take no memory and keep
//! their inputs alive instead. The inputs of a dot are always in memory, since nothing is fused into a
//! dot, nor into a kernel. A value that replaces an argument takes over the argument's memory.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::profile::{MemoryProfile, Site};
use super::{Needed, needed};
use crate::graph::{DType, NodeId, ResultStorage, Shape};
use crate::kernels::Kernels;
use crate::stablehlo::Output;
use crate::tensor::{Graph, Node};

/// Estimated bytes on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// All arguments: variables and inputs of the step.
    pub arguments: u64,
    /// Results that replace no argument.
    pub outputs: u64,
    /// The most bytes of intermediate values that are alive at once.
    pub temporaries: u64,
}

/// The treatment of intermediate values by a platform's compiler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumptions {
    /// The size of a value in half precision.
    pub half_bytes: usize,
    /// The kernels that programs may call.
    pub kernels: Kernels,
}

pub(crate) fn memory(
    graph: &Graph,
    outputs: &[Output],
    assumptions: Assumptions,
) -> MemoryEstimate {
    let bytes = |node: &Node| node.shape.size_bytes() as u64;
    let arguments = graph.parameters().iter().map(|parameter| graph.node(parameter.node));
    let new = outputs.iter().filter(|output| output.aliases_parameter.is_none());
    MemoryEstimate {
        arguments: arguments.map(bytes).sum(),
        outputs: new.map(|output| bytes(graph.node(output.node))).sum(),
        temporaries: Values::of(graph, outputs, assumptions).peak(),
    }
}

/// The bytes besides arguments at each operation of a program.
pub(crate) fn profile(
    graph: &Graph,
    outputs: &[Output],
    assumptions: Assumptions,
) -> MemoryProfile {
    let new = outputs.iter().filter(|output| output.aliases_parameter.is_none());
    let results: u64 = new.map(|output| graph.node(output.node).shape.size_bytes() as u64).sum();
    let values = Values::of(graph, outputs, assumptions);
    let sites = values.alive().into_iter();
    let site = |(index, alive)| Site { operation: values.operation(index), alive: results + alive };
    MemoryProfile::new(sites.map(site).collect())
}

/// The values of a program, by node.
struct Values<'a> {
    nodes: Vec<Needed<'a>>,
    /// Whether a value is written to memory of its own.
    written: Vec<bool>,
    /// The operand whose memory a value takes over.
    replaced: Vec<Option<usize>>,
    /// The index after which a value can be computed.
    ready: Vec<usize>,
    /// Values in the memory of arguments and results.
    elsewhere: HashSet<usize>,
    assumptions: Assumptions,
}

impl<'a> Values<'a> {
    fn of(graph: &'a Graph, outputs: &[Output], assumptions: Assumptions) -> Values<'a> {
        let nodes = needed(graph, outputs);
        let written = written(&nodes);
        let early = early(graph, &nodes);
        let ready = ready(&nodes, &written, &early);
        let replaced = replaced(&nodes, &written);
        let results =
            outputs.iter().map(|output| memory_of(&nodes, &replaced, output.node.index()));
        Values { elsewhere: results.collect(), ready, written, replaced, assumptions, nodes }
    }

    /// The most bytes alive at once.
    fn peak(&self) -> u64 {
        self.alive().into_iter().map(|(_, bytes)| bytes).max().unwrap_or(0)
    }

    /// The nodes in the order in which they run, each with the bytes that are alive meanwhile.
    fn alive(&self) -> Vec<(usize, u64)> {
        let order = self.order();
        let ends = self.ends(&order);
        let mut freed: Vec<u64> = vec![0; self.nodes.len()];
        let (mut alive, mut found) = (0_u64, Vec::with_capacity(order.len()));
        for (position, &index) in order.iter().enumerate() {
            for (bytes, end) in self.allocated(index, &ends) {
                alive += bytes;
                freed[end.max(position)] += bytes;
            }
            found.push((index, alive + self.workspace(index)));
            alive -= freed[position];
        }
        found
    }

    /// A hash that nodes share which do the same: of operation, shape, and the operations that compute the inputs.
    fn operation(&self, index: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        let node = self.nodes[index].node;
        let inputs = node.inputs.iter().map(|it| self.nodes[it.index()].node);
        for node in std::iter::once(node).chain(inputs) {
            (node.op.name(), &node.shape).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The bytes that a node allocates, each with the position of its last reader.
    fn allocated(&self, index: usize, ends: &[usize]) -> impl Iterator<Item = (u64, usize)> {
        let node = self.nodes[index].node;
        let bytes = self.bytes(&node.shape);
        let is_new = self.written[index] && self.replaced[index].is_none();
        let is_value = is_new && !self.elsewhere.contains(&index);
        // Its gradient reads the operand when it reads the intermediate value.
        let kept = node.inputs.first().filter(|_| self.keeps_intermediate(node));
        let kept = kept.map(|operand| (bytes, ends[operand.index()]));
        is_value.then(|| (bytes, ends[index])).into_iter().chain(kept)
    }

    fn keeps_intermediate(&self, node: &Node) -> bool {
        node.op.keeps_intermediate(&self.operands(node), self.assumptions.kernels)
    }

    /// The bytes that a node takes only while it runs.
    fn workspace(&self, index: usize) -> u64 {
        let node = self.nodes[index].node;
        node.op.workspace(&self.operands(node), self.assumptions.kernels) as u64
    }

    /// The shapes of a node's operands.
    fn operands(&self, node: &Node) -> Vec<Shape> {
        let shape = |input: &NodeId| self.nodes[input.index()].node.shape.clone();
        node.inputs.iter().map(shape).collect()
    }

    fn bytes(&self, shape: &Shape) -> u64 {
        let per_element = match shape.dtype {
            DType::BF16 | DType::F16 => self.assumptions.half_bytes,
            other => other.size_bytes(),
        };
        (shape.element_count() * per_element) as u64
    }

    /// The needed nodes in the order in which they run: that of the graph, but for those of [`early`].
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> =
            (0..self.nodes.len()).filter(|&index| self.nodes[index].is_needed).collect();
        order.sort_by_key(|&index| (self.ready[index], index));
        order
    }

    /// The position in `order` of the last reader of each node, through nodes that are fused into
    /// their readers.
    fn ends(&self, order: &[usize]) -> Vec<usize> {
        let mut ends = vec![0; self.nodes.len()];
        for (position, &index) in order.iter().enumerate().rev() {
            let at = if self.written[index] { position } else { ends[index].max(position) };
            for input in &self.nodes[index].node.inputs {
                let end = &mut ends[input.index()];
                *end = (*end).max(at);
            }
            if let Some(operand) = self.replaced[index] {
                ends[operand] = ends[operand].max(ends[index]);
            }
        }
        ends
    }
}

/// Returns by index which results are in memory of their own.
pub(super) fn written(nodes: &[Needed<'_>]) -> Vec<bool> {
    let mut written: Vec<bool> = nodes.iter().map(|it| is_written(it.node.op.storage())).collect();
    for reader in nodes.iter().filter(|it| it.is_needed && it.node.op.reads_memory()) {
        for input in &reader.node.inputs {
            let read = behind_views(nodes, input.index());
            // Arguments are in memory already.
            written[read] |= !nodes[read].node.inputs.is_empty();
        }
    }
    written
}

fn is_written(storage: ResultStorage) -> bool {
    use ResultStorage::{InPlace, Written, WrittenWithOperand};
    matches!(storage, Written | InPlace | WrittenWithOperand)
}

/// Returns by index which nodes run as soon as their inputs exist: those that free memory, and the results
/// of transient scopes, which other cores send ahead of their readers.
fn early(graph: &Graph, nodes: &[Needed<'_>]) -> Vec<bool> {
    let frees = |node: &Node| {
        node.op.storage() == ResultStorage::WrittenWithOperand || shrinks(nodes, node)
    };
    graph.nodes().map(|(id, node)| frees(node) || graph.is_transient(id)).collect()
}

/// Returns by index the node after which each one runs: itself, or the last of its inputs.
fn ready(nodes: &[Needed<'_>], written: &[bool], early: &[bool]) -> Vec<usize> {
    let mut ready: Vec<usize> = Vec::with_capacity(nodes.len());
    for (index, Needed { node, .. }) in nodes.iter().enumerate() {
        let inputs = node.inputs.iter().map(|input| ready[input.index()]).max();
        ready.push(match written[index] && !early[index] {
            true => index,
            false => inputs.unwrap_or(0),
        });
    }
    ready
}

/// Whether a node is a collective whose result takes no more memory than its operand.
fn shrinks(nodes: &[Needed<'_>], node: &Node) -> bool {
    let fits = |input: usize| node.shape.size_bytes() <= nodes[input].node.shape.size_bytes();
    node.op.participants().is_some() && node.inputs.iter().all(|input| fits(input.index()))
}

/// Returns by index the operand whose memory a value takes over, if that has any.
fn replaced(nodes: &[Needed<'_>], written: &[bool]) -> Vec<Option<usize>> {
    let in_memory =
        |index: &usize| written[*index] || nodes[*index].node.op.parameter_index().is_some();
    let operand = |Needed { node, .. }: &Needed<'_>| match node.op.storage() {
        ResultStorage::InPlace => {
            Some(behind_views(nodes, node.inputs[0].index())).filter(in_memory)
        }
        _ => None,
    };
    nodes.iter().map(operand).collect()
}

/// The node whose memory a value is in.
fn memory_of(nodes: &[Needed<'_>], replaced: &[Option<usize>], index: usize) -> usize {
    let index = behind_views(nodes, index);
    replaced[index].map_or(index, |operand| memory_of(nodes, replaced, operand))
}

/// The node whose bytes a view shows.
fn behind_views(nodes: &[Needed<'_>], mut index: usize) -> usize {
    while nodes[index].node.op.storage() == ResultStorage::View {
        index = nodes[index].node.inputs[0].index();
    }
    index
}
