//! Token ids against transformers' `generate`: the cases of `fixtures/generation.json`, which
//! `scripts/fixtures/generation.py` writes, with the models of the fixtures of `traind-models`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use traind_loader::{BatchAxis, BatchSizes};
use traind_models::{ModelConfig, Task, registry, weights};
use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{LazyDevice, LocalCores};

use super::loaded::LoadedModel;
use super::{GenerationSettings, Generator, ShardRows};

/// The positions of the models, and the slots of a text.
const SLOTS: usize = 16;

#[derive(Deserialize)]
struct Case {
    model: String,
    settings: Map<String, Value>,
    /// Token ids of each row.
    inputs: Vec<Vec<i32>>,
    /// The tokens that transformers generated.
    outputs: Vec<Vec<u32>>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../fixtures/generation.json")).unwrap()
}

fn folder(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xla-backend/models/fixtures").join(model)
}

fn device() -> LazyDevice {
    let path = traind_pjrt::installed_plugin("cpu")
        .expect("the CPU plugin is installed by `traind plugins install cpu`");
    let options = CreateOptions::new().with("cpu_device_count", 1);
    let client = Client::new(Plugin::load(path).unwrap(), &options).unwrap();
    LazyDevice::new(
        LocalCores::of_host(client, Mesh::data_parallel(1).unwrap()).unwrap(),
        None,
        GpuOptions::default(),
    )
}

/// The models of one fixture, by their beams: all cases of one share its programs.
struct Models {
    folder: PathBuf,
    task: Task,
    by_beams: BTreeMap<usize, LoadedModel>,
}

impl Models {
    fn of(model: &str) -> Models {
        let is_decoder = model.ends_with("causal-lm");
        let task = if is_decoder { Task::CausalLm } else { Task::Seq2SeqLm };
        Models { folder: folder(model), task, by_beams: BTreeMap::new() }
    }

    fn config(&self) -> ModelConfig {
        ModelConfig::load(&self.folder, &Map::new()).unwrap()
    }

    fn with_beams(&mut self, beams: usize) -> &mut LoadedModel {
        let model = registry::build(self.config(), self.task).unwrap();
        let arrays = weights::load(&self.folder, &model, 0).unwrap().arrays;
        let load = || LoadedModel::new(device(), model.into(), &arrays, beams).unwrap();
        self.by_beams.entry(beams).or_insert_with(load)
    }
}

/// Generates the rows of a case in one batch, with an empty slot and positions of padding.
fn generate(models: &mut Models, case: &Case) -> Vec<Vec<u32>> {
    let settings =
        GenerationSettings::of_model(&models.config(), &models.folder, &case.settings).unwrap();
    let loaded = models.with_beams(settings.num_beams);
    let generator = Generator::new(settings, &loaded.step, 0).unwrap();
    let lengths = || case.inputs.iter().map(Vec::len);
    let [shortest, longest] = [lengths().min(), lengths().max()].map(Option::unwrap);
    let width = generator.width(shortest..=longest, SLOTS).max(longest + 1);
    let rows = case.inputs.len() + 1;
    assert!(generator.slots(longest).unwrap() <= SLOTS);
    let sizes = BatchSizes::of_rows(rows)
        .with(BatchAxis::Positions, width as u32)
        .with(BatchAxis::TargetPositions, SLOTS as u32);
    let mut shard = ShardRows {
        input_ids: vec![0; rows * width],
        attention_mask: vec![0; rows * width],
        numbers: (0..case.inputs.len() as u64).collect(),
    };
    for (row, ids) in case.inputs.iter().enumerate() {
        shard.input_ids[row * width..][..ids.len()].copy_from_slice(ids);
        shard.attention_mask[row * width..][..ids.len()].fill(1);
    }
    loaded.prepare(sizes).unwrap();
    generator.generate(loaded, sizes, &[shard]).unwrap().remove(0)
}

fn check(model: &str) {
    let mut models = Models::of(model);
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.model == model).collect();
    assert!(cases.len() >= 4, "{} cases", cases.len());
    for case in cases {
        let settings = Value::Object(case.settings.clone());
        assert_eq!(generate(&mut models, &case), case.outputs, "{model} with {settings}");
    }
}

#[test]
fn t5_generates_the_tokens_of_transformers() {
    check("t5-seq2seq-lm");
}

#[test]
fn bart_generates_the_tokens_of_transformers() {
    check("bart-seq2seq-lm");
    check("mbart-seq2seq-lm");
}

#[test]
fn gpt2_generates_the_tokens_of_transformers() {
    check("gpt2-causal-lm");
}

#[test]
fn rotary_decoders_generate_the_tokens_of_transformers() {
    check("llama-causal-lm");
    check("mistral-causal-lm");
}

#[test]
fn decoders_of_two_kinds_of_layers_generate_the_tokens_of_transformers() {
    check("gemma2-causal-lm");
    check("gemma3-causal-lm");
    check("smollm3-causal-lm");
    check("olmo2-causal-lm");
    check("olmo3-causal-lm");
}

/// Prompts are shorter than the rows that a LongRoPE has other angles for, and grow beyond them at different steps.
#[test]
fn texts_that_outgrow_short_angles_are_read_anew_as_in_transformers() {
    check("phi3-short-causal-lm");
}
