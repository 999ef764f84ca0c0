//! Losses of embedded texts and their gradients, and the pooling of states, beside sentence-transformers':
//! `scripts/fixtures/embeddings.py` calls its losses for given vectors, and its pooling for models of the fixtures.

use std::sync::Arc;

use serde_json::{Map, Value};
use traind_models::sentence::{PoolingMode, SentenceModules};
use traind_models::tasks::embedding::{
    self, BatchHardTriplet, Contrastive, Cosent, CosineSimilarity, Directions, Distance,
    EmbeddingLoss, Gist, GuideVectors, Hardness, HardnessMode, MarginMse, Matryoshka, Mse,
    MultipleNegativesRanking, OnlineContrastive, Peers, Similarity, Triplet,
};
use traind_models::{Batch, Forward, ModelConfig, ParameterTensors, Task, registry, weights};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use super::{floats, json_fixture};
use crate::fixture::folder_of;
use crate::support::{Program, check_close};

const LOSSES: [&str; 10] = [
    "multiple_negatives_ranking",
    "cosent",
    "cosine_similarity",
    "triplet",
    "contrastive",
    "online_contrastive",
    "batch_hard_triplet",
    "mse",
    "margin_mse",
    "gist",
];
/// The losses that compare the rows of all cores, each with one of its cases.
const COMPARING: [(&str, usize); 8] = [
    ("multiple_negatives_ranking", 3),
    ("multiple_negatives_ranking", 7),
    ("multiple_negatives_ranking", 9),
    ("multiple_negatives_ranking", 10),
    ("cosent", 0),
    ("online_contrastive", 0),
    ("batch_hard_triplet", 0),
    ("gist", 1),
];
/// The texts of a row of the fixture, of which a case has the first ones.
const COLUMNS: usize = 4;

fn fixture() -> Value {
    json_fixture("embeddings.json")
}

/// The loss of a case.
fn loss(case: &Value) -> Arc<dyn EmbeddingLoss> {
    let options = &case["options"];
    let name = options["loss"].as_str().unwrap();
    let texts = case["texts"].as_u64().unwrap() as usize;
    let scale = options["scale"].as_f64().unwrap_or(20.0);
    let similarity = match options["similarity"].as_str() {
        Some("dot_score") => Similarity::DotScore,
        None if name == "margin_mse" => Similarity::DotScore,
        _ => Similarity::CosSim,
    };
    let of_triplets = name.ends_with("triplet");
    let distance = match options["distance_metric"].as_str() {
        Some("manhattan") => Distance::Manhattan,
        Some("euclidean") => Distance::Euclidean,
        None if of_triplets => Distance::Euclidean,
        _ => Distance::Cosine,
    };
    let margin = options["margin"].as_f64().unwrap_or(if of_triplets { 5.0 } else { 0.5 });
    let has = |direction: &str| {
        options["directions"].as_array().is_some_and(|all| all.iter().any(|it| it == direction))
    };
    let loss: Arc<dyn EmbeddingLoss> = match name {
        "multiple_negatives_ranking" => Arc::new(MultipleNegativesRanking {
            scale,
            similarity,
            directions: Directions {
                query_to_query: has("query_to_query"),
                doc_to_query: has("doc_to_query"),
                doc_to_doc: has("doc_to_doc"),
            },
            per_direction: options["partition_mode"] == "per_direction",
            hardness: hardness(options),
        }),
        "cosent" => Arc::new(Cosent { scale, similarity }),
        "cosine_similarity" => Arc::new(CosineSimilarity),
        "triplet" => Arc::new(Triplet { distance, margin }),
        "contrastive" => Arc::new(Contrastive { distance, margin }),
        "online_contrastive" => Arc::new(OnlineContrastive { distance, margin }),
        "batch_hard_triplet" => Arc::new(BatchHardTriplet { distance, margin }),
        "mse" => Arc::new(Mse { width: 6 }),
        "margin_mse" => Arc::new(MarginMse { similarity, negatives: texts - 2 }),
        "gist" => Arc::new(Gist {
            temperature: options["temperature"].as_f64().unwrap_or(0.01),
            margin: options["margin"].as_f64().unwrap_or(0.0),
            is_relative: options["margin_strategy"] == "relative",
            contrasts_anchors: options["contrast_anchors"].as_bool().unwrap_or(true),
            contrasts_positives: options["contrast_positives"].as_bool().unwrap_or(true),
            texts,
            guide: GuideVectors::OfLabels,
            guide_width: 5,
        }),
        other => panic!("{other}"),
    };
    let Some(dims) = options["matryoshka_dims"].as_array() else { return loss };
    let weights = floats(&options["matryoshka_weights"]).into_iter().map(f64::from);
    let dims = dims.iter().map(|dim| dim.as_u64().unwrap() as usize).zip(weights);
    Arc::new(Matryoshka { loss, dims: dims.collect() })
}

