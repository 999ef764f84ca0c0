//! Models whose layers several cores share: loss, gradients and dropout are those of one core, and
//! cores communicate as often as they must.

use serde_json::{Map, json};
use traind_models::tuning::{Lora, PeftBias, TargetModules, add_lora};
use traind_models::{
    Batch, Forward, Model, ModelConfig, ParameterSpec, ParameterTensors, Sharding, Task,
    TensorCores, registry, weights,
};
use traind_xla::kernels::Kernels;
use traind_xla::mesh::{Mesh, Placement};
use traind_xla::ops::Random;
use traind_xla::runtime::HostArray;
use traind_xla::stablehlo::{DotPrecision, Output, lower};
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use crate::fixture::{Fixture, folder_of};
use crate::support::{Program, distance};

/// Folders of `fixtures/`, tasks, numbers of cores and whether these divide positions between layers,
/// of which some rows have numbers that they do not divide.
#[rustfmt::skip]
const SHARED: &[(&str, Task, usize, bool)] = &[
    ("bert-sequence-classification", Task::SequenceClassification, 2, true),
    ("bert-masked-lm", Task::MaskedLm, 2, false),
    ("distilbert-masked-lm", Task::MaskedLm, 2, true),
    ("roberta-masked-lm", Task::MaskedLm, 2, true),
    ("xlm-roberta-causal-lm", Task::CausalLm, 2, false),
    ("modernbert-masked-lm", Task::MaskedLm, 2, true),
    ("modernbert-more-sequence-classification", Task::SequenceClassification, 2, true),
    ("modernbert-question-answering", Task::QuestionAnswering, 2, false),
    ("eurobert-tied-masked-lm", Task::MaskedLm, 2, true),
    ("eurobert-sequence-classification", Task::SequenceClassification, 4, true),
    ("electra-masked-lm", Task::MaskedLm, 2, true),
    ("electra-sequence-classification", Task::SequenceClassification, 2, false),
    ("electra-replaced-token-detection", Task::ReplacedTokenDetection, 2, true),
    ("xlm-roberta-xl-masked-lm", Task::MaskedLm, 2, true),
    ("nomic-bert-masked-lm", Task::MaskedLm, 2, true),
    ("gte-sequence-classification", Task::SequenceClassification, 2, true),
    ("jina-embeddings-v3-masked-lm", Task::MaskedLm, 2, true),
    ("mpnet-masked-lm", Task::MaskedLm, 2, true),
    ("mpnet-sequence-classification", Task::SequenceClassification, 2, false),
    ("albert-grouped-masked-lm", Task::MaskedLm, 2, true),
    ("albert-masked-lm", Task::MaskedLm, 2, false),
    ("deberta-v2-masked-lm", Task::MaskedLm, 2, true),
    ("deberta-v2-own-masked-lm", Task::MaskedLm, 2, false),
    ("gpt2-untied-causal-lm", Task::CausalLm, 2, true),
    ("gpt2-packed-causal-lm", Task::CausalLm, 2, true),
    ("llama-causal-lm", Task::CausalLm, 4, true),
    ("llama-packed-causal-lm", Task::CausalLm, 2, true),
    ("qwen2-causal-lm", Task::CausalLm, 2, false),
    ("qwen3-causal-lm", Task::CausalLm, 4, false),
    ("gemma-causal-lm", Task::CausalLm, 2, true),
    ("phi3-causal-lm", Task::CausalLm, 2, false),
    ("gemma2-causal-lm", Task::CausalLm, 2, true),
    ("gemma3-causal-lm", Task::CausalLm, 4, false),
    ("granite-causal-lm", Task::CausalLm, 2, true),
    ("olmo2-causal-lm", Task::CausalLm, 4, true),
    ("olmo2-packed-causal-lm", Task::CausalLm, 2, false),
    ("olmo3-causal-lm", Task::CausalLm, 2, true),
    ("smollm3-causal-lm", Task::CausalLm, 2, false),
    ("vit-image-classification", Task::ImageClassification, 2, false),
    ("vit-image-classification", Task::ImageClassification, 2, true),
    ("deit-image-classification", Task::ImageClassification, 2, true),
];

/// Folders, tasks, numbers of cores and divisions, as in [`SHARED`], of models that read a source and write a target.
#[rustfmt::skip]
const SEQ2SEQ: &[(&str, Task, usize, bool)] = &[
    ("t5-seq2seq-lm", Task::Seq2SeqLm, 2, false),
    ("t5-gated-seq2seq-lm", Task::Seq2SeqLm, 2, true),
    ("bart-seq2seq-lm", Task::Seq2SeqLm, 2, true),
    ("mbart-seq2seq-lm", Task::Seq2SeqLm, 2, false),
];

