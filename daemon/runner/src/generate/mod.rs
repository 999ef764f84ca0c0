//! `traind-runner generate`: continues prompts, or answers them with an encoder-decoder model.
//!
//! Reads a [`Request`] as JSON from standard input and writes a [`Reply`] to standard output.
//!
//! Imports `generation` and `session`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use traind_loader::{BatchAxis, BatchSizes, HuggingFaceTokenizer, TextTokenizer, TokenizerOptions};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{ExecutableCache, LazyDevice};

use crate::error::RunResult;
use crate::generation::{GenerationSettings, Generator, LoadedModel, ShardRows};
use crate::session::open_plugin;

/// Lengths are rounded up to a multiple of this, so that few programs serve all prompts.
const LENGTH_STEP: usize = 32;

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// A Hugging Face model folder.
    model: PathBuf,
    prompts: Vec<String>,
    /// Settings above those of the model, by the names of `generation_config.json`.
    #[serde(default)]
    settings: Map<String, Value>,
    /// Determines the tokens that are drawn.
    seed: u64,
    platform: String,
    plugin: PathBuf,
    cache_dir: PathBuf,
}

#[derive(Debug, Serialize)]
pub(crate) struct Reply {
    texts: Vec<Text>,
}

/// What was generated for a prompt.
#[derive(Debug, Serialize)]
struct Text {
    prompt: String,
    /// Without the prompt and without special tokens.
    text: String,
    tokens: Vec<u32>,
}

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    let request: Request =
        serde_json::from_reader(io::stdin().lock()).context("read the request")?;
    let reply = generate(&request)?;
    serde_json::to_writer(io::stdout().lock(), &reply).context("write the texts")
}

fn generate(request: &Request) -> anyhow::Result<Reply> {
    let config = ModelConfig::load(&request.model, &Map::new())?;
    let settings = GenerationSettings::of_model(&config, &request.model, &request.settings)?;
    let task = writing_task(&config);
    let model: Arc<dyn Model> = registry::build(config, task)?.into();
    let tokenizer = HuggingFaceTokenizer::open(&request.model, &TokenizerOptions::default())?;
    model.check_vocabulary(tokenizer.vocab_size() as usize)?;
    let prompts = encode(&tokenizer, &request.prompts)?;
    let mut loaded = load(request, model, settings.num_beams)?;
    let generator = Generator::new(settings, &loaded.step, request.seed)?;
    let (sizes, rows) = batch(&generator, &loaded, &prompts)?;
    loaded.prepare(sizes)?;
    let generated = generator.generate(&mut loaded, sizes, &[rows])?;
    let texts = request.prompts.iter().zip(generated.into_iter().flatten());
    let texts = texts.map(|(prompt, tokens)| {
        let text = tokenizer.decode(&tokens).context("decode the tokens")?;
        Ok(Text { prompt: prompt.clone(), text, tokens })
    });
    Ok(Reply { texts: texts.collect::<anyhow::Result<_>>()? })
}

/// The task of a model that writes texts. Families that have another one name theirs in an error.
fn writing_task(config: &ModelConfig) -> Task {
    let has_source = registry::max_positions(config, Task::Seq2SeqLm).is_ok();
    if has_source { Task::Seq2SeqLm } else { Task::CausalLm }
}

fn encode(tokenizer: &HuggingFaceTokenizer, prompts: &[String]) -> anyhow::Result<Vec<Vec<u32>>> {
    let encode = |prompt: &String| {
        let encoded = tokenizer.encode(prompt, None).context("tokenize the prompt")?;
        anyhow::ensure!(!encoded.input_ids.is_empty(), "the prompt has no tokens");
        Ok(encoded.input_ids)
    };
    prompts.iter().map(encode).collect()
}

/// Puts the model on the first core of the platform.
fn load(request: &Request, model: Arc<dyn Model>, beams: usize) -> anyhow::Result<LoadedModel> {
    let weights::Loaded { arrays, report } = weights::load(&request.model, &*model, 0)?;
    let missing: Vec<String> = report.initialized.into_iter().chain(report.missing).collect();
    anyhow::ensure!(missing.is_empty(), "the weights lack {}", missing.join(", "));
    let mesh = Mesh::data_parallel(1)?;
    let cores = open_plugin(&request.plugin, &request.platform, 1, mesh)?;
    let cache = ExecutableCache::open(&request.cache_dir.join("executables"))?;
    let device = LazyDevice::new(cores, Some(cache), false);
    Ok(LoadedModel::new(device, model, &arrays, beams)?)
}

/// The prompts as one batch, padded behind.
fn batch(
    generator: &Generator,
    loaded: &LoadedModel,
    prompts: &[Vec<u32>],
) -> RunResult<(BatchSizes, ShardRows)> {
    let positions = loaded.step.model.max_positions();
    let rounded = |length: usize| length.next_multiple_of(LENGTH_STEP).min(positions).max(length);
    let longest = prompts.iter().map(Vec::len).max().unwrap_or_default();
    let width = rounded(longest);
    // A decoder's prompt takes slots of its own, padding included.
    let of_prompt = if loaded.step.has_source() { 0 } else { width };
    let slots = rounded(generator.slots(longest)?.max(of_prompt));
    let mut rows = ShardRows {
        input_ids: vec![0; prompts.len() * width],
        attention_mask: vec![0; prompts.len() * width],
        numbers: (0..prompts.len() as u64).collect(),
    };
    for (row, prompt) in prompts.iter().enumerate() {
        for (place, id) in prompt.iter().enumerate() {
            rows.input_ids[row * width + place] = *id as i32;
            rows.attention_mask[row * width + place] = 1;
        }
    }
    let sizes = BatchSizes::of_rows(prompts.len())
        .with(BatchAxis::Positions, width as u32)
        .with(BatchAxis::TargetPositions, slots as u32);
    Ok((sizes, rows))
}
