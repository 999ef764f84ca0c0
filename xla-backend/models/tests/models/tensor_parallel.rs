//! Models whose layers several cores share: loss, gradients and dropout are those of one core, and
//! cores communicate as often as they must.

use serde_json::{Map, json};
use traind_models::{
    Batch, Forward, Model, ModelConfig, ParameterSpec, ParameterTensors, Sharding, Task,
    TensorCores, registry, weights,
};
use traind_xla::mesh::{Mesh, Placement};
use traind_xla::ops::Random;
use traind_xla::runtime::HostArray;
use traind_xla::stablehlo::{DotPrecision, Output, lower};
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use crate::fixture::{Fixture, folder_of};
use crate::support::{Program, distance};

/// Folders of `fixtures/`, tasks and numbers of cores.
#[rustfmt::skip]
const SHARED: &[(&str, Task, usize)] = &[
    ("bert-sequence-classification", Task::SequenceClassification, 2),
    ("bert-masked-lm", Task::MaskedLm, 2),
    ("distilbert-masked-lm", Task::MaskedLm, 2),
    ("roberta-masked-lm", Task::MaskedLm, 2),
    ("xlm-roberta-causal-lm", Task::CausalLm, 2),
    ("gpt2-untied-causal-lm", Task::CausalLm, 2),
    ("llama-causal-lm", Task::CausalLm, 4),
    ("qwen2-causal-lm", Task::CausalLm, 2),
    ("qwen3-causal-lm", Task::CausalLm, 4),
    ("gemma-causal-lm", Task::CausalLm, 2),
    ("phi3-causal-lm", Task::CausalLm, 2),
];

fn mesh(cores: usize) -> Mesh {
    Mesh::new(1, cores, 1, Placement::Cluster).unwrap()
}

/// The cores of the mesh in a trace, of which the first parameter is the core's place.
fn tensor_cores(trace: &Trace, mesh: &Mesh) -> Option<TensorCores> {
    let index = trace.parameter("tensor_index", Shape::scalar(DType::U32)).unwrap();
    TensorCores::of(mesh, &index)
}

/// The arguments of each core: its place, `shared`, and its parts of the weights.
fn arguments(
    model: &dyn Model,
    cores: usize,
    shared: &[HostArray],
    weights: &[HostArray],
) -> Vec<Vec<HostArray>> {
    let of_core = |core: usize| {
        let place = HostArray::from_u32(&[], &[core as u32]).unwrap();
        let parts = model.parameters().iter().zip(weights).map(|(spec, array)| {
            Sharding::of(spec, cores).unwrap().part(array, core).unwrap().into_owned()
        });
        std::iter::once(place).chain(shared.iter().cloned()).chain(parts).collect()
    };
    (0..cores).map(of_core).collect()
}

/// Joins what each core has of the gradients, `results[core][parameter]`. Those of whole parameters
/// are equal to the bit.
fn joined(model: &dyn Model, cores: usize, results: &[Vec<HostArray>]) -> Vec<HostArray> {
    let join = |(index, spec): (usize, &ParameterSpec)| {
        let sharding = Sharding::of(spec, cores).unwrap();
        let mut parts: Vec<HostArray> =
            results.iter().map(|arrays| arrays[index].clone()).collect();
        if !sharding.is_divided() {
            assert!(parts.iter().all(|part| *part == parts[0]), "{}", spec.name);
            parts.truncate(1);
        }
        sharding.join(parts).unwrap()
    };
    model.parameters().iter().enumerate().map(join).collect()
}

#[test]
fn shared_layers_compute_what_transformers_computes() {
    for (folder, task, cores) in SHARED {
        println!("{folder} on {cores}");
        let fixture = Fixture::load(&folder_of(folder), *task);
        let trace = Trace::with_kernels(true);
        let group = tensor_cores(&trace, &mesh(*cores));
        let traced = fixture.trace_shared(&trace, false, DType::F32, group, &[]);
        let outputs: Vec<&Tensor> =
            std::iter::once(&traced.loss).chain(&traced.gradients).collect();
        let inputs: Vec<HostArray> = fixture.inputs.iter().map(|(_, it)| it.clone()).collect();
        let arguments = arguments(fixture.model.as_ref(), *cores, &inputs, &fixture.weights);
        let mut results = Program::compile_for(&trace, &outputs, *cores).run_replicas(&arguments);
        let losses: Vec<HostArray> = results.iter_mut().map(|core| core.remove(0)).collect();
        assert!(losses.iter().all(|loss| *loss == losses[0]), "{folder}");
        let gradients = joined(fixture.model.as_ref(), *cores, &results);
        fixture.check_loss_and_gradients(&losses[0], &gradients);
    }
}

