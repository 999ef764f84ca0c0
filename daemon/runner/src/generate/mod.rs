//! `traind-runner generate`: continues prompts, or answers them with an encoder-decoder model.
//!
//! Reads a [`Request`] as JSON from standard input and writes a [`Reply`] to standard output, or a [`Refusal`] if
//! it fails.
//!
//! Imports `checkpoint`, `decoding`, `model`, `remote` and `output`.

mod source;
mod weights;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use traind_loader::{
    BatchAxis, BatchSizes, ChatTemplate, Error as LoaderError, HuggingFaceTokenizer, TextTokenizer,
    TokenizerOptions,
};
use traind_models::Error as ModelError;
use traind_proto::reasons;
use traind_trainer::Error as TrainerError;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{ExecutableCache, LazyDevice};

use crate::decoding::{GenerationSettings, Generator, LoadedModel, ShardRows};
use crate::error::{RunError, RunResult};
use crate::session::open_plugin;
use source::{Found, Source};
use weights::Opened;

/// Lengths are rounded up to a multiple of this, so that few programs serve all prompts.
const LENGTH_STEP: usize = 32;
/// How often a job may remove the newest checkpoint before it is read.
const REMOVALS_MAX: usize = 20;

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    source: Source,
    prompts: Vec<String>,
    /// Whether each prompt is a message of the user, for the model's chat template.
    #[serde(default)]
    chat: bool,
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
    /// The steps that the model was trained for, if they are known.
    step: u64,
    texts: Vec<Text>,
}

/// Why there are no texts.
#[derive(Debug, Serialize)]
struct Refusal {
    reason: String,
    message: String,
}

/// The text that was generated for a prompt.
#[derive(Debug, Serialize)]
struct Text {
    prompt: String,
    /// Without the prompt and without special tokens.
    text: String,
    tokens: Vec<u32>,
}

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    let out = crate::own_output::own_output().context("open the standard output")?;
    let request: Request =
        serde_json::from_reader(io::stdin().lock()).context("read the request")?;
    match generate(&request) {
        Ok(reply) => write(out, &reply),
        Err(error) => {
            let message = format!("{error:#}");
            write(out, &Refusal { reason: reason(error), message: message.clone() })?;
            Err(anyhow::Error::msg(message))
        }
    }
}

fn write(mut out: File, answer: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut out, answer).context("write the answer")
}

/// The machine-readable reason of an error.
fn reason(error: anyhow::Error) -> String {
    let of_model = |error: anyhow::Error| error.downcast::<ModelError>().map(RunError::from);
    let of_loader = |error: anyhow::Error| error.downcast::<LoaderError>().map(RunError::from);
    let of_trainer = |error: anyhow::Error| error.downcast::<TrainerError>().map(RunError::from);
    let found = error.downcast::<RunError>().or_else(of_model).or_else(of_loader);
    match found.or_else(of_trainer) {
        Ok(error) => error.failure().reason,
        Err(_) => reasons::GENERATION_FAILED.to_owned(),
    }
}

fn generate(request: &Request) -> anyhow::Result<Reply> {
    let Ready { step, opened, settings, tokenizer, prompts } = read(request)?;
    let mut loaded = load(request, opened, settings.num_beams)?;
    let generator = Generator::new(settings, &loaded.step, request.seed)?;
    let (sizes, rows) = batch(&generator, &loaded, &prompts)?;
    loaded.prepare(sizes)?;
    let generated = generator.generate(&mut loaded, sizes, &[rows])?;
    let texts = request.prompts.iter().zip(generated.into_iter().flatten());
    let texts = texts.map(|(prompt, tokens)| {
        let text = tokenizer.decode(&tokens).context("decode the tokens")?;
        Ok(Text { prompt: prompt.clone(), text, tokens })
    });
    Ok(Reply { step, texts: texts.collect::<anyhow::Result<_>>()? })
}

/// All that the files of a folder determine.
struct Ready {
    step: u64,
    opened: Opened,
    settings: GenerationSettings,
    tokenizer: HuggingFaceTokenizer,
    /// The tokens of each prompt.
    prompts: Vec<Vec<u32>>,
}

/// Finds the folder and reads it. A job that trains may remove a checkpoint meanwhile, which first gives it another
/// name.
fn read(request: &Request) -> anyhow::Result<Ready> {
    for _ in 0..REMOVALS_MAX {
        let found = request.source.find()?;
        let ready = read_folder(request, &found);
        if found.folder.exists() {
            return ready;
        }
    }
    anyhow::bail!("the job removed {REMOVALS_MAX} checkpoints while they were read")
}

fn read_folder(request: &Request, found: &Found<'_>) -> anyhow::Result<Ready> {
    let folder = found.folder.as_path();
    let opened = weights::open(found, &request.cache_dir)?;
    let config = opened.model.config();
    let settings = GenerationSettings::of_model(config, folder, &request.settings)?;
    let tokenizer = HuggingFaceTokenizer::open(folder, &TokenizerOptions::default())?;
    opened.model.check_vocabulary(tokenizer.vocab_size() as usize)?;
    let prompts = encode(request, folder, &tokenizer)?;
    Ok(Ready { step: found.step, opened, settings, tokenizer, prompts })
}

/// The tokens of the prompts.
fn encode(
    request: &Request,
    folder: &Path,
    tokenizer: &HuggingFaceTokenizer,
) -> anyhow::Result<Vec<Vec<u32>>> {
    let template = match request.chat {
        true => Some(
            ChatTemplate::open(folder, None)?
                .with_context(|| format!("{} has no chat template", folder.display()))?,
        ),
        false => None,
    };
    let encode = |prompt: &String| {
        let input_ids = match &template {
            Some(template) => {
                let text = template.render_prompt(prompt)?;
                tokenizer.encode_as_it_is(&text).map(|spanned| spanned.encoded.input_ids)
            }
            None => tokenizer.encode(prompt, None).map(|encoded| encoded.input_ids),
        };
        let input_ids = input_ids.context("tokenize the prompt")?;
        anyhow::ensure!(!input_ids.is_empty(), "the prompt has no tokens");
        Ok(input_ids)
    };
    request.prompts.iter().map(encode).collect()
}

/// Puts the model on the first core of the platform.
fn load(request: &Request, opened: Opened, beams: usize) -> RunResult<LoadedModel> {
    let mesh = Mesh::data_parallel(1)?;
    let cores = open_plugin(&request.plugin, &request.platform, 1, mesh)?;
    let cache = ExecutableCache::open(&request.cache_dir.join("executables"))?;
    let device = LazyDevice::new(cores, Some(cache), GpuOptions::default());
    LoadedModel::new(device, opened.model, &opened.arrays, beams)
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