fn hardness(options: &Value) -> Option<Hardness> {
    let mode = match options["hardness_mode"].as_str()? {
        "in_batch_negatives" => HardnessMode::InBatchNegatives,
        "hard_negatives" => HardnessMode::HardNegatives,
        "all_negatives" => HardnessMode::AllNegatives,
        other => panic!("{other}"),
    };
    Some(Hardness { mode, strength: options["hardness_strength"].as_f64().unwrap() })
}

/// The rows of one core, and behind them an empty slot.
struct Rows {
    slots: usize,
    width: usize,
    vectors: Vec<f32>,
    labels: Vec<(String, Vec<f32>)>,
}

impl Rows {
    fn of(fixture: &Value, rows: std::ops::Range<usize>) -> Rows {
        let width = fixture["width"].as_u64().unwrap() as usize;
        let slots = rows.len() + 1;
        let some = |values: &Value| -> Vec<f32> {
            let mut found = floats(&Value::from(values.as_array().unwrap()[rows.clone()].to_vec()));
            let of_row = found.len() / rows.len();
            found.extend((0..of_row).map(|at| at as f32 * 0.5));
            found
        };
        let labels = fixture["labels"].as_object().unwrap().iter();
        Rows {
            slots,
            width,
            vectors: some(&fixture["vectors"]),
            labels: labels.map(|(name, values)| (name.clone(), some(values))).collect(),
        }
    }

    /// The arguments of [`traced`], for a core with the place `shard`.
    fn arguments(&self, shard: i32) -> Vec<HostArray> {
        let dims = [self.slots, COLUMNS, self.width];
        let weights: Vec<f32> =
            (0..self.slots).map(|slot| f32::from(u8::from(slot + 1 < self.slots))).collect();
        let mut arguments = vec![
            HostArray::from_f32(&dims, &self.vectors).unwrap(),
            HostArray::from_f32(&[self.slots], &weights).unwrap(),
            HostArray::from_s32(&[], &[shard]).unwrap(),
        ];
        for (name, values) in &self.labels {
            let dims = self.label_dims(values);
            arguments.push(match is_class(name) {
                true => {
                    let ids: Vec<i32> = values.iter().map(|value| value.round() as i32).collect();
                    HostArray::from_s32(&dims, &ids).unwrap()
                }
                false => HostArray::from_f32(&dims, values).unwrap(),
            });
        }
        arguments
    }

    fn label_dims(&self, values: &[f32]) -> Vec<usize> {
        match values.len() / self.slots {
            1 => vec![self.slots],
            width => vec![self.slots, width],
        }
    }
}

fn is_class(label: &str) -> bool {
    ["class", "single"].contains(&label)
}