/// A small GPT-2.
fn gpt2(layers: usize) -> Box<dyn Model> {
    let keys: Map<_, _> = json!({
        "model_type": "gpt2", "vocab_size": 27, "n_positions": 8, "n_embd": 16, "n_layer": layers,
        "n_head": 4, "initializer_range": 0.3, "resid_pdrop": 0.3, "embd_pdrop": 0.3,
        "attn_pdrop": 0.3,
    })
    .as_object()
    .unwrap()
    .clone();
    registry::build(ModelConfig::new("config.json", keys), Task::CausalLm).unwrap()
}

/// The loss and the gradients of a training step with dropout.
fn traced_step(
    model: &dyn Model,
    trace: &Trace,
    cores: usize,
    gradient_checkpointing: bool,
) -> Vec<Tensor> {
    let group = tensor_cores(trace, &mesh(cores));
    let number = |value: f64| trace.scalar(value, DType::U32).unwrap();
    let random = Random::new(&number(1.0), &number(2.0), &number(3.0)).unwrap().with_rows(2);
    let mut batch = Batch::new();
    let ids = trace.iota(DType::S32, &[2, 8], 1).unwrap().mul_scalar(3.0).unwrap();
    batch.insert("input_ids", ids.clone());
    batch.insert("labels", ids.add_scalar(2.0).unwrap());
    batch.insert("attention_mask", trace.full(1.0, Shape::new(DType::S32, [2, 8])).unwrap());
    let specs = model.parameters();
    let held = |spec| Sharding::of(spec, cores).unwrap().held_shape();
    let parameters: Vec<Tensor> =
        specs.iter().map(|spec| trace.parameter(&spec.name, held(spec)).unwrap()).collect();
    let named = specs.iter().map(|spec| &spec.name).zip(parameters.iter().cloned());
    let cx = Forward {
        trace,
        parameters: &ParameterTensors::new(named).divided_over(group),
        random: Some(&random),
        gradient_checkpointing,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let loss = model.forward(&cx, &batch).unwrap().loss.unwrap().loss_sum;
    let gradients = autodiff::gradients(&loss, &parameters.iter().collect::<Vec<_>>()).unwrap();
    [vec![loss], gradients].concat()
}

/// The loss and the gradients with dropout, as cores compute them together.
fn with_dropout(cores: usize, kernels: bool, gradient_checkpointing: bool) -> Vec<HostArray> {
    let (model, trace) = (gpt2(2), Trace::with_kernels(kernels));
    let outputs = traced_step(model.as_ref(), &trace, cores, gradient_checkpointing);
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let arrays = weights::initialize(model.parameters(), 1).unwrap();
    let program = Program::compile_for(&trace, &outputs, cores);
    let mut results = program.run_replicas(&arguments(model.as_ref(), cores, &[], &arrays));
    let losses: Vec<HostArray> = results.iter_mut().map(|core| core.remove(0)).collect();
    let gradients = joined(model.as_ref(), cores, &results);
    [vec![losses[0].clone()], gradients].concat()
}

#[test]
fn dropout_is_that_of_one_core() {
    for (cores, kernels, checkpointing) in [(2, false, true), (4, true, false)] {
        let one = with_dropout(1, kernels, checkpointing);
        for (shared, one) in with_dropout(cores, kernels, checkpointing).iter().zip(&one) {
            let (off, norm) = distance(&shared.to_f32().unwrap(), &one.to_f32().unwrap());
            assert!(off <= 2e-6 * norm, "{cores} cores, kernels {kernels}: {off} of {norm}");
        }
    }
}

/// Collectives of a training step of a model with as many layers, without those of the update.
fn collectives(layers: usize, cores: usize) -> usize {
    let trace = Trace::new();
    let outputs = traced_step(gpt2(layers).as_ref(), &trace, cores, false);
    let outputs: Vec<Output> = outputs.iter().map(|it| Output::new(it.node())).collect();
    let program = lower(&trace.graph(), "step", &outputs, cores, DotPrecision::Platform);
    let groups = format!("replica_groups = dense<[{:?}]>", (0..cores).collect::<Vec<_>>());
    assert_eq!(program.text.matches(&groups).count(), program.text.matches("all_reduce").count());
    assert!(!program.text.contains("all_gather"), "nothing is gathered");
    program.text.matches("all_reduce").count()
}

/// Attention and feed-forward network add up once each, and so do their cotangents.
#[test]
fn a_layer_takes_four_all_reduces() {
    // Word embeddings; the largest logit and the sums of cross entropy; the head's cotangents.
    const OUTSIDE: usize = 1 + 2 + 1;
    for (layers, cores) in [(1, 2), (3, 2), (3, 4)] {
        assert_eq!(collectives(layers, cores), OUTSIDE + 4 * layers, "{layers} layers");
    }
    assert_eq!(collectives(2, 1), 0);
}
