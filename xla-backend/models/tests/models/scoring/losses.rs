//! The losses of sequence classification against `torch.nn.functional`, with
//! weights on the rows.

use crate::support::{Program, check_close};
use serde_json::{Map, json};
use traind_models::tasks::SequenceClassification;
use traind_models::{Batch, ModelConfig};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

/// The second row is where a careless formula overflows.
const LOGITS: [f32; 6] = [0.5, -1.25, 2.0, -80.0, 90.0, 0.25];
const WEIGHTS: [f32; 2] = [0.5, 2.0];

/// Two rows of `num_labels` logits; `row_losses` are PyTorch's.
fn check(problem_type: &str, num_labels: usize, labels: &HostArray, row_losses: [f32; 2]) {
    let keys = json!({"num_labels": num_labels, "problem_type": problem_type});
    let keys: Map<_, _> = keys.as_object().unwrap().clone();
    let task = SequenceClassification::new(&ModelConfig::new("config.json", keys)).unwrap();
    let trace = Trace::new();
    let dims = [2, num_labels];
    let logits = trace.parameter("logits", Shape::new(DType::F32, dims)).unwrap();
    let mut batch = Batch::new();
    batch.insert("labels", trace.parameter("labels", labels.shape().clone()).unwrap());
    batch.insert(
        "sample_weights",
        trace.parameter("sample_weights", Shape::new(DType::F32, [2])).unwrap(),
    );
    let loss = task.loss(&logits, &batch).unwrap().unwrap();

    let rows: Vec<f32> = LOGITS.chunks(3).flat_map(|row| row[..num_labels].to_vec()).collect();
    let results = Program::compile(&trace, &[&loss.loss_sum, &loss.weight_sum]).run(&[
        HostArray::from_f32(&dims, &rows).unwrap(),
        labels.clone(),
        HostArray::from_f32(&[2], &WEIGHTS).unwrap(),
    ]);
    let expect = row_losses[0] * WEIGHTS[0] + row_losses[1] * WEIGHTS[1];
    check_close(problem_type, &results[0].to_f32().unwrap(), &[expect], f64::from(1e-5 * expect));
    check_close("weights", &results[1].to_f32().unwrap(), &[2.5], 0.0);
}

#[test]
fn single_label_is_cross_entropy() {
    let labels = HostArray::from_s32(&[2], &[2, 0]).unwrap();
    check("single_label_classification", 3, &labels, [0.232_622, 170.0]);
}

#[test]
fn multi_label_is_mean_binary_cross_entropy() {
    let labels = HostArray::from_f32(&[2, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 1.0]).unwrap();
    check("multi_label_classification", 3, &labels, [0.950_978, 0.191_980]);
}

#[test]
fn regression_is_mean_squared_error() {
    let labels = HostArray::from_f32(&[2, 3], &[0.5, 1.5, -2.0, -79.0, 88.0, 0.0]).unwrap();
    check("regression", 3, &labels, [7.854_167, 1.6875]);
    let one = HostArray::from_f32(&[2], &[1.5, -79.0]).unwrap();
    check("regression", 1, &one, [1.0, 1.0]);
}
