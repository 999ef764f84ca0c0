//! Losses, gradients and metrics of preferences against TRL's trainers: `scripts/fixtures/preference_objectives.py`
//! calls theirs for the outputs of a few rows. Whole runs are compared in `tests/end_to_end/training/preferences`.

use serde_json::Value;
use traind_models::tasks::preference::{
    Compared, Cpo, CpoLoss, Kto, Orpo, PreferenceObjective, Reward,
};
use traind_models::{Batch, Logits};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use super::{floats, json_fixture};
use crate::support::{Program, check_close};

/// A case of the fixture: one trainer with some settings.
struct Case<'a> {
    trainer: &'a str,
    settings: &'a Value,
    expect: &'a Value,
    objective: Box<dyn PreferenceObjective>,
}

impl<'a> Case<'a> {
    fn new(case: &'a Value, beta: f64) -> Case<'a> {
        let names = ["cpo", "orpo", "reward", "kto"];
        let trainer = names.into_iter().find(|name| case.get(*name).is_some()).unwrap();
        let settings = &case[trainer];
        let number = |name: &str, default: f64| settings[name].as_f64().unwrap_or(default);
        let loss_type = settings["loss_type"].as_str();
        let objective: Box<dyn PreferenceObjective> = match trainer {
            "cpo" => Box::new(Cpo {
                loss: match loss_type.unwrap() {
                    "sigmoid" => CpoLoss::Sigmoid,
                    "hinge" => CpoLoss::Hinge,
                    "ipo" => CpoLoss::Ipo,
                    _ => CpoLoss::Simpo,
                },
                beta,
                label_smoothing: number("label_smoothing", 0.0),
                cpo_alpha: if loss_type == Some("alphapo") {
                    0.0
                } else {
                    number("cpo_alpha", 1.0)
                },
                simpo_gamma: number("simpo_gamma", 0.5),
                alpha: number("alpha", 0.0),
            }),
            "orpo" => Box::new(Orpo { beta }),
            "reward" => {
                let center_rewards_coefficient = settings["center_rewards_coefficient"].as_f64();
                Box::new(Reward { center_rewards_coefficient })
            }
            _ => Box::new(Kto {
                beta,
                desirable_weight: number("desirable_weight", 1.0),
                undesirable_weight: number("undesirable_weight", 1.0),
                estimates_divergence: loss_type.is_none(),
            }),
        };
        Case { trainer, settings, expect: case, objective }
    }

    /// The rows of the model's batch for each row of the fixture that this case reads.
    fn stride(&self) -> usize {
        2 / self.objective.sequences()
    }
}

/// The rows of the fixture, and behind them an empty slot.
struct Slots<'a> {
    fixture: &'a Value,
    pairs: usize,
    positions: usize,
    classes: usize,
}

