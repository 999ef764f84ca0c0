//! Losses of scored passages and their gradients, beside sentence-transformers': `scripts/fixtures/rerankers.py` calls
//! its losses of cross encoders for given scores.

use std::sync::Arc;

use serde_json::Value;
use traind_models::Batch;
use traind_models::tasks::embedding::{self, EmbeddingLoss, Peers};
use traind_models::tasks::reranker::{
    BinaryCrossEntropy, CrossEntropy, Lambda, ListNet, MarginMse, Mse, Weighting,
};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use super::{floats, json_fixture};
use crate::support::{Program, check_close};

/// The label of a passage that a list lacks, as the loader has it.
const NO_PASSAGE: f32 = -1e30;

fn weighting(options: &Value) -> Weighting {
    match options["weighting_scheme"].as_str() {
        Some("none") => Weighting::None,
        Some("ndcg_loss1") => Weighting::NdcgLoss1,
        Some("ndcg_loss2") => Weighting::NdcgLoss2,
        Some("lambda_rank") => Weighting::LambdaRank,
        _ => Weighting::NdcgLoss2pp { mu: options["mu"].as_f64().unwrap_or(10.0) },
    }
}

fn loss(options: &Value, passages: usize) -> Arc<dyn EmbeddingLoss> {
    let number = |key: &str, default: f64| options[key].as_f64().unwrap_or(default);
    match options["loss"].as_str().unwrap() {
        "binary_cross_entropy" => {
            Arc::new(BinaryCrossEntropy { passages, pos_weight: number("pos_weight", 1.0) })
        }
        "mse" => Arc::new(Mse { passages }),
        "cross_entropy" => Arc::new(CrossEntropy),
        "margin_mse" => Arc::new(MarginMse { negatives: passages - 1 }),
        "list_net" => Arc::new(ListNet { passages }),
        "lambda" => Arc::new(Lambda {
            passages,
            weighting: weighting(options),
            k: options["k"].as_u64().map(|k| k as usize),
            sigma: number("sigma", 1.0),
            eps: number("eps", 1e-10),
            is_binary: options["reduction_log"] != "natural",
        }),
        other => panic!("{other}"),
    }
}

/// A case of the fixture, for rows of which each core has as many, and behind them an empty slot.
struct Case<'a> {
    fixture: &'a Value,
    case: &'a Value,
    share: usize,
}

