//! Smoothed losses against transformers' `LabelSmoother`, for each kind of
//! logits that has labels.

use serde_json::Map;
use traind_models::tasks::{LossSettings, TaskLoss};
use traind_models::{Batch, ModelConfig, OutputKind};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::support::{Program, check_close};

const FACTOR: f64 = 0.1;
/// Four rows or tokens of three classes; of the second, one is all but sure.
const LOGITS: [f32; 12] = [0.5, -1.25, 2.0, -80.0, 90.0, 0.25, 1.0, 2.0, 3.0, -0.5, 0.25, 0.75];

fn smoothed() -> TaskLoss {
    let settings = LossSettings { label_smoothing: FACTOR, ..LossSettings::default() };
    TaskLoss::new(&settings).unwrap().unwrap()
}

/// The config of a model with one label.
fn config() -> ModelConfig {
    let keys = Map::from_iter([("num_labels".to_owned(), 1.into())]);
    ModelConfig::new("config.json", keys)
}

/// The mean loss and what it is the mean of.
fn check(kind: OutputKind, logit_dims: &[usize], labels: &[i32], expect: f32, counted: f32) {
    let trace = Trace::new();
    let label_dims = &logit_dims[..logit_dims.len() - 1];
    let s32 = || Shape::new(DType::S32, label_dims);
    let logits = trace.parameter("logits", Shape::new(DType::F32, logit_dims)).unwrap();
    let mut batch = Batch::new();
    batch.insert("input_ids", trace.full(0.0, s32()).unwrap());
    batch.insert("labels", trace.parameter("labels", s32()).unwrap());
    let sums = smoothed().loss(kind, &config(), &logits.into(), &batch).unwrap().unwrap();
    let loss = sums.loss_sum.div(&sums.weight_sum).unwrap();
    let results = Program::compile(&trace, &[&loss, &sums.weight_sum]).run(&[
        HostArray::from_f32(logit_dims, &LOGITS).unwrap(),
        HostArray::from_s32(label_dims, labels).unwrap(),
    ]);
    let what = format!("{kind:?}");
    check_close(&what, &results[0].to_f32().unwrap(), &[expect], f64::from(1e-6 * expect));
    check_close(&what, &results[1].to_f32().unwrap(), &[counted], 0.0);
}

#[test]
fn labels_are_smoothed_as_transformers_does() {
    let classes = 3;
    check(OutputKind::PerRow { classes }, &[4, 3], &[2, 0, 1, 1], 41.150_85, 4.0);
    let tokens = [2, 2, 3];
    check(OutputKind::PerToken { classes }, &tokens, &[2, -100, 1, 1], 0.981_692_1, 3.0);
    check(OutputKind::NextToken { classes }, &tokens, &[2, 0, 1, -100], 1.740_955_3, 1.0);
    check(OutputKind::NextToken { classes }, &tokens, &[2, 0, 1, 1], 1.574_280_6, 2.0);
}

#[test]
fn spans_are_not_smoothed_and_numbers_cannot_be() {
    let trace = Trace::new();
    let logits = trace.parameter("logits", Shape::new(DType::F32, [4, 1])).unwrap().into();
    let (smoother, config) = (smoothed(), config());
    assert!(smoother.loss(OutputKind::Span, &config, &logits, &Batch::new()).unwrap().is_none());
    let mut batch = Batch::new();
    batch.insert("labels", trace.parameter("labels", Shape::new(DType::F32, [4])).unwrap());
    let kind = OutputKind::PerRow { classes: 1 };
    let error = smoother.loss(kind, &config, &logits, &batch).unwrap_err().to_string();
    assert_eq!(error, "train.loss: cross_entropy does not fit labels that are numbers");
    let settings = LossSettings { label_smoothing: 1.5, ..LossSettings::default() };
    let error = TaskLoss::new(&settings).err().unwrap().to_string();
    assert_eq!(error, "label_smoothing_factor: expected a number from 0 to 1, found 1.5");
}
