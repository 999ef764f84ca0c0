//! Activations of a step, from its own trace: forward and backward pass are recorded as in
//! training, and the most bytes that are alive at once are counted.
//!
//! A compiler fuses element by element arithmetic into what uses it, so such values keep
//! alive what they were made from and take no memory themselves.

use std::collections::HashSet;

use traind_models::{Batch, Forward, InputDim, Model, Weights};
use traind_xla::autodiff::gradients;
use traind_xla::graph::{Graph, NodeId};
use traind_xla::ops::random::Random;
use traind_xla::{DType, Shape, Tensor, Trace};

/// Operations whose results are written to memory.
const WRITTEN: &[&str] = &[
    "concatenate",
    "cross_entropy",
    "dot_general",
    "log_softmax",
    "logsumexp",
    "pad",
    "rms_standardize",
    "scatter_add",
    "softmax",
    "standardize",
    "take",
];
const REDUCTIONS: &str = "reduce_";

pub(crate) fn bytes(
    model: &dyn Model,
    rows: usize,
    positions: usize,
    gradient_checkpointing: bool,
    bf16: bool,
) -> anyhow::Result<u64> {
    let trace = Trace::new();
    let parameters: Vec<Tensor> = model
        .parameters()
        .iter()
        .map(|spec| trace.parameter(&spec.name, spec.shape.clone()))
        .collect::<Result<_, _>>()?;
    let weights = Weights::new(model.parameters(), parameters.iter().cloned());
    let weights = if bf16 { weights.computed_in(DType::BF16) } else { weights };
    let number = |name: &str| trace.parameter(name, Shape::scalar(DType::U32));
    let random = Random::new(&number("seed")?, &number("step")?, &number("row_offset")?)?;
    let random = random.with_rows(rows);
    let forward =
        Forward { trace: &trace, weights: &weights, random: Some(&random), gradient_checkpointing };
    let output = model.forward(&forward, &batch(&trace, model, rows, positions)?)?;
    let loss = output.loss.ok_or_else(|| anyhow::anyhow!("the model has no loss"))?;
    let wrt: Vec<&Tensor> = parameters.iter().collect();
    let gradients = gradients(&loss.loss_sum, &wrt)?;
    let results: HashSet<NodeId> = gradients.iter().map(Tensor::node).collect();
    Ok(peak(&trace.graph(), &results))
}

fn batch(trace: &Trace, model: &dyn Model, rows: usize, positions: usize) -> anyhow::Result<Batch> {
    let size = |dim: &InputDim| match dim {
        InputDim::Rows => rows,
        InputDim::Positions => positions,
        InputDim::Size(size) => *size,
    };
    let mut batch = Batch::new();
    for spec in model.inputs() {
        let shape = Shape::new(spec.dtype, spec.dims.iter().map(size).collect::<Vec<_>>());
        batch.insert(spec.name, trace.parameter(spec.name, shape)?);
    }
    Ok(batch)
}

/// The most bytes alive at once, in the order of the trace. `results` are counted elsewhere.
fn peak(graph: &Graph, results: &HashSet<NodeId>) -> u64 {
    let last_use = last_uses(graph);
    let mut ends: Vec<Vec<usize>> = vec![Vec::new(); graph.len() + 1];
    let (mut alive, mut most) = (0_u64, 0);
    for (id, node) in graph.nodes() {
        let index = id.index();
        if is_written(node.op.name()) && !results.contains(&id) {
            alive += node.shape.size_bytes() as u64;
            most = most.max(alive);
            ends[last_use[index].max(index)].push(index);
        }
        for ended in std::mem::take(&mut ends[index]) {
            alive -= graph.nodes().nth(ended).map_or(0, |(_, node)| node.shape.size_bytes() as u64);
        }
    }
    most
}

/// Where each node is read last, through nodes that are fused into their readers.
fn last_uses(graph: &Graph) -> Vec<usize> {
    let mut last_use = vec![0; graph.len()];
    let nodes: Vec<_> = graph.nodes().collect();
    // Backward: by the time a node is met, all its readers were.
    for (id, node) in nodes.into_iter().rev() {
        let at = if is_written(node.op.name()) {
            id.index()
        } else {
            last_use[id.index()].max(id.index())
        };
        for input in &node.inputs {
            let slot = &mut last_use[input.index()];
            *slot = (*slot).max(at);
        }
    }
    last_use
}

fn is_written(op: &str) -> bool {
    op.starts_with(REDUCTIONS) || WRITTEN.contains(&op)
}