impl Slots<'_> {
    /// The values of each row, of which `stride` says how many to step over, and `filling` for the empty slot.
    fn values(&self, name: &str, stride: usize, filling: f32) -> Vec<f32> {
        let values: Vec<f32> = floats(&self.fixture[name]);
        let width = values.len() / (2 * self.pairs);
        let rows = values.chunks(width).step_by(stride);
        let slot = vec![filling; width * 2 / stride];
        rows.flatten().copied().chain(slot).collect()
    }

    /// Values of the rows of the data, once for each sequence, and `filling` for the empty slot.
    fn repeated(&self, values: &[f32], sequences: usize, filling: f32) -> Vec<f32> {
        let slots = values.iter().copied().chain([filling]);
        slots.flat_map(|value| std::iter::repeat_n(value, sequences)).collect()
    }

    /// The arguments of a case, by their names.
    fn arguments(&self, case: &Case<'_>) -> Vec<(&'static str, HostArray)> {
        let (stride, sequences) = (case.stride(), case.objective.sequences());
        let rows = (self.pairs + 1) * sequences;
        let weights = self.repeated(&vec![1.0; self.pairs], sequences, 0.0);
        let of_floats =
            |dims: &[usize], values: Vec<f32>| HostArray::from_f32(dims, &values).unwrap();
        let mut arguments = vec![("sample_weights", of_floats(&[rows], weights))];
        if case.trainer == "reward" {
            let has_margins = case.settings["margins"].as_bool().unwrap_or(true);
            let margins = match has_margins {
                true => floats(&self.fixture["margins"]),
                false => vec![0.0; self.pairs],
            };
            let margins = self.repeated(&margins, sequences, 7.0);
            arguments.push(("labels", of_floats(&[rows], margins)));
            let rewards = self.values("rewards", stride, -50.0);
            arguments.push(("policy", of_floats(&[rows, 1], rewards)));
            return arguments;
        }
        for (name, filling) in [("labels", -100.0), ("attention_mask", 1.0), ("input_ids", 1.0)] {
            let key = match name {
                "attention_mask" => "attention",
                "input_ids" => "ids",
                name => name,
            };
            let values = self.values(key, stride, filling).into_iter().map(|it| it as i32);
            let values: Vec<i32> = values.collect();
            arguments.push((name, HostArray::from_s32(&[rows, self.positions], &values).unwrap()));
        }
        let mut models = ["policy", "reference"];
        if case.settings["swapped"].as_bool() == Some(true) {
            models.reverse();
        }
        let dims = [rows, self.positions, self.classes];
        for (name, key) in ["policy", "reference"].into_iter().zip(models) {
            arguments.push((name, of_floats(&dims, self.values(key, stride, 0.5))));
        }
        if case.trainer == "kto" {
            let desirable = self.fixture["desirable"].as_array().unwrap().iter();
            let is_any = case.settings["undesirable"].as_bool() != Some(true);
            let desirable = desirable.map(|it| f32::from(it.as_bool().unwrap() && is_any));
            let desirable = self.repeated(&desirable.collect::<Vec<_>>(), sequences, 1.0);
            arguments.push(("desirable", of_floats(&[rows], desirable)));
        }
        arguments
    }
}

/// Records the losses of all cases in one program, and returns its arguments.
fn record(trace: &Trace, slots: &Slots<'_>, cases: &[Case<'_>]) -> (Vec<Tensor>, Vec<HostArray>) {
    let (mut outputs, mut values) = (Vec::new(), Vec::new());
    for (at, case) in cases.iter().enumerate() {
        let mut batch = Batch::new();
        for (name, value) in slots.arguments(case) {
            let shape = Shape::new(value.shape().dtype, value.shape().dims.to_vec());
            batch.insert(name, trace.parameter(&format!("{name}{at}"), shape).unwrap());
            values.push(value);
        }
        let policy = batch.get("policy").unwrap().clone();
        let logits = Logits::from(policy.clone());
        let reference = batch.optional("reference").cloned().map(Logits::from);
        let mesh = &Mesh::data_parallel(1).unwrap();
        let reference = reference.as_ref().filter(|_| case.trainer == "kto");
        let compared = Compared { policy: &logits, reference, batch: &batch, mesh };
        let found = case.objective.compare(&compared).unwrap();
        let loss = found.loss.loss_sum.div(&found.loss.weight_sum).unwrap();
        outputs.extend(autodiff::gradients(&loss, &[&policy]).unwrap());
        let sums = found.metric_sums().unwrap();
        outputs.extend([loss, sums.convert(DType::F32).unwrap()]);
    }
    (outputs, values)
}