impl Case<'_> {
    fn size(&self, value: &Value) -> usize {
        value.as_u64().unwrap() as usize
    }

    /// The sequences of a row, and the numbers that the model has of each.
    fn dims(&self) -> (usize, usize) {
        match self.case["options"]["loss"] == "cross_entropy" {
            true => (1, self.size(&self.fixture["passages"])),
            false => (self.size(&self.case["passages"]), 1),
        }
    }

    /// The numbers of each row of the case, from the numbers of the fixture.
    fn of_rows(&self, core: usize, values: &Value, width: usize, filler: f32) -> Vec<f32> {
        let rows = &values.as_array().unwrap()[core * self.share..(core + 1) * self.share];
        let mut found: Vec<f32> = Vec::new();
        for row in rows {
            let mut row = floats(row);
            row.resize(width, NO_PASSAGE);
            found.extend(row);
        }
        found.extend((0..width).map(|at| filler * at as f32));
        found
    }

    fn label_width(&self, loss: &dyn EmbeddingLoss) -> usize {
        match loss.labels() {
            embedding::RowLabels::Numbers(width) => width,
            _ => 1,
        }
    }

    fn arguments(&self, core: usize, loss: &dyn EmbeddingLoss) -> Vec<HostArray> {
        let slots = self.share + 1;
        let ((passages, numbers), width) = (self.dims(), self.label_width(loss));
        let scores =
            self.of_rows(core, &self.fixture["scores"], self.size(&self.fixture["passages"]), 0.5);
        let all = scores.len() / slots;
        let own: Vec<f32> =
            scores.chunks(all).flat_map(|row| row[..passages * numbers].to_vec()).collect();
        let labels = &self.fixture["labels"][self.case["label"].as_str().unwrap()];
        // Each sequence of a row has its labels and its weight.
        let repeated = |values: &[f32], width: usize| -> Vec<f32> {
            values.chunks(width).flat_map(|row| row.repeat(passages)).collect()
        };
        let labels = repeated(&self.of_rows(core, labels, width, 1.0), width);
        let mut weights = vec![1.0; self.share];
        weights.push(0.0);
        let dims = [slots * passages, width];
        let labels = match loss.labels() {
            embedding::RowLabels::Class => {
                let ids: Vec<i32> = labels.iter().map(|label| *label as i32).collect();
                HostArray::from_s32(&dims[..1], &ids)
            }
            _ if width == 1 => HostArray::from_f32(&dims[..1], &labels),
            _ => HostArray::from_f32(&dims, &labels),
        };
        vec![
            HostArray::from_f32(&[slots * passages, numbers], &own).unwrap(),
            HostArray::from_f32(&[slots * passages], &repeated(&weights, 1)).unwrap(),
            labels.unwrap(),
        ]
    }

    /// The gradient of the scores, the sum of the loss and that of the weights.
    fn traced(
        &self,
        trace: &Trace,
        arguments: &[HostArray],
        loss: &dyn EmbeddingLoss,
        peers: &Peers,
    ) -> [Tensor; 3] {
        let names = ["scores", "sample_weights", "labels"];
        let inputs: Vec<Tensor> = names
            .iter()
            .zip(arguments)
            .map(|(name, array)| trace.parameter(name, array.shape().clone()).unwrap())
            .collect();
        let mut batch = Batch::new();
        batch.insert(names[1], inputs[1].clone());
        batch.insert(names[2], inputs[2].clone());
        let found = embedding::loss(loss, &inputs[0], self.dims().0, &batch, peers);
        let found = found.unwrap().unwrap();
        let gradient = autodiff::gradients(&found.loss_sum, &[&inputs[0]]).unwrap().remove(0);
        [gradient, found.loss_sum, found.weight_sum]
    }

    /// Compares what [`Case::traced`] gives on each core.
    fn check(&self, results: &[Vec<Vec<f32>>]) {
        let case = self.case;
        let what = format!("{} on {} cores", case["options"], results.len());
        let sum = |output: usize| -> f32 { results.iter().map(|core| core[output][0]).sum() };
        let (expect, weight) = (case["loss"].as_f64().unwrap(), sum(2));
        check_close(&what, &[sum(1) / weight], &[expect as f32], 5e-6 * (1.0 + expect.abs()));
        let (passages, numbers) = self.dims();
        let width = passages * numbers;
        let gradients = floats(&case["gradient"]);
        let largest = gradients.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        for (core, found) in results.iter().enumerate() {
            let found: Vec<f32> = found[0].iter().map(|value| value / weight).collect();
            let all = self.size(&self.fixture["passages"]);
            let expect: Vec<f32> = gradients
                [core * self.share * all..(core + 1) * self.share * all]
                .chunks(all)
                .flat_map(|row| row[..width].to_vec())
                .collect();
            let (own, empty) = found.split_at(self.share * width);
            check_close(&what, own, &expect, 1e-5 * f64::from(largest.max(1e-3)));
            check_close(&what, empty, &vec![0.0; empty.len()], 0.0);
        }
    }
}

/// Checks the losses and gradients of cases in one program, with the rows divided over `cores`.
fn check(fixture: &Value, cases: &[&Value], cores: usize) {
    let rows = fixture["rows"].as_u64().unwrap() as usize;
    let cases: Vec<Case<'_>> =
        cases.iter().map(|case| Case { fixture, case, share: rows / cores }).collect();
    let trace = Trace::new();
    let shard = trace.parameter("shard", Shape::scalar(DType::S32)).unwrap();
    let peers = Peers::of_mesh(&Mesh::data_parallel(cores).unwrap(), shard);
    let mut arguments: Vec<Vec<HostArray>> =
        (0..cores).map(|core| vec![HostArray::from_s32(&[], &[core as i32]).unwrap()]).collect();
    let mut outputs = Vec::new();
    for at in &cases {
        let loss = loss(&at.case["options"], at.dims().0);
        let own: Vec<_> = (0..cores).map(|core| at.arguments(core, loss.as_ref())).collect();
        outputs.extend(at.traced(&trace, &own[0], loss.as_ref(), &peers));
        arguments.iter_mut().zip(own).for_each(|(all, own)| all.extend(own));
    }
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let program = Program::compile_for(&trace, &outputs, cores);
    let results: Vec<Vec<Vec<f32>>> = program
        .run_replicas(&arguments)
        .iter()
        .map(|core| core.iter().map(|it| it.to_f32().unwrap()).collect())
        .collect();
    for (place, at) in cases.iter().enumerate() {
        let own = |core: &Vec<Vec<f32>>| core[3 * place..3 * place + 3].to_vec();
        at.check(&results.iter().map(own).collect::<Vec<_>>());
    }
}

