//! Losses and metrics of preference pairs against the formulas of TRL's DPOTrainer in PyTorch. Whole runs of
//! it are compared in `tests/end_to_end/training/dpo.rs`.

use traind_models::Batch;
use traind_models::tasks::{Preference, PreferenceLoss};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::support::{Program, check_close};

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
fn check(loss_type: PreferenceLoss, expect: [f32; 2]) {
    let trace = Trace::new();
    let logits = |name| trace.parameter(name, Shape::new(DType::F32, [4, 3, 3])).unwrap();
    let (policy, reference) = (logits("policy"), logits("reference"));
    let labels = trace.parameter("labels", Shape::new(DType::S32, [4, 3])).unwrap();
    let weights = trace.parameter("weights", Shape::new(DType::F32, [4])).unwrap();
    let mut batch = Batch::new();
    batch.insert("labels", labels);
    batch.insert("sample_weights", weights);
    let preference = Preference { loss_type, beta: 0.4, label_smoothing: 0.1 };
    let found = preference.compare(&policy.into(), &reference.into(), &batch).unwrap();
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
        let (loss, what) = (expect[..pairs].iter().sum::<f32>(), format!("{loss_type:?}"));
        check_close(&what, &results[0], &[loss], f64::from(loss) * 2e-6);
        check_close(&what, &results[1], &[pairs as f32], 0.0);
        check_close(&what, &results[2], &METRICS, 1e-5);
        let sums: Vec<f32> =
            (0..6).map(|at| METRICS[at..6 * pairs].iter().step_by(6).sum()).collect();
        check_close(&what, &results[3], &sums, 2e-5);
    }
}

#[test]
fn losses_and_metrics_are_those_of_trl() {
    check(PreferenceLoss::Sigmoid, [0.815_960_4, 13.934_959]);
    check(PreferenceLoss::Hinge, [1.232_179_8, 14.934_958]);
    check(PreferenceLoss::Ipo, [2.936_999_8, 1_315.418_4]);
    check(PreferenceLoss::Robust, [0.844_982_9, 15.676_829]);
}
