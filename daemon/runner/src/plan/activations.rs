//! The memory for the activations of a step, from its trace: forward and backward pass are recorded as
//! in training, and the peak of the bytes alive at once is returned.
//!
//! A compiler fuses elementwise operations into their users, so their results take no memory and keep
//! their inputs alive instead. The inputs of a dot are always in memory, since nothing is fused into a
//! dot, nor into a kernel.

use std::collections::HashSet;

use traind_loader::{BatchAxis, BatchSizes};
use traind_models::{Batch, Forward, Model, ParameterTensors};
use traind_xla::autodiff::gradients;
use traind_xla::graph::{Graph, Node, NodeId};
use traind_xla::ops::ResultStorage;
use traind_xla::ops::random::Random;
use traind_xla::{DType, Shape, Tensor, Trace};

use crate::step::input_shape;

pub(crate) fn bytes(
    model: &dyn Model,
    rows: usize,
    positions: usize,
    gradient_checkpointing: bool,
    bf16: bool,
    kernels: bool,
) -> anyhow::Result<u64> {
    let trace = Trace::with_kernels(kernels);
    let specs = model.parameters();
    let tensors: Vec<Tensor> = specs
        .iter()
        .map(|spec| trace.parameter(&spec.name, spec.shape.clone()))
        .collect::<Result<_, _>>()?;
    let dtype = if bf16 { DType::BF16 } else { DType::F32 };
    let named = specs.iter().map(|spec| &spec.name).zip(tensors.iter().cloned());
    let parameters = ParameterTensors::new(named).computed_in(dtype);
    let number = |name: &str| trace.parameter(name, Shape::scalar(DType::U32));
    let random = Random::new(&number("seed")?, &number("step")?, &number("row_offset")?)?;
    let random = random.with_rows(rows);
    let forward = Forward {
        trace: &trace,
        parameters: &parameters,
        random: Some(&random),
        gradient_checkpointing,
    };
    let output = model.forward(&forward, &batch(&trace, model, rows, positions)?)?;
    let loss = output.loss.ok_or_else(|| anyhow::anyhow!("the model has no loss"))?;
    let trained = specs.iter().zip(&tensors).filter(|(spec, _)| spec.trainable);
    let wrt: Vec<&Tensor> = trained.map(|(_, tensor)| tensor).collect();
    let gradients = gradients(&loss.loss_sum, &wrt)?;
    let results: HashSet<NodeId> = gradients.iter().map(Tensor::node).collect();
    Ok(peak(&trace.graph(), &results))
}

fn batch(trace: &Trace, model: &dyn Model, rows: usize, positions: usize) -> anyhow::Result<Batch> {
    let sizes = BatchSizes::of_rows(rows).with(BatchAxis::Positions, positions as u32);
    let mut batch = Batch::new();
    for spec in model.inputs() {
        batch.insert(spec.name, trace.parameter(spec.name, input_shape(&spec, &sizes))?);
    }
    Ok(batch)
}

/// Returns the peak of the bytes alive at once, in the order of the trace, without `results`.
fn peak(graph: &Graph, results: &HashSet<NodeId>) -> u64 {
    let nodes: Vec<(NodeId, &Node)> = graph.nodes().collect();
    let written = written(&nodes);
    let last_use = last_uses(&nodes, &written);
    let mut ends: Vec<u64> = vec![0; nodes.len()];
    let (mut alive, mut most) = (0_u64, 0);
    for (index, (id, node)) in nodes.iter().enumerate() {
        if written[index] && !results.contains(id) {
            let bytes = node.shape.size_bytes() as u64;
            alive += bytes;
            most = most.max(alive);
            ends[last_use[index].max(index)] += bytes;
        }
        alive -= ends[index];
    }
    most
}

/// Returns by index which results are in memory.
fn written(nodes: &[(NodeId, &Node)]) -> Vec<bool> {
    let mut written: Vec<bool> =
        nodes.iter().map(|(_, node)| node.op.storage() == ResultStorage::Written).collect();
    for (_, reader) in nodes.iter().filter(|(_, node)| node.op.reads_memory()) {
        for input in &reader.inputs {
            let read = behind_views(nodes, input.index());
            // Parameters are counted elsewhere.
            written[read] |= !nodes[read].1.inputs.is_empty();
        }
    }
    written
}

/// The node whose bytes a view shows.
fn behind_views(nodes: &[(NodeId, &Node)], mut index: usize) -> usize {
    while nodes[index].1.op.storage() == ResultStorage::View {
        index = nodes[index].1.inputs[0].index();
    }
    index
}

/// Returns the last reader of each node, through nodes that are fused into their readers.
fn last_uses(nodes: &[(NodeId, &Node)], written: &[bool]) -> Vec<usize> {
    let mut last_use = vec![0; nodes.len()];
    // In reverse order, so that the readers of a node come before it.
    for (index, (_, node)) in nodes.iter().enumerate().rev() {
        let at = if written[index] { index } else { last_use[index].max(index) };
        for input in &node.inputs {
            let slot = &mut last_use[input.index()];
            *slot = (*slot).max(at);
        }
    }
    last_use
}
