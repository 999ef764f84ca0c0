//! Models whose parameters cores store in shards: loss and gradients are those of one core, and no
//! more than two layers' parameters are whole at a time.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, json};
use traind_models::parameter_shards::ParameterShards;
use traind_models::{
    Batch, Forward, Model, ModelConfig, ParameterTensors, Sharding, Task, TensorCores, registry,
};
use traind_xla::graph::NodeId;
use traind_xla::kernels::Kernels;
use traind_xla::mesh::{Axis, Mesh, Placement};
use traind_xla::ops::ShardGroups;
use traind_xla::runtime::HostArray;
use traind_xla::tensor::Graph;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use crate::fixture::{Fixture, folder_of, shard_shape};
use crate::support::Program;

/// Folders of `fixtures/`, tasks, the cores along `data` and `tensor`, and whether activations are
/// recomputed. Three cores do not divide every parameter.
#[rustfmt::skip]
const SHARDED: &[(&str, Task, usize, usize, bool)] = &[
    ("bert-sequence-classification", Task::SequenceClassification, 2, 1, false),
    ("gpt2-causal-lm", Task::CausalLm, 3, 1, true),
    ("deberta-v2-masked-lm", Task::MaskedLm, 2, 2, true),
    ("mpnet-masked-lm", Task::MaskedLm, 2, 1, true),
    ("electra-replaced-token-detection", Task::ReplacedTokenDetection, 2, 2, true),
    ("albert-grouped-masked-lm", Task::MaskedLm, 2, 2, false),
    ("modernbert-masked-lm", Task::MaskedLm, 2, 2, false),
    ("eurobert-masked-lm", Task::MaskedLm, 2, 2, true),
    ("jina-embeddings-v3-masked-lm", Task::MaskedLm, 2, 2, true),
    ("llama-causal-lm", Task::CausalLm, 2, 2, true),
    ("t5-seq2seq-lm", Task::Seq2SeqLm, 3, 1, false),
    ("deit-image-classification", Task::ImageClassification, 2, 1, false),
];

/// The shards of an array, as bytes with zeros behind the last.
fn split(array: &HostArray, shards: usize) -> Vec<HostArray> {
    let shape = shard_shape(array.shape(), shards);
    if shape == *array.shape() {
        return vec![array.clone(); shards];
    }
    let mut bytes = array.bytes().to_vec();
    bytes.resize(shards * shape.size_bytes(), 0);
    let parts = bytes.chunks(shape.size_bytes());
    parts.map(|part| HostArray::from_bytes(shape.clone(), part.to_vec()).unwrap()).collect()
}

/// The arguments of each core of the mesh: its place, `shared`, and its shards of the weights.
fn arguments(fixture: &Fixture, mesh: &Mesh) -> Vec<Vec<HostArray>> {
    let specs = fixture.model.parameters();
    let of_core = |core: usize| {
        let at = mesh.coordinates(core);
        let place = HostArray::from_u32(&[], &[at.tensor as u32]).unwrap();
        let stored = specs.iter().zip(&fixture.weights).map(|(spec, array)| {
            let sharding = Sharding::of(spec, mesh.size(Axis::Tensor)).unwrap();
            let part = sharding.part(array, at.tensor).unwrap();
            split(&part, mesh.data_shards()).swap_remove(at.data)
        });
        let inputs = fixture.inputs.iter().map(|(_, array)| array.clone());
        std::iter::once(place).chain(inputs).chain(stored).collect()
    };
    (0..mesh.replica_count()).map(of_core).collect()
}

