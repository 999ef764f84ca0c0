//! Losses, gradients and metrics of preference pairs against TRL's DPOTrainer: `scripts/fixtures/preference.py`
//! calls its loss for the logits of a few pairs. Whole runs of it are compared in
//! `tests/end_to_end/training/preferences/dpo.rs`.

use serde_json::{Value, json};
use traind_models::tasks::preference::{
    Compared, Divergence, Dpo, DpoLoss, PreferenceObjective, Preferences,
};
use traind_models::{Batch, Logits};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use super::{floats, json_fixture};
use crate::support::{Program, check_close};

const LOSSES: [(&str, DpoLoss); 15] = [
    ("sigmoid", DpoLoss::Sigmoid),
    ("hinge", DpoLoss::Hinge),
    ("ipo", DpoLoss::Ipo),
    ("exo_pair", DpoLoss::ExoPair),
    ("nca_pair", DpoLoss::NcaPair),
    ("robust", DpoLoss::Robust),
    ("bco_pair", DpoLoss::BcoPair),
    ("sppo_hard", DpoLoss::SppoHard),
    ("aot", DpoLoss::Aot),
    ("aot_unpaired", DpoLoss::AotUnpaired),
    ("apo_zero", DpoLoss::ApoZero),
    ("apo_down", DpoLoss::ApoDown),
    ("discopop", DpoLoss::Discopop),
    ("sft", DpoLoss::Sft),
    ("sigmoid_norm", DpoLoss::SigmoidNorm),
];

/// The objective of a case.
fn preference(case: &Value) -> Dpo {
    let number = |name: &str, default: f64| case[name].as_f64().unwrap_or(default);
    let names = case["loss_type"].as_array().unwrap();
    let losses = names.iter().enumerate().map(|(at, name)| {
        let (_, loss) = LOSSES.into_iter().find(|(known, _)| name == known).unwrap();
        (loss, case["loss_weights"][at].as_f64().unwrap_or(1.0))
    });
    Dpo {
        losses: losses.collect(),
        beta: 0.4,
        label_smoothing: number("label_smoothing", 0.0),
        divergence: match case["f_divergence_type"].as_str() {
            None => Divergence::ReverseKl,
            Some("forward_kl") => Divergence::ForwardKl,
            Some("js_divergence") => Divergence::JensenShannon,
            Some(_) => Divergence::Alpha(number("f_alpha_divergence_coef", 0.5)),
        },
        discopop_tau: number("discopop_tau", 0.05),
        ld_alpha: case["ld_alpha"].as_f64(),
        use_weighting: case["use_weighting"].as_bool().unwrap_or(false),
    }
}

fn compare(objective: &Dpo, policy: &Logits, reference: &Logits, batch: &Batch) -> Preferences {
    let mesh = &Mesh::data_parallel(1).unwrap();
    objective.compare(&Compared { policy, reference: Some(reference), batch, mesh }).unwrap()
}

/// The pairs of the fixture, and behind them an empty slot.
struct Slots {
    /// The sizes of the logits: rows, positions, classes.
    dims: [usize; 3],
    arguments: [HostArray; 4],
}

impl Slots {
    fn new(fixture: &Value) -> Slots {
        let size = |name: &str| fixture[name].as_u64().unwrap() as usize;
        let pairs = size("pairs");
        let dims = [2 * pairs + 2, size("positions"), size("classes")];
        let slot = 2 * dims[1] * dims[2];
        let logits = |name: &str| {
            let filled = (0..slot).map(|at| (at % 5) as f32 - 2.0);
            let values: Vec<f32> = floats(&fixture[name]).into_iter().chain(filled).collect();
            HostArray::from_f32(&dims, &values).unwrap()
        };
        let labels = floats(&fixture["labels"]).into_iter().map(|label| label as i32);
        let labels: Vec<i32> = labels.chain(std::iter::repeat_n(1, 2 * dims[1])).collect();
        let weights = [vec![1.0; 2 * pairs], vec![0.0; 2]].concat();
        let arguments = [
            logits("policy"),
            logits("reference"),
            HostArray::from_s32(&dims[..2], &labels).unwrap(),
            HostArray::from_f32(&dims[..1], &weights).unwrap(),
        ];
        Slots { dims, arguments }
    }
}

/// Checks the mean loss of each case and its gradient, all of one program.
fn check(cases: &[Value], slots: &Slots) {
    let (trace, dims) = (Trace::new(), slots.dims);
    let parameter =
        |name, dtype, dims: &[usize]| trace.parameter(name, Shape::new(dtype, dims)).unwrap();
    let policy = parameter("policy", DType::F32, &dims);
    let reference = parameter("reference", DType::F32, &dims);
    let mut batch = Batch::new();
    batch.insert("labels", parameter("labels", DType::S32, &dims[..2]));
    batch.insert("sample_weights", parameter("weights", DType::F32, &dims[..1]));
    let mut outputs = Vec::new();
    for case in cases {
        let (policy, reference) = (policy.clone(), reference.clone().into());
        let preference = preference(&case["dpo"]);
        let found = compare(&preference, &policy.clone().into(), &reference, &batch);
        let loss = found.loss.loss_sum.div(&found.loss.weight_sum).unwrap();
        outputs.extend(autodiff::gradients(&loss, &[&policy]).unwrap());
        outputs.push(loss);
    }
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let results = Program::compile(&trace, &outputs).run(&slots.arguments);
    let results: Vec<Vec<f32>> = results.iter().map(|it| it.to_f32().unwrap()).collect();
    for (case, found) in cases.iter().zip(results.chunks(2)) {
        let (loss, what) = (case["loss"].as_f64().unwrap(), case["dpo"].to_string());
        check_close(&what, &found[1], &[loss as f32], 1e-6 * (1.0 + loss.abs()));
        let slot = 2 * dims[1] * dims[2];
        let expect = [floats(&case["gradient"]), vec![0.0; slot]].concat();
        let largest = expect.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        check_close(&what, &found[0], &expect, 5e-6 * f64::from(largest));
    }
}

