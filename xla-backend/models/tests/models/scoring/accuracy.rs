//! The count of labels with the largest logit, for each kind of logits that has labels.

use traind_models::tasks::correct_sum;
use traind_models::{Batch, OutputKind};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::support::{Program, check_close};

/// Four rows or tokens of three classes, of which the largest are 2, 1, 2 and 0: the last has two
/// of them, and the first counts.
const LOGITS: [f32; 12] = [0.5, -1.25, 2.0, -80.0, 90.0, 0.25, 1.0, 2.0, 3.0, 0.75, 0.25, 0.75];

fn check(kind: OutputKind, logit_dims: &[usize], labels: &[i32], weights: &[f32], expect: f32) {
    let trace = Trace::new();
    let label_dims = &logit_dims[..logit_dims.len() - 1];
    let logits = trace.parameter("logits", Shape::new(DType::F32, logit_dims)).unwrap();
    let mut batch = Batch::new();
    batch.insert("labels", trace.parameter("labels", Shape::new(DType::S32, label_dims)).unwrap());
    let rows = Shape::new(DType::F32, [weights.len()]);
    batch.insert("sample_weights", trace.parameter("sample_weights", rows).unwrap());
    let correct = correct_sum(kind, &logits.into(), &batch).unwrap().unwrap();
    let results = Program::compile(&trace, &[&correct]).run(&[
        HostArray::from_f32(logit_dims, &LOGITS).unwrap(),
        HostArray::from_s32(label_dims, labels).unwrap(),
        HostArray::from_f32(&[weights.len()], weights).unwrap(),
    ]);
    check_close(&format!("{kind:?}"), &results[0].to_f32().unwrap(), &[expect], 0.0);
}

#[test]
fn the_largest_logits_of_counted_labels_are_counted() {
    let classes = 3;
    check(OutputKind::PerRow { classes }, &[4, 3], &[2, 0, 2, 0], &[1.0; 4], 3.0);
    // An empty slot counts for nothing, whatever its label is.
    check(OutputKind::PerRow { classes }, &[4, 3], &[2, 0, 2, 0], &[1.0, 1.0, 1.0, 0.0], 2.0);
    let tokens = [2, 2, 3];
    check(OutputKind::PerToken { classes }, &tokens, &[2, -100, 2, 2], &[1.0; 2], 2.0);
    check(OutputKind::NextToken { classes }, &tokens, &[0, 2, 1, 2], &[1.0; 2], 2.0);
    check(OutputKind::NextToken { classes }, &tokens, &[2, -100, 1, 2], &[1.0, 0.0], 0.0);
}

#[test]
fn spans_and_numbers_have_no_largest_logit() {
    let trace = Trace::new();
    let logits = trace.parameter("logits", Shape::new(DType::F32, [4, 1])).unwrap().into();
    assert!(correct_sum(OutputKind::Span, &logits, &Batch::new()).unwrap().is_none());
    let mut batch = Batch::new();
    batch.insert("labels", trace.parameter("labels", Shape::new(DType::F32, [4])).unwrap());
    let kind = OutputKind::PerRow { classes: 1 };
    assert!(correct_sum(kind, &logits, &batch).unwrap().is_none());
}