/// The whole gradient of a parameter from those of each core, all of which saw the same rows.
fn joined(sharding: &Sharding, mesh: &Mesh, of_cores: &[&HostArray]) -> HostArray {
    let shards = mesh.data_shards();
    let part = |tensor: usize| {
        let held = sharding.held_shape();
        let is_shard = shard_shape(&held, shards) != held;
        let of_data = (0..if is_shard { shards } else { 1 }).flat_map(|data| {
            let at = traind_xla::mesh::Coordinates { data, tensor, ..Default::default() };
            of_cores[mesh.replica(at)].to_f32().unwrap()
        });
        // A shard's gradient is a sum over the cores.
        let copies = if is_shard { shards as f32 } else { 1.0 };
        let values: Vec<f32> = of_data.take(held.element_count()).map(|it| it / copies).collect();
        HostArray::from_f32(&held.dims, &values).unwrap()
    };
    sharding.join((0..sharding.parts()).map(part).collect()).unwrap()
}

#[test]
fn gathered_parameters_compute_what_transformers_computes() {
    for &(folder, task, data, tensor, checkpointing) in SHARDED {
        println!("{folder} on {data} x {tensor}");
        let fixture = Fixture::load(&folder_of(folder), task);
        let mesh = Mesh::new(data, tensor, 1, Placement::Cluster).unwrap();
        let trace = Trace::with_kernels(Kernels::Own);
        let index = trace.parameter("tensor_index", Shape::scalar(DType::U32)).unwrap();
        let (cores, groups) = (TensorCores::of(&mesh, &index), mesh.groups(&[Axis::Data]));
        let traced = fixture.trace_shared(&trace, checkpointing, DType::F32, cores, &groups);
        let outputs: Vec<&Tensor> =
            std::iter::once(&traced.loss).chain(&traced.gradients).collect();
        let program = Program::compile_for(&trace, &outputs, mesh.replica_count());
        let results = program.run_replicas(&arguments(&fixture, &mesh));
        let specs = fixture.model.parameters().iter().enumerate();
        let gradients: Vec<HostArray> = specs
            .map(|(index, spec)| {
                let of_cores: Vec<&HostArray> = results.iter().map(|it| &it[1 + index]).collect();
                joined(&Sharding::of(spec, tensor).unwrap(), &mesh, &of_cores)
            })
            .collect();
        for core in &results {
            fixture.check_loss_and_gradients(&core[0], &gradients);
        }
    }
}

