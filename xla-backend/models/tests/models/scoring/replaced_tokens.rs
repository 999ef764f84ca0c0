//! Detection of replaced tokens against transformers' generator and discriminator, whose losses
//! `scripts/fixtures/replaced_tokens.py` adds up. The tokens that it draws have the hash of their places, as here.

use std::sync::Arc;

use traind_models::tasks::preference::{Compared, Metric, PreferenceObjective};
use traind_models::tasks::replaced_tokens::ReplacedTokenDetection;
use traind_models::{
    Batch, Forward, PREDICTED_SLOTS, PREDICTED_TOKENS, ParameterTensors, Task, TokenGenerator,
};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace};

use crate::fixture::{Fixture, config_of, folder_of};
use crate::fixtures::check_fixture;
use crate::support::{Program, check_close};

const TASK: Task = Task::ReplacedTokenDetection;
const TIED: &str = "electra-replaced-token-detection";
const UNTIED: &str = "electra-untied-replaced-token-detection";

/// Generator and discriminator with embeddings of their own, other weights and another temperature.
#[test]
fn embeddings_of_other_sizes_are_trained_apart() {
    let folder = folder_of(UNTIED);
    let mut config = config_of(&folder, TASK);
    let settings = config.token_generator().cloned().unwrap();
    config.set_token_generator(TokenGenerator { temperature: 2.0, ..settings.clone() });
    let mut fixture = Fixture::of_config(&folder, config.clone(), TASK);
    let weights = ReplacedTokenDetection { generator_weight: 0.5, discriminator_weight: 20.0 };
    fixture.objective = Some(Arc::new(weights));
    check_fixture(&fixture, false);
    check_fixture(&fixture, true);

    config.set_token_generator(TokenGenerator { tie_embeddings: Some(true), ..settings });
    let error = traind_models::registry::build(config, TASK).unwrap_err().to_string();
    assert!(error.contains("differ in size, and cannot be tied"), "{error}");
}

/// The generator's vocabulary is computed for masked tokens alone, with two places left, and its losses are the same.
#[test]
fn masked_tokens_alone_are_predicted() {
    let mut fixture = Fixture::load(&folder_of(TIED), TASK);
    let (_, labels) = fixture.inputs.iter().find(|(name, _)| *name == "labels").unwrap();
    let (dims, labels) = (labels.shape().dims.clone(), labels.to_s32().unwrap());
    let masked: Vec<usize> = (0..labels.len()).filter(|place| labels[*place] >= 0).collect();
    let width = (masked.len() + 2).div_ceil(dims[0]);
    assert!(!masked.is_empty() && width < dims[1], "{masked:?} of {dims:?}");
    let mut tokens = vec![labels.len() as i32; dims[0] * width];
    let mut slots = vec![tokens.len() as i32; labels.len()];
    for (slot, place) in masked.into_iter().enumerate() {
        (tokens[slot], slots[place]) = (place as i32, slot as i32);
    }
    let array = |width, values: &[i32]| HostArray::from_s32(&[dims[0], width], values).unwrap();
    fixture.inputs.push((PREDICTED_TOKENS, array(width, &tokens)));
    fixture.inputs.push((PREDICTED_SLOTS, array(dims[1], &slots)));
    check_fixture(&fixture, false);
}

/// Embeddings of equal sizes are one parameter, unless they are not to be tied.
#[test]
fn embeddings_of_equal_sizes_are_shared_unless_they_are_to_be_apart() {
    let names = |tie_embeddings| -> Vec<String> {
        let mut config = config_of(&folder_of(TIED), TASK);
        let settings = config.token_generator().cloned().unwrap();
        config.set_token_generator(TokenGenerator { tie_embeddings, ..settings });
        let model = traind_models::registry::build(config, TASK).unwrap();
        model.parameters().iter().map(|spec| spec.name.clone()).collect()
    };
    let words = "generator.electra.embeddings.word_embeddings.weight".to_owned();
    assert!(!names(None).contains(&words) && !names(Some(true)).contains(&words));
    assert!(names(Some(false)).contains(&words));
}

/// The metrics of a batch of which a row behind the others is an empty slot, as PyTorch has them of the others.
#[test]
fn metrics_are_those_of_all_tokens() {
    let fixture = Fixture::load(&folder_of(TIED), TASK);
    let trace = Trace::new();
    let mut batch = Batch::new();
    let (mut arguments, mut rows) = (Vec::new(), 0);
    for (name, array) in &fixture.inputs {
        let dims = array.shape().dims.clone();
        rows = dims[0] + 1;
        let filled = [array.to_s32().unwrap(), vec![1; array.shape().element_count() / dims[0]]];
        let dims = [&[rows], &dims[1..]].concat();
        arguments.push(HostArray::from_s32(&dims, &filled.concat()).unwrap());
        batch.insert(name, trace.parameter(name, Shape::new(DType::S32, dims)).unwrap());
    }
    let weights: Vec<f32> = (0..rows).map(|row| if row + 1 < rows { 1.0 } else { 0.0 }).collect();
    arguments.push(HostArray::from_f32(&[rows], &weights).unwrap());
    let name = "sample_weights";
    batch.insert(name, trace.parameter(name, Shape::new(DType::F32, [rows])).unwrap());
    let specs = fixture.model.parameters();
    let parameters = specs
        .iter()
        .map(|spec| (spec.name.clone(), trace.parameter(&spec.name, spec.shape.clone()).unwrap()));
    let parameters = ParameterTensors::new(parameters);
    arguments.extend(fixture.weights.iter().cloned());
    let cx = Forward {
        trace: &trace,
        parameters: &parameters,
        random: None,
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let output = fixture.model.forward(&cx, &batch).unwrap();
    let (objective, mesh) = (ReplacedTokenDetection::default(), Mesh::data_parallel(1).unwrap());
    let compared = Compared { policy: &output.logits, reference: None, batch: &batch, mesh: &mesh };
    let found = objective.compare(&compared).unwrap();
    let outputs: [&Tensor; 3] =
        [&found.loss.loss_sum, &found.loss.weight_sum, &found.metric_sums().unwrap()];
    let results = Program::compile(&trace, &outputs).run(&arguments);
    let [loss, weight, sums] = [0, 1, 2].map(|at| results[at].to_f32().unwrap());
    fixture.check_relative("loss", &[loss[0] / weight[0]], 1e-6);
    let sums: Vec<f64> = sums.into_iter().map(f64::from).collect();
    let metrics = Metric::values(objective.metrics(), &sums);
    let (names, values): (Vec<&str>, Vec<f32>) =
        metrics.map(|(name, value)| (name, value as f32)).unzip();
    let expect =
        ["loss", "accuracy", "precision", "recall"].map(|it| format!("discriminator_{it}"));
    assert_eq!(names, [&["generator_loss".to_owned()], &expect[..]].concat());
    check_close("metrics", &values, fixture.expected("metrics"), 1e-6);
}
