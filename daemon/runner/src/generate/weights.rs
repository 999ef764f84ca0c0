//! Loads the model of a folder: its own weights, or adapters beside those of their base model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use traind_durable::read_description;
use traind_hub::{ModelRequest, cached_model};
use traind_job_file::{JobFile, ModelSource};
use traind_loader::{HuggingFaceTokenizer, TextTokenizer, TokenizerOptions};
use traind_models::tuning::{add_lora, load_adapter, load_lora, put_adapter};
use traind_models::{Error as ModelError, Model, ModelConfig, Task, registry, weights};
use traind_xla::runtime::HostArray;

use super::source::{ADAPTER_CONFIG, Found};
use crate::error::{RunError, RunResult};
use crate::model::{all_loaded, request, tune};

const BASE: &str = "base_model_name_or_path";

/// A model with its weights, in the order of the parameters.
pub(super) struct Opened {
    pub model: Arc<Model>,
    pub arrays: Vec<HostArray>,
    /// The folder with the tokenizer: that of the base model where adapters have none beside them.
    pub tokenizer: PathBuf,
}

pub(super) fn open(found: &Found<'_>, cache_dir: &Path) -> RunResult<Opened> {
    let folder = &found.folder;
    if !folder.join(ADAPTER_CONFIG).is_file() {
        let config = ModelConfig::load(folder, &Map::new())?;
        refuse_without_texts(&config)?;
        let model: Arc<Model> = registry::build(config.clone(), task_of(&config))?.into();
        let arrays = all_loaded(folder, weights::load(folder, &model, 0)?)?;
        return Ok(Opened { model, arrays, tokenizer: folder.clone() });
    }
    match found.job {
        Some(job) => of_job(folder, job, cache_dir),
        None => of_adapters(folder, cache_dir),
    }
}

/// The adapters of a job, whose base model is the job's.
fn of_job(folder: &Path, job: &JobFile, cache_dir: &Path) -> RunResult<Opened> {
    let base = base_folder(&job.model.name_or_path, |id| request(&job.model, id), cache_dir)?;
    let config = ModelConfig::load(&base, &job.model.config_overrides)?;
    let config = with_tokens_of(folder, config, job.model.pad_vocab_to_multiple_of)?;
    let task = task_of(&config);
    let mut model = registry::build(config, task)?;
    tune(&mut model, job, task)?;
    let loaded = match job.model.from_config {
        true => weights::draw(&model, job.train.seed)?,
        false => weights::load(&base, &model, job.train.seed)?,
    };
    with_adapters([folder, &base], model, all_loaded(&base, loaded)?)
}

/// Adapters whose `adapter_config.json` names their base model.
fn of_adapters(folder: &Path, cache_dir: &Path) -> RunResult<Opened> {
    let of_main = |id: &str| {
        let id = id.to_owned();
        ModelRequest { id, revision: None, with_weights: true }
    };
    let base = base_folder(&named_base(folder)?, of_main, cache_dir)?;
    let config = with_tokens_of(folder, ModelConfig::load(&base, &Map::new())?, None)?;
    let task = task_of(&config);
    let mut model = registry::build(config, task)?;
    let lora = load_lora(folder)?.with_head_of(task, model.config().model_type()?);
    add_lora(&mut model, &lora)?;
    let loaded = weights::load(&base, &model, 0)?;
    with_adapters([folder, &base], model, all_loaded(&base, loaded)?)
}

/// The config with embeddings for all tokens of the adapters' own tokenizer, if they have one, which may have more than
/// that of the base model.
fn with_tokens_of(
    folder: &Path,
    mut config: ModelConfig,
    multiple_of: Option<u32>,
) -> RunResult<ModelConfig> {
    if !HuggingFaceTokenizer::is_in(folder) {
        return Ok(config);
    }
    let tokenizer = HuggingFaceTokenizer::open(folder, &TokenizerOptions::default())?;
    let multiple_of = multiple_of.map(|multiple| multiple as usize);
    config.grow_vocabulary(tokenizer.vocab_size() as usize, multiple_of)?;
    Ok(config)
}

/// The model with the adapters of a folder on the weights of its base model.
fn with_adapters(
    [folder, base]: [&Path; 2],
    model: Model,
    mut arrays: Vec<HostArray>,
) -> RunResult<Opened> {
    put_adapter(&model, &mut arrays, load_adapter(folder, &model)?);
    let tokenizer = if HuggingFaceTokenizer::is_in(folder) { folder } else { base };
    Ok(Opened { model: model.into(), arrays, tokenizer: tokenizer.to_owned() })
}

/// The base model of adapters: a folder, or a model of the hub.
fn named_base(folder: &Path) -> RunResult<ModelSource> {
    let path = folder.join(ADAPTER_CONFIG);
    let read = |source| ModelError::Io { action: "read", path: path.clone(), source };
    let text = read_description(&path).map_err(read)?;
    let keys: Map<String, Value> = serde_json::from_slice(&text)
        .map_err(|source| ModelError::Json { path: path.clone(), source })?;
    let base = keys.get(BASE).and_then(Value::as_str).map(str::to_owned);
    let missing = || ModelConfig::new(path, keys).error(BASE, "expected the base model");
    let base = base.ok_or_else(missing)?;
    Ok(match Path::new(&base).is_dir() {
        true => ModelSource::Folder(base.into()),
        false => ModelSource::Hub(base),
    })
}

/// The folder of a base model, which is fetched by no one now.
fn base_folder(
    source: &ModelSource,
    request: impl FnOnce(&str) -> ModelRequest,
    cache_dir: &Path,
) -> RunResult<PathBuf> {
    let field = "model.name_or_path";
    match source {
        ModelSource::Folder(path) => Ok(path.clone()),
        ModelSource::Hub(id) => {
            cached_model(&request(id), cache_dir).map_err(|source| RunError::Hub { field, source })
        }
    }
}

/// Ends of the names of classes that generate no texts.
const WITHOUT_TEXTS: &[&str] = &[
    "ForImageClassification",
    "ForPreTraining",
    "ForQuestionAnswering",
    "ForSequenceClassification",
    "ForTokenClassification",
];

/// Refuses a model of another task, such as a classifier, which may have all weights of one that generates texts.
fn refuse_without_texts(config: &ModelConfig) -> RunResult<()> {
    let Some(class) = config.architecture() else { return Ok(()) };
    if !WITHOUT_TEXTS.iter().any(|end| class.ends_with(end)) {
        return Ok(());
    }
    Err(config.error("architectures", format!("{class} generates no texts")).into())
}

/// The task of a model that writes texts. Families that have another one name theirs in an error.
fn task_of(config: &ModelConfig) -> Task {
    let has_source = registry::max_positions(config, Task::Seq2SeqLm).is_ok();
    if has_source { Task::Seq2SeqLm } else { Task::CausalLm }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A classifier was told to become a decoder, or generated from a body that was trained for something else.
    #[test]
    fn models_of_other_tasks_generate_no_texts() {
        let check = |class: &str| {
            let Value::Object(keys) = json!({"architectures": [class]}) else { unreachable!() };
            refuse_without_texts(&ModelConfig::new("m/config.json", keys))
                .map_err(|error| error.to_string())
        };
        assert_eq!(check("GPT2LMHeadModel"), Ok(()));
        assert_eq!(check("T5ForConditionalGeneration"), Ok(()));
        let expect =
            "m/config.json: architectures: GPT2ForSequenceClassification generates no texts";
        assert_eq!(check("GPT2ForSequenceClassification"), Err(expect.to_owned()));
    }
}