/// A GPT-2 whose layers have far more parameters than activations.
fn gpt2(layers: usize) -> Model {
    let keys: Map<_, _> = json!({
        "model_type": "gpt2", "vocab_size": 32, "n_positions": 8, "n_embd": 128, "n_layer": layers,
        "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    })
    .as_object()
    .unwrap()
    .clone();
    registry::build(ModelConfig::new("config.json", keys), Task::CausalLm).unwrap()
}

const LAYER_BYTES: u64 = 4 * 12 * 128 * 128;

/// Loss and gradients of a GPT-2 whose parameters two cores store in shards; the loss comes first.
fn trace_gpt2(trace: &Trace, layers: usize, gradient_checkpointing: bool) -> Vec<Tensor> {
    let model = gpt2(layers);
    let mut batch = Batch::new();
    let ids = trace.parameter("ids", Shape::new(DType::S32, [1, 8])).unwrap();
    batch.insert("labels", ids.clone());
    batch.insert("attention_mask", trace.full(1.0, Shape::new(DType::S32, [1, 8])).unwrap());
    batch.insert("input_ids", ids);
    let specs = model.parameters();
    let stored = |shape: &Shape| shard_shape(shape, 2);
    let parameters: Vec<Tensor> = specs
        .iter()
        .map(|spec| trace.parameter(&spec.name, stored(&spec.shape)).unwrap())
        .collect();
    let in_shards = specs.iter().filter(|spec| stored(&spec.shape) != spec.shape);
    let in_shards = in_shards.map(|spec| (spec.name.clone(), spec.shape.clone()));
    let pair = ShardGroups { cores: vec![vec![0, 1]], hosts: 1 };
    let named = specs.iter().map(|spec| &spec.name).zip(parameters.iter().cloned());
    let named = ParameterTensors::new(named).stored_in(ParameterShards::new(pair, in_shards));
    let cx = Forward {
        trace,
        parameters: &named,
        random: None,
        gradient_checkpointing,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let loss = model.forward(&cx, &batch).unwrap().loss.unwrap().loss_sum;
    let gradients = autodiff::gradients(&loss, &parameters.iter().collect::<Vec<_>>()).unwrap();
    std::iter::once(loss).chain(gradients).collect()
}

/// The temporary bytes of loss and gradients on two cores.
fn temporary_bytes(layers: usize, gradient_checkpointing: bool) -> u64 {
    let trace = Trace::new();
    let outputs = trace_gpt2(&trace, layers, gradient_checkpointing);
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    Program::compile_for(&trace, &outputs, 2).temporary_bytes()
}

/// By the compiler's own account: further layers add activations alone.
#[test]
fn two_layers_are_whole_at_a_time() {
    for checkpointing in [false, true] {
        let [few, many] = [5, 8].map(|layers| temporary_bytes(layers, checkpointing));
        println!("checkpointing {checkpointing}: {few}, {many} bytes, a layer {LAYER_BYTES}");
        assert!(few < 3 * LAYER_BYTES, "{few} bytes");
        assert!(many < few + LAYER_BYTES / 2, "{few} bytes, with three layers more {many}");
    }
}

/// The layer of the shard that a chain of operations reads.
fn layer_of(graph: &Graph, mut id: NodeId) -> Option<usize> {
    loop {
        let node = graph.node(id);
        match node.op.parameter_index() {
            Some(index) => {
                let name = graph.parameters()[index].name.split_once("h.")?.1;
                return name.split('.').next()?.parse().ok();
            }
            None => id = *node.inputs.first()?,
        }
    }
}

/// Whether a value is made from a gathered one by operations that read nothing else.
fn is_gathered(graph: &Graph, mut id: NodeId) -> bool {
    while let [input] = graph.node(id).inputs[..] {
        if graph.node(id).op.name() == "all_gather" {
            return true;
        }
        id = input;
    }
    false
}

/// The products with gathered parameters that a node is computed from: in which pass, and of which layer.
fn products_before(graph: &Graph, loss: &Tensor, node: NodeId) -> BTreeSet<(bool, usize)> {
    let (mut seen, mut open, mut found) = (HashSet::new(), vec![node], BTreeSet::new());
    while let Some(id) = open.pop() {
        let inputs = &graph.node(id).inputs;
        if graph.node(id).op.name() == "dot_general" {
            let read = inputs.iter().filter(|input| is_gathered(graph, **input));
            found.extend(
                read.filter_map(|input| Some((*input > loss.node(), layer_of(graph, *input)?))),
            );
        }
        open.extend(inputs.iter().filter(|input| seen.insert(**input)));
    }
    found
}

/// The gathers of a layer wait for the input of the layer that runs before, but not for its result.
#[test]
fn layers_are_gathered_one_ahead_in_both_passes() {
    const LAYERS: usize = 4;
    for checkpointing in [false, true] {
        let trace = Trace::new();
        let loss = trace_gpt2(&trace, LAYERS, checkpointing).swap_remove(0);
        let graph = trace.graph();
        let mut gathered = BTreeSet::new();
        for (node, _) in graph.nodes().filter(|(_, node)| node.op.name() == "all_gather") {
            let Some(layer) = layer_of(&graph, node) else { continue };
            let is_backward = node > loss.node();
            gathered.insert((is_backward, layer));
            let found = products_before(&graph, &loss, node);
            let of_pass = found.into_iter().filter(|(pass, _)| *pass == is_backward);
            let layers: Vec<usize> = of_pass.map(|(_, layer)| layer).collect();
            let expect: Vec<usize> = match is_backward {
                false => (0..layer.saturating_sub(1)).collect(),
                true => (layer + 2..LAYERS).collect(),
            };
            assert_eq!(layers, expect, "{checkpointing} {is_backward} {layer}");
        }
        assert_eq!(gathered.len(), 2 * LAYERS, "{gathered:?}");
    }
}