/// The sums of loss and weights of each case with the gradient of the former, on cores with as many rows.
fn traced(cases: &[Value], rows: &Rows, cores: usize) -> Program {
    let trace = Trace::new();
    let parameter =
        |name: &str, dtype, dims: &[usize]| trace.parameter(name, Shape::new(dtype, dims)).unwrap();
    let vectors = parameter("vectors", DType::F32, &[rows.slots, COLUMNS, rows.width]);
    let weights = parameter("weights", DType::F32, &[rows.slots]);
    let shard = parameter("shard", DType::S32, &[]);
    let labels: Vec<(&str, Tensor)> = rows
        .labels
        .iter()
        .map(|(name, values)| {
            let dtype = if is_class(name) { DType::S32 } else { DType::F32 };
            (name.as_str(), parameter(name, dtype, &rows.label_dims(values)))
        })
        .collect();
    let peers = Peers::of_mesh(&Mesh::data_parallel(cores).unwrap(), shard);
    let mut outputs = Vec::new();
    for case in cases {
        let count = case["texts"].as_u64().unwrap() as usize;
        // Each text of a row has its weight and its label.
        let repeated = |x: &Tensor| {
            let mut dims = x.dims().to_vec();
            dims.insert(1, count);
            let wide = x.unsqueeze(1).unwrap().broadcast_to(&dims).unwrap();
            dims.remove(1);
            dims[0] *= count;
            wide.reshape(&dims).unwrap()
        };
        let mut batch = Batch::new();
        batch.insert("sample_weights", repeated(&weights));
        if let Some((_, label)) = labels.iter().find(|(name, _)| case["label"] == **name) {
            batch.insert("labels", repeated(label));
        }
        let chosen = vectors.slice(1, 0, count).unwrap();
        let embeddings = chosen.reshape(&[rows.slots * count, rows.width]).unwrap();
        let loss = loss(case);
        assert!(loss.texts().contains(&count));
        let found = embedding::loss(loss.as_ref(), &embeddings, count, &batch, &peers);
        let found = found.unwrap().unwrap();
        outputs.extend(autodiff::gradients(&found.loss_sum, &[&vectors]).unwrap());
        outputs.extend([found.loss_sum, found.weight_sum]);
    }
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    Program::compile_for(&trace, &outputs, cores)
}

/// Checks the losses and gradients of `cases`, with the rows divided over `cores`.
fn check(fixture: &Value, cases: &[Value], cores: usize) {
    let count = fixture["rows"].as_u64().unwrap() as usize;
    let share = count / cores;
    let shares: Vec<Rows> =
        (0..cores).map(|core| Rows::of(fixture, core * share..(core + 1) * share)).collect();
    let program = traced(cases, &shares[0], cores);
    let arguments: Vec<_> =
        shares.iter().zip(0..).map(|(rows, shard)| rows.arguments(shard)).collect();
    let results: Vec<Vec<Vec<f32>>> = program
        .run_replicas(&arguments)
        .iter()
        .map(|core| core.iter().map(|it| it.to_f32().unwrap()).collect())
        .collect();
    for (at, case) in cases.iter().enumerate() {
        let what = format!("{} on {cores} cores", case["options"]);
        let sum = |output: usize| -> f32 { results.iter().map(|it| it[3 * at + output][0]).sum() };
        let (loss, weight) = (case["loss"].as_f64().unwrap(), sum(2));
        assert_eq!(weight, count as f32);
        check_close(&what, &[sum(1) / weight], &[loss as f32], 3e-6 * (1.0 + loss.abs()));
        let (texts, width) = (case["texts"].as_u64().unwrap() as usize, shares[0].width);
        let expect = floats(&case["gradient"]);
        let largest = expect.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        for (place, core) in results.iter().enumerate() {
            let first = place * share;
            let gradient: Vec<f32> = core[3 * at].iter().map(|value| value / weight).collect();
            for row in 0..share {
                let found = &gradient[row * COLUMNS * width..][..texts * width];
                let expect = &expect[(first + row) * texts * width..][..texts * width];
                check_close(&what, found, expect, 1e-5 * f64::from(largest.max(1e-3)));
            }
            let empty = &gradient[share * COLUMNS * width..];
            check_close(&what, empty, &vec![0.0; empty.len()], 0.0);
        }
    }
}

#[test]
fn losses_and_gradients_are_those_of_sentence_transformers() {
    let fixture = fixture();
    let cases = fixture["cases"].as_array().unwrap();
    let is_covered = |name: &str| cases.iter().any(|case| case["options"]["loss"] == name);
    assert!(LOSSES.iter().all(|name| is_covered(name)));
    check(&fixture, cases, 1);
}

/// The rows of the other cores are negatives too, and gradients flow back to them.
#[test]
fn losses_do_not_depend_on_the_number_of_cores() {
    let fixture = fixture();
    let cases = fixture["cases"].as_array().unwrap();
    let nth = |(name, at): (&str, usize)| {
        let mut of_loss = cases.iter().filter(|case| case["options"]["loss"] == name);
        of_loss.nth(at).unwrap().clone()
    };
    let cases = COMPARING.map(nth);
    check(&fixture, &cases, 2);
}

