//! The losses of `train.loss` and their gradients against PyTorch's, for rows and for tokens, and the gradients against
//! finite differences.

use std::collections::HashMap;

use safetensors::SafeTensors;
use serde::Deserialize;
use serde_json::json;
use traind_choices::Setting;
use traind_models::tasks::{LabelsKind, Loss, LossSettings, TaskLoss};
use traind_models::{Batch, ModelConfig, OutputKind};
use traind_xla::autodiff::gradients;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::fixture::{floats, folder_of};
use crate::support::{Program, check_close};

/// The classes of the fixture.
const CLASSES: usize = 3;
/// The dimensions of logits of rows, and of tokens.
const DIMS: [&[usize]; 2] = [&[4, CLASSES], &[4, 3, CLASSES]];

/// A case of `scripts/fixtures/losses.py`, as it writes it to `cases.json`.
#[derive(Deserialize)]
struct Case {
    case: String,
    labels: Labels,
    loss: String,
    args: HashMap<String, f64>,
    class_weights: Option<Vec<f64>>,
    label_smoothing: f64,
}

/// The labels that a loss compares logits with.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Labels {
    Classes,
    Flags,
    Numbers,
}

impl Labels {
    const fn kind(self) -> LabelsKind {
        match self {
            Labels::Classes => LabelsKind::Classes,
            Labels::Flags => LabelsKind::Flags,
            Labels::Numbers => LabelsKind::Numbers,
        }
    }

    const fn problem_type(self) -> &'static str {
        match self {
            Labels::Classes => "single_label_classification",
            Labels::Flags => "multi_label_classification",
            Labels::Numbers => "regression",
        }
    }

    /// The array of the fixture.
    const fn array(self) -> &'static str {
        match self {
            Labels::Classes => "labels",
            Labels::Flags => "flags",
            Labels::Numbers => "numbers",
        }
    }
}

impl Case {
    fn settings(&self) -> LossSettings {
        LossSettings {
            class_weights: self.class_weights.clone(),
            label_smoothing: self.label_smoothing,
            ..named(&self.loss, self.args.clone())
        }
    }
}

fn cases() -> Vec<Case> {
    let file = std::fs::read(folder_of("losses").join("cases.json")).unwrap();
    serde_json::from_slice(&file).unwrap()
}

fn named(name: &str, args: HashMap<String, f64>) -> LossSettings {
    LossSettings { name: Some(name.to_owned()), args, ..LossSettings::default() }
}

#[test]
fn losses_are_those_of_pytorch() {
    for case in cases() {
        check(&format!("rows.{}", case.case), &case);
        if case.labels.kind() == LabelsKind::Classes {
            check(&format!("tokens.{}", case.case), &case);
        }
    }
}

/// A loss that was declared has a case for each kind of labels, with each of its settings.
#[test]
fn every_loss_is_compared() {
    let cases = cases();
    for loss in Loss::ALL {
        let own = || cases.iter().filter(|case| case.loss == loss.as_str());
        for kind in loss.labels() {
            let has_case = own().any(|case| case.labels.kind() == *kind);
            assert!(has_case, "scripts/fixtures/losses.py has no case of {loss} for {kind:?}");
        }
        for Setting { name, .. } in loss.settings() {
            let has_case = own().any(|case| case.args.contains_key(*name));
            assert!(has_case, "scripts/fixtures/losses.py has no case of {loss} with {name}");
        }
    }
}

#[test]
fn losses_that_do_not_fit_are_named() {
    let error = |settings: &LossSettings| match TaskLoss::new(settings) {
        Ok(Some(loss)) => traced(&loss, Labels::Classes, 0).err().unwrap(),
        Ok(None) => panic!("the model's own loss"),
        Err(error) => error,
    };
    let error = |settings| error(&settings).to_string();
    let named = |name: &str, args: &[(&str, f64)]| {
        let args = args.iter().map(|(name, value)| ((*name).to_owned(), *value));
        named(name, args.collect())
    };
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
    assert_eq!(
        error(named("focal", &[("alpha", 0.5)])),
        "loss_args alpha is unknown, known are gamma"
    );
    assert_eq!(error(named("mse", &[("beta", 0.5)])), "loss_args beta is unknown, there are none");
    let smoothed = LossSettings { label_smoothing: 0.1, ..named("focal", &[]) };
    let expect = "label_smoothing_factor: expected 0 with the loss focal, found 0.1";
    assert_eq!(error(smoothed), expect);
    for weight in [f64::NAN, -1.0] {
        let class_weights = Some(vec![1.0, weight, 1.0]);
        let found = error(LossSettings { class_weights, ..LossSettings::default() });
        let expect = "class_weights: expected finite numbers of at least 0, found ";
        assert!(found.starts_with(expect), "{found}");
    }
}

/// The mean loss and its gradient with respect to the logits. Parameters: logits, labels, weights of rows.
fn traced(
    loss: &TaskLoss,
    of: Labels,
    tokens: usize,
) -> traind_models::Result<(Trace, [traind_xla::Tensor; 2])> {
    let trace = Trace::new();
    let parameter =
        |name: &str, dtype, dims: &[usize]| trace.parameter(name, Shape::new(dtype, dims)).unwrap();
    let dims = DIMS[tokens];
    let logits = parameter("logits", DType::F32, dims);
    let labels = match of {
        Labels::Classes => parameter("labels", DType::S32, &dims[..dims.len() - 1]),
        Labels::Flags | Labels::Numbers => parameter("labels", DType::F32, dims),
    };
    let mut batch = Batch::new();
    batch.insert("input_ids", labels.clone());
    batch.insert("labels", labels);
    batch.insert("sample_weights", parameter("sample_weights", DType::F32, &dims[..1]));
    let keys = json!({"num_labels": CLASSES, "problem_type": of.problem_type()});
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

fn check(name: &str, case: &Case) {
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
    let loss = TaskLoss::new(&case.settings()).unwrap().unwrap();
    let (trace, [mean, gradient]) = traced(&loss, case.labels, tokens).unwrap();
    let program = Program::compile(&trace, &[&mean, &gradient]);
    let array = format!("{prefix}{}", case.labels.array());
    let labels = match case.labels {
        Labels::Classes => HostArray::from_s32(&dims[..dims.len() - 1], &integers(&array)).unwrap(),
        Labels::Flags | Labels::Numbers => HostArray::from_f32(dims, &values(&array)).unwrap(),
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
