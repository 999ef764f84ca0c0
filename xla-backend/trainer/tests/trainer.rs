//! The library by itself: the example, and steps that a job file has no words for.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Map;
use traind_loader::{ArrayValues, BatchArray, ModelInputs};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_trainer::session::open_plugin;
use traind_trainer::state::{MeshConfig, StartValues};
use traind_trainer::step::{OptimizerConfig, StepConfig};
use traind_trainer::{Error, Trainer};
use traind_xla::runtime::HostArray;

#[allow(dead_code)] // its main function
#[path = "../examples/train.rs"]
mod example;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/fixtures/bert-sequence-classification")
}

fn model() -> (Arc<dyn Model>, Vec<HostArray>) {
    let config = ModelConfig::load(&folder(), &Map::new()).unwrap();
    let model: Arc<dyn Model> =
        registry::build(config, Task::SequenceClassification).unwrap().into();
    let parameters = weights::load(&folder(), model.as_ref(), 1).unwrap().arrays;
    (model, parameters)
}

/// A trainer on `cores` cores that see different rows, with the optimizer of that name.
fn trainer(cores: usize, optimizer: &str) -> Trainer {
    let (model, parameters) = model();
    let mesh = MeshConfig { data: cores, ..MeshConfig::default() };
    let optimizer = OptimizerConfig { name: optimizer.to_owned(), ..OptimizerConfig::default() };
    let config = StepConfig { mesh, optimizer, ..StepConfig::default() };
    let plugin = traind_pjrt::installed_plugin("cpu").unwrap();
    let cores = open_plugin(&plugin, "cpu", cores, mesh.mesh().unwrap()).unwrap();
    let inputs = ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
    let start = StartValues { parameters, ..StartValues::default() };
    Trainer::new(cores, model, inputs, &config, &start).unwrap()
}

/// Rows of three tokens with these words and classes.
fn batch(rows: &[(i32, i32)]) -> Vec<BatchArray> {
    let words = rows.iter().flat_map(|(word, _)| [2, *word, 3]).collect();
    let labels = rows.iter().map(|(_, label)| *label).collect();
    let of = |name, dims: &[usize], values| BatchArray { name, dims: dims.to_vec(), values };
    vec![
        of("input_ids", &[rows.len(), 3], ArrayValues::S32(words)),
        of("attention_mask", &[rows.len(), 3], ArrayValues::S32(vec![1; 3 * rows.len()])),
        of("labels", &[rows.len()], ArrayValues::S32(labels)),
    ]
}

const ROWS: [(i32, i32); 4] = [(7, 0), (8, 1), (9, 2), (10, 0)];

fn values(trainer: &Trainer) -> Vec<f32> {
    let arrays = trainer.parameters().unwrap();
    arrays.iter().flat_map(|array| array.to_f32().unwrap()).collect()
}

fn far(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max)
}

#[test]
fn the_example_learns_its_rows_and_saves_the_model() {
    let output = tempfile::tempdir().unwrap();
    let losses = example::train(&folder(), output.path(), 20).unwrap();
    assert_eq!(losses.len(), 20);
    assert!(losses[19] < 0.2 * losses[0], "{losses:?}");
    let (model, start) = model();
    let saved = weights::load(output.path(), model.as_ref(), 1).unwrap();
    assert!(saved.report.initialized.is_empty() && saved.report.missing.is_empty());
    assert_ne!(saved.arrays, start);
}

/// Two batches add up to the gradients of one with all their rows, and change nothing by themselves.
#[test]
fn batches_add_gradients_and_an_update_applies_them() {
    let (mut whole, mut parts) = (trainer(2, "sgd"), trainer(2, "sgd"));
    let start = values(&whole);
    whole.add_batch(&batch(&ROWS)).unwrap();
    let expect = whole.update(0.1).unwrap();
    for rows in ROWS.chunks(2) {
        parts.add_batch(&batch(rows)).unwrap();
        assert_eq!(values(&parts), start, "no update yet");
    }
    let found = parts.update(0.1).unwrap();
    assert!((found.loss - expect.loss).abs() < 1e-5, "{found:?}, {expect:?}");
    assert!((found.grad_norm - expect.grad_norm).abs() < 1e-4, "{found:?}, {expect:?}");
    assert!(far(&values(&parts), &values(&whole)) < 1e-5);
    assert!(far(&values(&parts), &start) > 1e-4);
    assert_eq!((parts.steps(), whole.steps()), (1, 1));
}

/// The rate of each update is the caller's.
#[test]
fn an_update_moves_by_its_own_rate() {
    let moved = |rate: f64| {
        let mut trainer = trainer(1, "sgd");
        let start = values(&trainer);
        trainer.add_batch(&batch(&ROWS)).unwrap();
        trainer.update(rate).unwrap();
        far(&values(&trainer), &start)
    };
    assert_eq!(moved(0.0), 0.0);
    let (one, two) = (moved(0.01), moved(0.02));
    assert!((two / one - 2.0).abs() < 1e-2, "{one}, {two}");
}

/// Values that were read are where training continues later.
#[test]
fn training_starts_again_from_values_that_were_read() {
    let mut trainer = trainer(1, "sgd");
    let step = |trainer: &mut Trainer| {
        trainer.add_batch(&batch(&ROWS)).unwrap();
        trainer.update(0.1).unwrap().loss
    };
    step(&mut trainer);
    let parameters = trainer.parameters().unwrap();
    let expect = [step(&mut trainer), step(&mut trainer)];
    trainer.start(&StartValues { parameters, ..StartValues::default() }, 1).unwrap();
    assert_eq!([step(&mut trainer), step(&mut trainer)], expect);
    assert_eq!(trainer.steps(), 3);
}

#[test]
fn batches_that_cores_cannot_share_are_refused() {
    let mut trainer = trainer(2, "sgd");
    let error = trainer.add_batch(&batch(&ROWS[..3])).unwrap_err();
    assert!(error.to_string().contains("3 rows, which 2 cores cannot share"), "{error}");
    let mut arrays = batch(&ROWS);
    arrays[2] = batch(&ROWS[..2]).remove(2);
    let error = trainer.add_batch(&arrays).unwrap_err();
    assert!(error.to_string().contains("labels has 2 rows, others 4"), "{error}");
    arrays.remove(2);
    let error = trainer.add_batch(&arrays).unwrap_err();
    assert!(matches!(&error, Error::NoSuchInput { name, .. } if name == "labels"), "{error}");
}

/// A row of weight 0 is as if it were absent.
#[test]
fn rows_count_by_their_weights() {
    let (mut weighted, mut fewer) = (trainer(1, "sgd"), trainer(1, "sgd"));
    let mut arrays = batch(&ROWS);
    let values = ArrayValues::F32(vec![1.0, 0.0, 1.0, 0.0]);
    arrays.push(BatchArray { name: "sample_weights", dims: vec![4], values });
    weighted.add_batch(&arrays).unwrap();
    fewer.add_batch(&batch(&[ROWS[0], ROWS[2]])).unwrap();
    let (found, expect) = (weighted.update(0.1).unwrap(), fewer.update(0.1).unwrap());
    assert!((found.loss - expect.loss).abs() < 1e-6, "{found:?}, {expect:?}");
    assert!((found.grad_norm - expect.grad_norm).abs() < 1e-5, "{found:?}, {expect:?}");
}