/// Adam makes a whole step of a gradient that rounding leaves.
#[test]
fn a_row_without_negatives_has_no_gradient() {
    let fixture = fixture();
    let is_alone = |case: &&Value| {
        let loss = case["options"]["loss"].as_str().unwrap();
        let is_joint = case["options"]["directions"].is_null();
        ["multiple_negatives_ranking", "gist"].contains(&loss) && case["texts"] == 2 && is_joint
    };
    let cases = fixture["cases"].as_array().unwrap().iter().filter(is_alone).cloned();
    let cases: Vec<Value> = cases.collect();
    let count = fixture["rows"].as_u64().unwrap() as usize;
    let rows: Vec<Rows> = (0..count).map(|row| Rows::of(&fixture, row..row + 1)).collect();
    let program = traced(&cases, &rows[0], 1);
    for rows in &rows {
        let results = program.run(&rows.arguments(0));
        for (case, outputs) in cases.iter().zip(results.chunks(3)) {
            let gradient = outputs[0].to_f32().unwrap();
            assert!(
                gradient.iter().all(|value| *value == 0.0),
                "{}: {gradient:?}",
                case["options"]
            );
        }
    }
}

/// Checks the vectors of a model by each pooling, and those scaled to the length 1.
fn check_pooled(case: &Value) {
    let name = case["model"].as_str().unwrap();
    let folder = folder_of(name);
    let mut config = ModelConfig::load(&folder, &Map::new()).unwrap();
    config.set_sentence_modules(SentenceModules {
        pooling: PoolingMode::ALL.to_vec(),
        ..SentenceModules::default()
    });
    let model = registry::build(config.clone(), Task::Embedding).unwrap();
    let loaded = weights::load(&folder, &model, 0).unwrap();
    assert!(loaded.report.missing.is_empty(), "{name}: {:?}", loaded.report);
    assert!(model.parameters().iter().all(|spec| !spec.name.starts_with("model.")), "{name}");
    config.set_sentence_modules(SentenceModules { normalize: true, ..SentenceModules::default() });
    let normalized = registry::build(config, Task::Embedding).unwrap();
    let trace = Trace::new();
    let rows = case["ids"].as_array().unwrap().len();
    let ids = |key: &str| -> HostArray {
        let values: Vec<i32> = floats(&case[key]).into_iter().map(|id| id as i32).collect();
        HostArray::from_s32(&[rows, values.len() / rows], &values).unwrap()
    };
    let (mut batch, mut arguments) = (Batch::new(), vec![ids("ids"), ids("mask")]);
    for (name, array) in ["input_ids", "attention_mask"].into_iter().zip(&arguments) {
        batch.insert(name, trace.parameter(name, array.shape().clone()).unwrap());
    }
    let tensors = model
        .parameters()
        .iter()
        .map(|spec| (spec.name.clone(), trace.parameter(&spec.name, spec.shape.clone()).unwrap()));
    let parameters = ParameterTensors::new(tensors.collect::<Vec<_>>());
    let forward = Forward {
        trace: &trace,
        parameters: &parameters,
        random: None,
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let [pooled, scaled] =
        [&model, &normalized].map(|model| model.forward(&forward, &batch).unwrap().logits.values);
    arguments.extend(loaded.arrays);
    let results = Program::compile(&trace, &[&pooled, &scaled]).run(&arguments);
    let [pooled, scaled] = [0, 1].map(|at| results[at].to_f32().unwrap());
    let width = scaled.len() / rows;
    for (place, mode) in PoolingMode::ALL.iter().enumerate() {
        let expect = floats(&case["vectors"][mode.as_str()]);
        for row in 0..rows {
            let found = &pooled[(row * PoolingMode::ALL.len() + place) * width..][..width];
            let what = format!("{name}, {}, row {row}", mode.as_str());
            check_close(&what, found, &expect[row * width..][..width], 1e-5);
        }
    }
    for (row, found) in scaled.chunks(width).enumerate() {
        let mean = &floats(&case["vectors"]["mean"])[row * width..][..width];
        let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
        let expect: Vec<f32> = mean.iter().map(|value| value / length).collect();
        check_close(name, found, &expect, 1e-5);
    }
}

#[test]
fn states_are_pooled_as_by_sentence_transformers() {
    fixture()["pooled"].as_array().unwrap().iter().for_each(check_pooled);
}