#[test]
fn losses_and_gradients_are_those_of_trl() {
    let fixture = json_fixture("preference.json");
    let cases = fixture["cases"].as_array().unwrap();
    let is_covered = |name: &str| cases.iter().any(|case| case["dpo"]["loss_type"][0] == name);
    assert!(LOSSES.iter().all(|(name, _)| is_covered(name)));
    check(cases, &Slots::new(&fixture));
}

/// Two pairs, of three positions and three classes: the probability of a token of the second is all but 0.
const POLICY: [f32; 36] = [
    0.5, -1.25, 2.0, -0.5, 0.25, 0.75, 1.0, 2.0, 3.0, 0.1, 0.2, 0.3, -1.0, 0.5, 0.0, 2.0, 1.0, 0.0,
    30.0, -40.0, 0.25, 0.0, 0.0, 1.0, 1.5, 1.0, -1.0, 0.3, 0.6, -0.9, 1.0, -1.0, 0.5, 0.0, 0.25,
    0.5,
];
const LABELS: [i32; 12] = [-100, 2, 0, -100, -100, 1, -100, 1, -100, -100, 0, 2];
/// Rewards, accuracy, margin and log-probabilities of each pair.
const METRICS: [f32; 12] = [
    -0.093_345_32,
    0.138_834_43,
    0.0,
    -0.232_179_75,
    -2.120_803_6,
    -0.604_130_6, //
    -14.08,
    -0.145_041_6,
    0.0,
    -13.934_958,
    -70.0,
    -2.029_914,
];

/// Checks the losses of both pairs, and that of the first where the second is an empty slot.
fn check_metrics(loss_type: &str, expect: [f32; 2]) {
    let trace = Trace::new();
    let logits = |name| trace.parameter(name, Shape::new(DType::F32, [4, 3, 3])).unwrap();
    let (policy, reference) = (logits("policy"), logits("reference"));
    let labels = trace.parameter("labels", Shape::new(DType::S32, [4, 3])).unwrap();
    let weights = trace.parameter("weights", Shape::new(DType::F32, [4])).unwrap();
    let mut batch = Batch::new();
    batch.insert("labels", labels);
    batch.insert("sample_weights", weights);
    let settings = json!({"loss_type": [loss_type], "label_smoothing": 0.1});
    let preference = preference(&settings);
    let found = compare(&preference, &policy.into(), &reference.into(), &batch);
    let sums = found.metric_sums().unwrap();
    let outputs = [&found.loss.loss_sum, &found.loss.weight_sum, &found.metrics, &sums];
    let program = Program::compile(&trace, &outputs);
    let shifted = |(at, x): (usize, &f32)| x * 0.5 + ((at * 7) % 5) as f32 * 0.1;
    let reference: Vec<f32> = POLICY.iter().enumerate().map(shifted).collect();
    for (weights, pairs) in [([1.0; 4], 2), ([1.0, 1.0, 0.0, 0.0], 1)] {
        let results = program.run(&[
            HostArray::from_f32(&[4, 3, 3], &POLICY).unwrap(),
            HostArray::from_f32(&[4, 3, 3], &reference).unwrap(),
            HostArray::from_s32(&[4, 3], &LABELS).unwrap(),
            HostArray::from_f32(&[4], &weights).unwrap(),
        ]);
        let results: Vec<Vec<f32>> = results.iter().map(|it| it.to_f32().unwrap()).collect();
        let (loss, what) = (expect[..pairs].iter().sum::<f32>(), loss_type);
        check_close(what, &results[0], &[loss], f64::from(loss) * 2e-6);
        check_close(what, &results[1], &[pairs as f32], 0.0);
        check_close(what, &results[2], &METRICS, 1e-5);
        let sums: Vec<f32> =
            (0..6).map(|at| METRICS[at..6 * pairs].iter().step_by(6).sum()).collect();
        check_close(what, &results[3], &sums, 2e-5);
    }
}

#[test]
fn losses_and_metrics_of_certain_tokens_are_those_of_trl() {
    check_metrics("sigmoid", [0.815_960_4, 13.934_959]);
    check_metrics("hinge", [1.232_179_8, 14.934_958]);
    check_metrics("ipo", [2.936_999_8, 1_315.418_4]);
    check_metrics("robust", [0.844_982_9, 15.676_829]);
}