#[test]
fn losses_and_gradients_are_those_of_sentence_transformers_on_one_core_and_two() {
    let fixture = json_fixture("rerankers.json");
    let cases: Vec<&Value> = fixture["cases"].as_array().unwrap().iter().collect();
    check(&fixture, &cases, 1);
    // Two cases of the one loss that compares the rows of a batch, and one of a loss that does not.
    let of_two = cases.iter().filter(|case| case["options"]["loss"] == "lambda").take(2);
    check(&fixture, &of_two.chain(&cases[..1]).copied().collect::<Vec<_>>(), 2);
}

/// Scores far apart neither overflow nor lose their gradient.
#[test]
fn losses_of_extreme_scores_are_finite() {
    let trace = Trace::new();
    let scores = trace.parameter("scores", Shape::new(DType::F32, [3, 1])).unwrap();
    let labels = trace.parameter("labels", Shape::new(DType::F32, [3, 3])).unwrap();
    let mut batch = Batch::new();
    batch.insert("labels", labels);
    let weights = trace.full(1.0, Shape::new(DType::F32, [3])).unwrap();
    batch.insert("sample_weights", weights);
    let mut outputs = Vec::new();
    for name in ["binary_cross_entropy", "list_net", "lambda"] {
        let loss = loss(&serde_json::json!({ "loss": name }), 3);
        let found = embedding::loss(loss.as_ref(), &scores, 3, &batch, &Peers::none());
        let found = found.unwrap().unwrap();
        outputs.extend(autodiff::gradients(&found.loss_sum, &[&scores]).unwrap());
        outputs.push(found.loss_sum);
    }
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let labels = [1.0, 0.0, NO_PASSAGE].repeat(3);
    let results = Program::compile(&trace, &outputs).run(&[
        HostArray::from_f32(&[3, 1], &[-900.0, 900.0, 5.0]).unwrap(),
        HostArray::from_f32(&[3, 3], &labels).unwrap(),
    ]);
    for (at, result) in results.iter().enumerate() {
        let values = result.to_f32().unwrap();
        assert!(values.iter().all(|value| value.is_finite()), "{at}: {values:?}");
        // The first passage should go up, and what the list lacks has no gradient.
        assert!(values.len() == 1 || values[0] < 0.0 && values[2] == 0.0, "{at}: {values:?}");
    }
}

/// Equal scores are set apart: half the slope that a pair in the wrong order has.
#[test]
fn equal_scores_have_a_gradient() {
    let trace = Trace::new();
    let scores = trace.parameter("scores", Shape::new(DType::F32, [2, 1])).unwrap();
    let labels = trace.parameter("labels", Shape::new(DType::F32, [2, 2])).unwrap();
    let mut batch = Batch::new();
    batch.insert("labels", labels);
    batch.insert("sample_weights", trace.full(1.0, Shape::new(DType::F32, [2])).unwrap());
    let natural = serde_json::json!({
        "loss": "lambda", "weighting_scheme": "none", "reduction_log": "natural",
    });
    let mut outputs = Vec::new();
    for options in [natural, serde_json::json!({ "loss": "binary_cross_entropy" })] {
        let loss = loss(&options, 2);
        let found = embedding::loss(loss.as_ref(), &scores, 2, &batch, &Peers::none());
        let loss_sum = found.unwrap().unwrap().loss_sum;
        outputs.extend(autodiff::gradients(&loss_sum, &[&scores]).unwrap());
    }
    let results = Program::compile(&trace, &outputs.iter().collect::<Vec<_>>()).run(&[
        HostArray::from_f32(&[2, 1], &[0.0; 2]).unwrap(),
        HostArray::from_f32(&[2, 2], &[1.0, 0.0].repeat(2)).unwrap(),
    ]);
    for result in results {
        check_close("gradient", &result.to_f32().unwrap(), &[-0.5, 0.5], 1e-6);
    }
}