/// Checks the loss, the gradient and the metrics of a case.
fn check(case: &Case<'_>, slots: &Slots<'_>, found: &[Vec<f32>]) {
    let what = format!("{} {}", case.trainer, case.settings);
    let loss = case.expect["loss"].as_f64().unwrap();
    check_close(&what, &found[1], &[loss as f32], 1e-6 * (1.0 + loss.abs()));
    let gradient = floats(&case.expect["gradient"]);
    let width = gradient.len() / (2 * slots.pairs);
    let rows = gradient.chunks(width).step_by(case.stride()).flatten().copied();
    let slot = vec![0.0; width * case.objective.sequences()];
    let expect: Vec<f32> = rows.chain(slot).collect();
    let largest = expect.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
    check_close(&what, &found[0], &expect, 5e-6 * f64::from(largest));
    let means: Vec<f64> = found[2].iter().map(|sum| f64::from(*sum) / slots.pairs as f64).collect();
    assert_eq!(means.len(), case.objective.columns());
    let metrics = case.expect["metrics"].as_object().unwrap();
    let known = case.objective.metrics();
    assert!(metrics.keys().all(|name| known.iter().any(|metric| metric.name == name)), "{what}");
    for (place, metric) in known.iter().enumerate() {
        let expect = metrics.get(metric.name).map(|value| value.as_f64().unwrap());
        match (metric.value(place, &means), expect) {
            (Some(found), Some(expect)) => {
                let difference = (found - expect).abs() / (1.0 + expect.abs());
                assert!(difference < 2e-6, "{what}: {} is {found}, TRL's is {expect}", metric.name);
            }
            (found, expect) => assert_eq!(found, expect, "{what}: {}", metric.name),
        }
    }
}

#[test]
fn losses_gradients_and_metrics_are_those_of_trl() {
    let fixture = json_fixture("preference_objectives.json");
    let size = |name: &str| fixture[name].as_u64().unwrap() as usize;
    let slots = Slots {
        fixture: &fixture,
        pairs: size("pairs"),
        positions: size("positions"),
        classes: size("classes"),
    };
    let beta = fixture["beta"].as_f64().unwrap();
    let cases = fixture["cases"].as_array().unwrap().iter();
    let cases: Vec<Case<'_>> = cases.map(|case| Case::new(case, beta)).collect();
    let trace = Trace::new();
    let (outputs, arguments) = record(&trace, &slots, &cases);
    let results = Program::compile(&trace, &outputs.iter().collect::<Vec<_>>()).run(&arguments);
    let results: Vec<Vec<f32>> = results.iter().map(|it| it.to_f32().unwrap()).collect();
    for (case, found) in cases.iter().zip(results.chunks(3)) {
        check(case, &slots, found);
    }
}

/// Completions that are certain have finite odds, as have empty slots.
#[test]
fn the_odds_of_certain_completions_are_finite() {
    let trace = Trace::new();
    let parameter =
        |name: &str, dtype, dims: &[usize]| trace.parameter(name, Shape::new(dtype, dims)).unwrap();
    let policy = parameter("policy", DType::F32, &[2, 2, 2]);
    let mut batch = Batch::new();
    for name in ["labels", "input_ids", "attention_mask"] {
        batch.insert(name, parameter(name, DType::S32, &[2, 2]));
    }
    let logits = Logits::from(policy.clone());
    let mesh = &Mesh::data_parallel(1).unwrap();
    let compared = Compared { policy: &logits, reference: None, batch: &batch, mesh };
    let loss = Orpo { beta: 0.1 }.compare(&compared).unwrap().loss.loss_sum;
    let mut outputs = autodiff::gradients(&loss, &[&policy]).unwrap();
    outputs.push(loss);
    let integers = |values: &[i32]| HostArray::from_s32(&[2, 2], values).unwrap();
    let results = Program::compile(&trace, &outputs.iter().collect::<Vec<_>>()).run(&[
        HostArray::from_f32(&[2, 2, 2], &[90.0, 0.0, 0.0, 0.0, 0.0, 90.0, 0.0, 0.0]).unwrap(),
        integers(&[-100, 0, -100, 0]),
        integers(&[1, 0, 1, 0]),
        integers(&[1, 1, 1, 1]),
    ]);
    for result in results {
        let values = result.to_f32().unwrap();
        assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
    }
}