/// Folders of adapters, their models', tasks, numbers of cores, and whether these divide positions.
#[rustfmt::skip]
const ADAPTED: &[(&str, &str, Task, usize, bool)] = &[
    ("lora-distilbert-dora", "distilbert-sequence-classification", Task::SequenceClassification, 2, true),
    ("lora-roberta-biases", "roberta-sequence-classification", Task::SequenceClassification, 2, false),
    ("lora-gpt2-dora", "gpt2-untied-causal-lm", Task::CausalLm, 2, false),
    ("lora-llama-dora", "llama-sequence-classification", Task::SequenceClassification, 4, true),
    ("lora-phi3", "phi3-causal-lm", Task::CausalLm, 2, true),
    ("lora-vit", "vit-image-classification", Task::ImageClassification, 2, true),
    ("lora-gte-dora", "gte-sequence-classification", Task::SequenceClassification, 2, true),
];

fn mesh(cores: usize) -> Mesh {
    Mesh::new(1, cores, 1, Placement::Cluster).unwrap()
}

/// The cores of the mesh in a trace, of which the first parameter is the core's place.
fn tensor_cores(trace: &Trace, mesh: &Mesh, divides_positions: bool) -> Option<TensorCores> {
    let index = trace.parameter("tensor_index", Shape::scalar(DType::U32)).unwrap();
    TensorCores::of(mesh, &index).map(|cores| cores.dividing_positions(divides_positions))
}

/// The sum of arrays of one shape.
fn sum(arrays: &[HostArray]) -> HostArray {
    let mut total = vec![0.0; arrays[0].shape().element_count()];
    for array in arrays {
        total.iter_mut().zip(array.to_f32().unwrap()).for_each(|(total, value)| *total += value);
    }
    HostArray::from_f32(&arrays[0].shape().dims, &total).unwrap()
}

