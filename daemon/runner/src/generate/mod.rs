//! `traind-runner generate`: continues prompts, or answers them with an encoder-decoder model.
//!
//! Reads a [`GenerateRequest`] as JSON from standard input and writes a [`GenerateAnswer`] to standard output.
//!
//! Imports `checkpoint`, `decoding`, `model`, `remote` and `output`.

mod source;
mod weights;

use std::path::Path;

use anyhow::Context as _;
use traind_job_file::commands::{
    GenerateAnswer, GenerateRefusal, GenerateRequest, GeneratedText, GeneratedTexts,
};
use traind_loader::{
    BatchAxis, BatchSizes, ChatTemplate, Error as LoaderError, HuggingFaceTokenizer, TextTokenizer,
    TokenizerOptions,
};
use traind_models::Error as ModelError;
use traind_pjrt::{Client, Plugin};
use traind_proto::reasons;
use traind_trainer::Error as TrainerError;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{ExecutableCache, LazyDevice};

use crate::decoding::{GenerationSettings, Generator, LoadedModel, ShardRows};
use crate::error::{RunError, RunResult, explained};
use crate::own_output::answer_request;
use crate::session::{client_options, cores_of};
use source::Found;
use weights::Opened;

/// Lengths are rounded up to a multiple of this, so that few programs serve all prompts.
const LENGTH_STEP: usize = 32;
/// How often a job may remove the newest checkpoint before it is read.
const REMOVALS_MAX: usize = 20;

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    let mut refused = Ok(());
    answer_request(|request| match generate(request) {
        Ok(texts) => Ok(GenerateAnswer::Texts(texts)),
        Err(error) => {
            let message = explained(&error);
            let refusal = GenerateRefusal { reason: reason(error), message: message.clone() };
            refused = Err(anyhow::Error::msg(message));
            Ok(GenerateAnswer::Refusal(refusal))
        }
    })?;
    refused
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

fn generate(request: &GenerateRequest) -> anyhow::Result<GeneratedTexts> {
    let Ready { step, opened, settings, tokenizer, prompts } = read(request)?;
    let mut loaded = load(request, opened, settings.num_beams)?;
    let generator = Generator::new(settings, &loaded.step, request.seed)?;
    let warnings = prompts.iter().find_map(|prompt| generator.warning(prompt.len()));
    let (sizes, rows) = batch(&generator, &loaded, &prompts)?;
    loaded.prepare(sizes)?;
    let generated = generator.generate(&mut loaded, sizes, &[rows])?;
    let texts = request.prompts.iter().zip(generated.into_iter().flatten());
    let texts = texts.map(|(prompt, tokens)| {
        let text = tokenizer.decode(&tokens).context("decode the tokens")?;
        Ok(GeneratedText { prompt: prompt.clone(), text, tokens })
    });
    let texts = texts.collect::<anyhow::Result<_>>()?;
    Ok(GeneratedTexts { step, texts, warnings: warnings.into_iter().collect() })
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
fn read(request: &GenerateRequest) -> anyhow::Result<Ready> {
    for _ in 0..REMOVALS_MAX {
        let found = source::find(&request.source)?;
        let ready = read_folder(request, &found);
        if found.folder.exists() {
            return ready;
        }
    }
    anyhow::bail!("the job removed {REMOVALS_MAX} checkpoints while they were read")
}

fn read_folder(request: &GenerateRequest, found: &Found<'_>) -> anyhow::Result<Ready> {
    let folder = found.folder.as_path();
    let opened = weights::open(found, &request.cache_dir)?;
    let config = opened.model.config();
    let settings = GenerationSettings::of_model(config, folder, &request.settings)?;
    let tokenizer = HuggingFaceTokenizer::open(&opened.tokenizer, &TokenizerOptions::default())?;
    opened.model.check_vocabulary(tokenizer.vocab_size() as usize)?;
    let prompts = encode(request, &opened.tokenizer, &tokenizer)?;
    Ok(Ready { step: found.step, opened, settings, tokenizer, prompts })
}

/// The tokens of the prompts.
fn encode(
    request: &GenerateRequest,
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
fn load(request: &GenerateRequest, opened: Opened, beams: usize) -> RunResult<LoadedModel> {
    let mesh = Mesh::data_parallel(1)?;
    let cache = ExecutableCache::open(&request.cache_dir.join("executables"))?;
    let options = client_options(&request.platform, 1);
    let client = Client::new(Plugin::load(&request.plugin)?, &options)?;
    let cores = cores_of(client, 1, mesh, Some(&cache))?;
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
    let lengths = || prompts.iter().map(Vec::len);
    let [shortest, longest] = [lengths().min(), lengths().max()].map(Option::unwrap_or_default);
    let slots = rounded(generator.slots(longest)?);
    let width = rounded(generator.width(shortest..=longest, slots));
    // A decoder's prompt takes slots of its own, padding included.
    let slots = if loaded.step.has_source() { slots } else { slots.max(width) };
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
