//! The losses of `train.loss` and their gradients against PyTorch's, for rows and for tokens, and the gradients against
//! finite differences.

use safetensors::SafeTensors;
use serde_json::json;
use traind_models::tasks::{Loss, LossSettings, TaskLoss};
use traind_models::{Batch, ModelConfig, OutputKind};
use traind_xla::autodiff::gradients;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::fixture::{floats, folder_of};
use crate::support::{Program, check_close};

/// The settings of `scripts/fixtures/losses.py`.
const CLASS_WEIGHTS: [f64; 3] = [0.5, 2.0, 1.25];
const SMOOTHING: f64 = 0.2;
const CLASSES: usize = 3;
/// The dimensions of logits of rows, and of tokens.
const DIMS: [&[usize]; 2] = [&[4, CLASSES], &[4, 3, CLASSES]];

/// A name of the fixture, and the loss that it is of.
type Case = (&'static str, LossSettings);

fn named(name: &str, args: &[(&str, f64)]) -> LossSettings {
    let args = args.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    LossSettings { name: Some(name.to_owned()), args, ..LossSettings::default() }
}

fn class_cases() -> Vec<Case> {
    let class_weights = Some(CLASS_WEIGHTS.to_vec());
    let entropy = |class_weights, label_smoothing| LossSettings {
        class_weights,
        label_smoothing,
        ..named("cross_entropy", &[])
    };
    vec![
        ("cross_entropy", entropy(None, 0.0)),
        ("cross_entropy_weighted", entropy(class_weights.clone(), 0.0)),
        ("cross_entropy_smoothed", entropy(None, SMOOTHING)),
        ("cross_entropy_both", entropy(class_weights.clone(), SMOOTHING)),
        ("focal", named("focal", &[])),
        ("focal_weighted", LossSettings { class_weights, ..named("focal", &[("gamma", 0.5)]) }),
    ]
}

fn number_cases() -> [Case; 3] {
    [
        ("mse", named("mse", &[])),
        ("l1", named("l1", &[])),
        ("smooth_l1", named("smooth_l1", &[("beta", 0.5)])),
    ]
}

fn flag_cases() -> [Case; 2] {
    [
        ("binary_cross_entropy", named("binary_cross_entropy", &[])),
        ("sigmoid_focal", named("focal", &[("gamma", 1.5)])),
    ]
}

#[test]
fn losses_of_classes_are_those_of_pytorch() {
    for (name, settings) in class_cases() {
        check(&format!("rows.{name}"), &settings, "single_label_classification", "labels");
        check(&format!("tokens.{name}"), &settings, "single_label_classification", "labels");
    }
}

#[test]
fn losses_of_flags_and_numbers_are_those_of_pytorch() {
    for (name, settings) in flag_cases() {
        check(&format!("rows.{name}"), &settings, "multi_label_classification", "flags");
    }
    for (name, settings) in number_cases() {
        check(&format!("rows.{name}"), &settings, "regression", "numbers");
    }
}

#[test]
fn every_loss_is_compared() {
    let names = class_cases().into_iter().chain(number_cases()).chain(flag_cases());
    let names: Vec<String> = names.filter_map(|(_, settings)| settings.name).collect();
    for loss in Loss::ALL {
        assert!(names.iter().any(|found| found == loss.as_str()), "no case of {loss}");
    }
}

#[test]
fn losses_that_do_not_fit_are_named() {
    let error = |settings: &LossSettings| match TaskLoss::new(settings) {
        Ok(Some(loss)) => traced(&loss, "single_label_classification", "labels", 0).err().unwrap(),
        Ok(None) => panic!("the model's own loss"),
        Err(error) => error,
    };
    let error = |settings| error(&settings).to_string();
    assert_eq!(
        error(named("mse", &[])),
        "train.loss: mse does not fit labels that are one class each"
    );
    let weights = LossSettings { class_weights: Some(vec![1.0]), ..LossSettings::default() };
    assert_eq!(error(weights), "train.class_weights: 1 number, and the model has 3 classes");
    assert!(error(named("focal", &[("gamma", -1.0)])).starts_with("gamma: expected a finite"));
    assert!(error(named("smooth_l1", &[("beta", 0.0)])).starts_with("beta: expected a finite"));
    assert!(
        error(named("hinge", &[])).starts_with("loss hinge is unknown, known are cross_entropy")
    );
    assert!(TaskLoss::new(&LossSettings::default()).unwrap().is_none());
}

/// The mean loss and its gradient with respect to the logits. Parameters: logits, labels, weights of rows.
fn traced(
    loss: &TaskLoss,
    problem_type: &str,
    labels: &str,
    tokens: usize,
) -> traind_models::Result<(Trace, [traind_xla::Tensor; 2])> {
    let trace = Trace::new();
    let parameter =
        |name: &str, dtype, dims: &[usize]| trace.parameter(name, Shape::new(dtype, dims)).unwrap();
    let dims = DIMS[tokens];
    let logits = parameter("logits", DType::F32, dims);
    let labels = match labels {
        "labels" => parameter("labels", DType::S32, &dims[..dims.len() - 1]),
        _ => parameter("labels", DType::F32, dims),
    };
    let mut batch = Batch::new();
    batch.insert("input_ids", labels.clone());
    batch.insert("labels", labels);
    batch.insert("sample_weights", parameter("sample_weights", DType::F32, &dims[..1]));
    let keys = json!({"num_labels": CLASSES, "problem_type": problem_type});
    let config = ModelConfig::new("config.json", keys.as_object().unwrap().clone());
    let kind = match tokens {
        0 => OutputKind::PerRow { classes: CLASSES },
        _ => OutputKind::PerToken { classes: CLASSES },
    };
    let sums = loss.loss(kind, &config, &logits.clone().into(), &batch)?.unwrap();
    let mean = sums.loss_sum.div(&sums.weight_sum)?;
    let gradient = gradients(&mean, &[&logits])?.remove(0);
    Ok((trace, [mean, gradient]))
}

fn check(name: &str, settings: &LossSettings, problem_type: &str, labels: &str) {
    let file = std::fs::read(folder_of("losses").join("expected.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let values = |name: &str| floats(&tensors, name).unwrap();
    let integers = |name: &str| -> Vec<i32> {
        let data = tensors.tensor(name).unwrap().data().as_chunks().0;
        data.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
    };
    let tokens = usize::from(name.starts_with("tokens."));
    let prefix = ["", "token_"][tokens];
    let (dims, logits) = (DIMS[tokens], values(&format!("{prefix}logits")));
    let loss = TaskLoss::new(settings).unwrap().unwrap();
    let (trace, [mean, gradient]) = traced(&loss, problem_type, labels, tokens).unwrap();
    let program = Program::compile(&trace, &[&mean, &gradient]);
    let labels = match labels {
        "labels" => {
            let labels = integers(&format!("{prefix}labels"));
            HostArray::from_s32(&dims[..dims.len() - 1], &labels).unwrap()
        }
        labels => HostArray::from_f32(dims, &values(labels)).unwrap(),
    };
    let weights = HostArray::from_f32(&dims[..1], &values("weights")).unwrap();
    let run = |logits: &[f32]| -> Vec<Vec<f32>> {
        let logits = HostArray::from_f32(dims, logits).unwrap();
        let results = program.run(&[logits, labels.clone(), weights.clone()]);
        results.iter().map(|array| array.to_f32().unwrap()).collect()
    };
    let found = run(&logits);
    let expect = values(name);
    check_close(name, &found[0], &expect, f64::from(2e-6 * expect[0]));
    check_close(&format!("{name}.grad"), &found[1], &values(&format!("{name}.grad")), 2e-5);
    let mean = |place: usize, change: f32| -> f32 {
        let mut logits = logits.clone();
        logits[place] += change;
        run(&logits)[0][0]
    };
    const STEP: f32 = 1.0 / 64.0;
    for place in [0, 4, logits.len() - 1] {
        let slope = (mean(place, STEP) - mean(place, -STEP)) / (2.0 * STEP);
        let difference = (slope - found[1][place]).abs();
        assert!(difference < 2e-3, "{name}[{place}]: {slope}, the gradient is {}", found[1][place]);
    }
}