/// The arguments of each core: its place, `shared`, and its parts of the weights.
fn arguments(
    model: &Model,
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
/// are equal to the bit, or to be added.
fn joined(
    model: &Model,
    cores: usize,
    divides_positions: bool,
    results: &[Vec<HostArray>],
) -> Vec<HostArray> {
    let join = |(index, spec): (usize, &ParameterSpec)| {
        let sharding = Sharding::of(spec, cores).unwrap();
        let mut parts: Vec<HostArray> =
            results.iter().map(|arrays| arrays[index].clone()).collect();
        if spec.adds_gradients(divides_positions) {
            parts = vec![sum(&parts)];
        } else if !sharding.is_divided() {
            assert!(parts.iter().all(|part| *part == parts[0]), "{}", spec.name);
            parts.truncate(1);
        }
        sharding.join(parts).unwrap()
    };
    model.parameters().iter().enumerate().map(join).collect()
}

/// Compares loss and gradients on cores that share layers with the fixture's.
pub(crate) fn check_shared(fixture: &Fixture, cores: usize, divides_positions: bool) {
    let trace = Trace::with_kernels(Kernels::Own);
    let group = tensor_cores(&trace, &mesh(cores), divides_positions);
    let traced = fixture.trace_shared(&trace, false, DType::F32, group, &[]);
    let outputs: Vec<&Tensor> = std::iter::once(&traced.loss).chain(&traced.gradients).collect();
    let inputs: Vec<HostArray> = fixture.inputs.iter().map(|(_, it)| it.clone()).collect();
    let arguments = arguments(fixture.model.as_ref(), cores, &inputs, &fixture.weights);
    let mut results = Program::compile_for(&trace, &outputs, cores).run_replicas(&arguments);
    let losses: Vec<HostArray> = results.iter_mut().map(|core| core.remove(0)).collect();
    assert!(losses.iter().all(|loss| *loss == losses[0]));
    let gradients = joined(fixture.model.as_ref(), cores, divides_positions, &results);
    fixture.check_loss_and_gradients(&losses[0], &gradients);
}

fn check_folders(rows: &[(&str, Task, usize, bool)]) {
    for (folder, task, cores, divides_positions) in rows {
        println!("{folder} on {cores}, dividing positions {divides_positions}");
        check_shared(&Fixture::load(&folder_of(folder), *task), *cores, *divides_positions);
    }
}

#[test]
fn shared_layers_compute_what_transformers_computes() {
    check_folders(SHARED);
}

#[test]
fn shared_stacks_compute_what_transformers_computes() {
    check_folders(SEQ2SEQ);
}

#[test]
fn shared_layers_with_adapters_compute_what_peft_computes() {
    for (folder, base, task, cores, divides_positions) in ADAPTED {
        println!("{folder} on {cores}, dividing positions {divides_positions}");
        let fixture = Fixture::adapted(&folder_of(folder), &folder_of(base), *task);
        check_shared(&fixture, *cores, *divides_positions);
    }
}

/// A small GPT-2.
fn gpt2(layers: usize) -> Model {
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

/// A small ViT, of five positions.
fn vit() -> Model {
    let keys: Map<_, _> = json!({
        "model_type": "vit", "image_size": 8, "patch_size": 4, "hidden_size": 16,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32, "num_labels": 3,
        "initializer_range": 0.3, "hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3,
    })
    .as_object()
    .unwrap()
    .clone();
    registry::build(ModelConfig::new("config.json", keys), Task::ImageClassification).unwrap()
}

/// A small GPT-2 with adapters of all its linear layers, and dropout of what they read.
fn adapted_gpt2() -> Model {
    let mut model = gpt2(2);
    let lora = Lora {
        r: 2,
        lora_alpha: 4.0,
        lora_dropout: 0.3,
        target_modules: TargetModules::AllLinear,
        modules_to_save: Vec::new(),
        use_rslora: false,
        use_dora: true,
        bias: PeftBias::None,
        layers_to_transform: None,
        trainable_token_indices: None,
        ensure_weight_tying: false,
    };
    add_lora(&mut model, &lora).unwrap();
    model
}

/// Drawn weights, and numbers in the place of zeros.
fn initial_weights(model: &Model) -> Vec<HostArray> {
    let drawn = weights::initialize(model.parameters(), 1).unwrap();
    let without_zeros = |array: HostArray| {
        let values = array.to_f32().unwrap();
        if values.iter().any(|value| *value != 0.0) {
            return array;
        }
        let values: Vec<f32> = (0..values.len()).map(|it| (it as f32).sin() / 5.0).collect();
        HostArray::from_f32(&array.shape().dims, &values).unwrap()
    };
    drawn.into_iter().map(without_zeros).collect()
}

/// Cores that share layers.
#[derive(Clone, Copy, Debug)]
struct Cores {
    count: usize,
    divides_positions: bool,
}

/// The norm of smaller gradients in comparisons: that of a key's bias is rounding noise.
const NORM_MIN: f64 = 0.1;

const ONE: Cores = Cores { count: 1, divides_positions: false };

/// Two rows of seven tokens.
fn tokens(trace: &Trace) -> Batch {
    let mut batch = Batch::new();
    let ids = trace.iota(DType::S32, &[2, 7], 1).unwrap().mul_scalar(3.0).unwrap();
    batch.insert("input_ids", ids.clone());
    batch.insert("labels", ids.add_scalar(2.0).unwrap());
    batch.insert("attention_mask", trace.full(1.0, Shape::new(DType::S32, [2, 7])).unwrap());
    batch
}

/// Two images of the classes 0 and 1.
fn images(trace: &Trace) -> Batch {
    let mut batch = Batch::new();
    let numbers = |axis| trace.iota(DType::S32, &[2, 8, 8, 3], axis).unwrap();
    let pixels = numbers(1).mul_scalar(29.0).unwrap().add(&numbers(2).mul(&numbers(3)).unwrap());
    batch.insert("pixel_values", pixels.unwrap().convert(DType::U8).unwrap());
    batch.insert("labels", trace.iota(DType::S32, &[2], 0).unwrap());
    batch
}

/// The loss and the gradients of a training step with dropout. No number of cores divides its
/// positions.
fn traced_step(
    model: &Model,
    trace: &Trace,
    cores: Cores,
    gradient_checkpointing: bool,
) -> Vec<Tensor> {
    let Cores { count, divides_positions } = cores;
    let group = tensor_cores(trace, &mesh(count), divides_positions);
    let number = |value: f64| trace.scalar(value, DType::U32).unwrap();
    let random = Random::new(&number(1.0), &number(2.0), &number(3.0)).unwrap().with_rows(2);
    let batch = if model.vocab_size() > 0 { tokens(trace) } else { images(trace) };
    let specs = model.parameters();
    let held = |spec| Sharding::of(spec, count).unwrap().held_shape();
    let parameters: Vec<Tensor> =
        specs.iter().map(|spec| trace.parameter(&spec.name, held(spec)).unwrap()).collect();
    let named = specs.iter().map(|spec| &spec.name).zip(parameters.iter().cloned());
    let cx = Forward {
        trace,
        parameters: &ParameterTensors::new(named).divided_over(group),
        random: Some(&random),
        gradient_checkpointing,
        adapters: Some(model.adapters()),
        cache: None,
        embedding_noise: None,
    };
    let loss = model.forward(&cx, &batch).unwrap().loss.unwrap().loss_sum;
    let gradients = autodiff::gradients(&loss, &parameters.iter().collect::<Vec<_>>()).unwrap();
    [vec![loss], gradients].concat()
}

/// The loss and the gradients with dropout, as cores compute them together.
fn with_dropout(
    model: &Model,
    cores: Cores,
    kernels: bool,
    gradient_checkpointing: bool,
) -> Vec<HostArray> {
    let Cores { count, divides_positions } = cores;
    let trace = Trace::with_kernels(Kernels::own_if(kernels));
    let outputs = traced_step(model, &trace, cores, gradient_checkpointing);
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let arrays = initial_weights(model);
    let program = Program::compile_for(&trace, &outputs, count);
    let mut results = program.run_replicas(&arguments(model, count, &[], &arrays));
    let losses: Vec<HostArray> = results.iter_mut().map(|core| core.remove(0)).collect();
    let gradients = joined(model, count, divides_positions, &results);
    [vec![losses[0].clone()], gradients].concat()
}

#[test]
fn dropout_is_that_of_one_core() {
    for (count, kernels, checkpointing, divides_positions) in
        [(2, false, true, false), (4, true, false, false), (2, true, true, true)]
    {
        let cores = Cores { count, divides_positions };
        check_dropout(&gpt2(2), cores, kernels, checkpointing);
    }
}

/// No number of cores divides the patches and the token before them.
#[test]
fn dropout_of_patches_is_that_of_one_core() {
    for (count, kernels, divides_positions) in
        [(2, false, false), (2, true, true), (4, false, true)]
    {
        check_dropout(&vit(), Cores { count, divides_positions }, kernels, true);
    }
}

#[test]
fn dropout_of_adapters_is_that_of_one_core() {
    let cores = Cores { count: 2, divides_positions: true };
    check_dropout(&adapted_gpt2(), cores, false, false);
}

fn check_dropout(model: &Model, cores: Cores, kernels: bool, checkpointing: bool) {
    let one = with_dropout(model, ONE, kernels, checkpointing);
    for (shared, one) in with_dropout(model, cores, kernels, checkpointing).iter().zip(&one) {
        let (off, norm) = distance(&shared.to_f32().unwrap(), &one.to_f32().unwrap());
        let norm = norm.max(NORM_MIN);
        assert!(off <= 3e-6 * norm, "{cores:?}, kernels {kernels}: {off} of {norm}");
    }
}

/// How often each collective is in a training step of a model with as many layers, without the update:
/// all-reduces, all-gathers and reduce-scatters.
fn collectives(layers: usize, cores: Cores) -> [usize; 3] {
    let trace = Trace::new();
    let outputs = traced_step(&gpt2(layers), &trace, cores, false);
    let outputs: Vec<Output> = outputs.iter().map(|it| Output::new(it.node())).collect();
    let program = lower(&trace.graph(), "step", &outputs, cores.count, DotPrecision::Platform);
    let groups = format!("replica_groups = dense<[{:?}]>", (0..cores.count).collect::<Vec<_>>());
    let counts = ["all_reduce", "all_gather\"", "reduce_scatter"]
        .map(|operation| program.text.matches(operation).count());
    assert_eq!(program.text.matches(&groups).count(), counts.iter().sum::<usize>());
    counts
}

/// Attention and feed-forward network add up once each, and so do their cotangents.
#[test]
fn a_layer_takes_four_all_reduces() {
    // Word embeddings; the largest logit and the sums of cross entropy; the head's cotangents.
    const OUTSIDE: usize = 1 + 2 + 1;
    for (layers, count) in [(1, 2), (3, 2), (3, 4)] {
        let cores = Cores { count, divides_positions: false };
        assert_eq!(collectives(layers, cores), [OUTSIDE + 4 * layers, 0, 0], "{layers} layers");
    }
    assert_eq!(collectives(2, ONE), [0; 3]);
}

/// Each all-reduce of activations is a reduce-scatter and an all-gather: forward behind a part and before
/// the next one, backward the other way round.
#[test]
fn divided_positions_are_gathered_and_scattered() {
    for (layers, count) in [(1, 2), (3, 4)] {
        let cores = Cores { count, divides_positions: true };
        // The largest logit and the sums of cross entropy are all-reduces. Embeddings and head have
        // one pair, of which each is the other's gradient.
        let moves = 2 + 4 * layers;
        assert_eq!(collectives(layers, cores), [2, moves, moves], "{layers} layers");
    }
}
