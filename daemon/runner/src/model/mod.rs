//! The job's model: config, tokenizer, family and weights.
//!
//! Imports `tasks`, `output`, `recipe`, `reporting` and `error`.

mod generator;
pub(crate) mod guide;
mod processor;
mod reference;
mod saved;
mod start_weights;
mod tuning;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use traind_hub::ModelRequest;
use traind_job_file::{JobFile, Model as ModelSection, ModelSource, TaskName};
use traind_loader::{
    ChatTemplate, HuggingFaceTokenizer, LabelEncoder, ModelInputs, TextTokenizer, TokenizerOptions,
};
use traind_models::{
    Error as ModelError, Model, ModelConfig, Task, cross_encoder, registry, weights,
};
use traind_xla::runtime::HostArray;

use crate::error::{RunError, RunResult};
use crate::output::{failed, write_of_several};
use crate::recipe;
use crate::reporting::{Downloads, Journal};
use crate::tasks::{JobTask, PairReading};

pub(crate) use processor::Processor;
pub(crate) use reference::{NamedReference, check_reference};
pub(crate) use saved::SavedParameters;
pub(crate) use tuning::tune;
use vocabulary::Vocabulary;

const FIELD: &str = "model.name_or_path";

/// A model folder and its config.
#[derive(Debug)]
pub(crate) struct ModelFolder {
    pub path: PathBuf,
    pub config: ModelConfig,
}

impl ModelFolder {
    pub(crate) fn open(job: &JobFile, downloads: &Downloads) -> RunResult<ModelFolder> {
        let section = &job.model;
        let request = |id: &str| request(section, id);
        let path = folder_of(FIELD, &section.name_or_path, request, downloads)?;
        refuse_stand_ins(&path)?;
        let vocabulary = Vocabulary::of_run(section, path, downloads.run_dir())?;
        let config = load_config(job, &vocabulary.folder)?;
        let config = vocabulary.settle(section, with_labels(config, section))?;
        let config = generator::settle(section, config, downloads)?;
        Ok(ModelFolder { path: vocabulary.folder, config })
    }

    /// Warns where a job that trains nothing embeds texts by a model that scores pairs of them.
    pub(crate) fn warn_of_scores(&self, job: &JobFile, journal: &Journal) -> RunResult<()> {
        let embeds = job.model.task == TaskName::Embedding && !job.train.do_train;
        if embeds && cross_encoder::scores_pairs(&self.config)? {
            let message = format!(
                "{} scores pairs of texts, and its vectors are those of its layers without the head, which were not \
                 trained to be compared: a job with task: reranker and train.do_predict writes its scores",
                shown(&job.model.name_or_path)
            );
            journal.warn("SCORES_UNREAD", message)?;
        }
        Ok(())
    }

    /// Warns of a chat template by which sentence-transformers would write the texts that the job embeds, or at which
    /// it would fail for pairs. A folder that it has saved says itself what its model reads.
    pub(crate) fn warn_of_template(&self, job: &JobFile, journal: &Journal) -> RunResult<()> {
        let name = shown(&job.model.name_or_path);
        let is_plain = !self.path.join("modules.json").exists();
        let message = match job.model.task {
            TaskName::Embedding if job.train.do_train && is_plain => {
                let Ok(Some(_)) = ChatTemplate::open(&self.path, None) else { return Ok(()) };
                format!(
                    "{name} has a chat template, which sentence-transformers 6 applies to texts: they are read as they \
                     are, and the saved model says so; write the template's words into the rows if they are needed"
                )
            }
            TaskName::Reranker => {
                let PairReading::Unusable(problem) = PairReading::of_model(&self.config)? else {
                    return Ok(());
                };
                format!(
                    "{name} has a chat template for other conversations than pairs of a query and a document, at which \
                     sentence-transformers 6 fails: texts are read as they are, and the saved model says so ({problem})"
                )
            }
            _ => return Ok(()),
        };
        journal.warn("CHAT_TEMPLATE_UNUSED", message)?;
        Ok(())
    }

    /// The length of the longest row that the model can read. Refuses configs that have no model for
    /// the task.
    pub(crate) fn max_positions(&self, section: &ModelSection) -> RunResult<u32> {
        Ok(registry::max_positions(&self.config, recipe::task(section)?)? as u32)
    }

    /// Opens the tokenizer, which cuts rows to `max_length`, else to its own limit, and never to more
    /// than `limit`. Warns where its own limit is more than the model's `positions`.
    pub(crate) fn tokenizer(
        &self,
        job: &JobFile,
        journal: &Journal,
        limit: u32,
        positions: u32,
    ) -> RunResult<HuggingFaceTokenizer> {
        let max_length = job.row_length();
        let tokenizer = HuggingFaceTokenizer::open(&self.path, &TokenizerOptions { max_length })?;
        let tokenizer = match (&job.data.source_lang, &job.data.target_lang) {
            (Some(source), Some(target)) => tokenizer.with_languages(source, target)?,
            _ => tokenizer,
        };
        let own = tokenizer.max_length().filter(|_| max_length.is_none());
        if let Some(length) = own.filter(|length| *length > positions) {
            let message = format!(
                "the tokenizer's model_max_length is {length}, and the model has {positions} \
                 positions: texts are cut to {limit}"
            );
            journal.warn("MAX_LENGTH_CUT", message)?;
        }
        let targets = job.target_length(u32::MAX);
        if job.model.task == TaskName::Seq2SeqLm && targets > positions {
            let message = format!(
                "the default of data.max_target_length is {targets}, and the model has {positions} \
                 positions: texts are cut to {positions}"
            );
            journal.warn("MAX_LENGTH_CUT", message)?;
        }
        Ok(tokenizer.limited_to(limit)?)
    }

    /// The token that pads rows: the tokenizer's, else the config's.
    pub(crate) fn pad_token_id(&self, job: &JobFile, processor: &Processor) -> RunResult<u32> {
        let config_id = self.config.token_id("pad_token_id", i32::MAX as usize)?;
        let own = processor.padding_token(job, &self.path)?;
        Ok(own.or(config_id.map(|id| id as u32)).unwrap_or(0))
    }

    /// Refuses second texts to which the tokenizer gives a segment that the model has not.
    pub(crate) fn check_segments(
        &self,
        job: &JobFile,
        tokenizer: &HuggingFaceTokenizer,
    ) -> RunResult<()> {
        let has_pairs =
            job.data.text_pair.is_some() || job.model.task == TaskName::QuestionAnswering;
        let Some(count) = self.config.size_above_zero("type_vocab_size")?.filter(|_| has_pairs)
        else {
            return Ok(());
        };
        let pair = tokenizer.encode("a", Some("a")).unwrap_or_default();
        let segment = pair.token_type_ids.into_iter().max().unwrap_or_default();
        if usize::from(segment) < count || !tokenizer.model_inputs().token_type_ids {
            return Ok(());
        }
        let problem =
            format!("the tokenizer gives second texts segment {segment}, and there are {count}");
        Err(self.config.error("type_vocab_size", problem).into())
    }

    /// Builds the family's model for the task, with the labels of the data.
    pub(crate) fn build(
        mut self,
        job: &JobFile,
        task: Arc<dyn JobTask>,
        encoder: Option<&LabelEncoder>,
        processor: &Processor,
    ) -> RunResult<OpenModel> {
        task.configure(&mut self.config, encoder);
        if let Some(id) = processor.padding_token(job, &self.path)? {
            self.config.align_padding_token(id);
        }
        if let Some(id) = eos_token_id(job, processor)? {
            self.config.set("eos_token_id", id);
        }
        let section = &job.model;
        let model_task = recipe::task(section)?;
        let mut model = registry::build(self.config, model_task)?;
        check_packing(job, &model)?;
        tune(&mut model, job, model_task)?;
        model.check_vocabulary(processor.text().vocab_size() as usize)?;
        let beside = || self.path.join(generator::FOLDER).display().to_string();
        Ok(OpenModel {
            base: shown(&section.name_or_path),
            generator_base: section.generator.as_ref().map_or_else(beside, shown),
            folder: self.path,
            model: model.into(),
            reference: None,
            model_task,
            task,
            inputs: processor.inputs(job),
            max_length: processor.text().max_length(),
            max_shard_bytes: section.max_shard_size.bytes(),
        })
    }
}

/// A model without weights.
#[derive(Clone)]
pub(crate) struct OpenModel {
    pub folder: PathBuf,
    pub model: Arc<Model>,
    /// The frozen reference, where the job names one.
    pub reference: Option<NamedReference>,
    /// The model's folder or hub id, as the job file has it.
    base: String,
    /// The folder or hub id of the generator that is trained with the model, where there is one.
    generator_base: String,
    model_task: Task,
    pub task: Arc<dyn JobTask>,
    /// The inputs that the tokenizer provides.
    pub inputs: ModelInputs,
    /// The tokens that rows are cut to, where they are tokenized and there is a limit.
    max_length: Option<u32>,
    /// The size of one saved file of weights.
    max_shard_bytes: u64,
}

impl OpenModel {
    /// Opens the reference that the job names, if it does.
    pub(crate) fn with_reference(
        self,
        job: &JobFile,
        downloads: &Downloads,
    ) -> RunResult<OpenModel> {
        let reference = NamedReference::open(job, self.model.as_ref(), downloads)?;
        Ok(OpenModel { reference, ..self })
    }

    /// The bytes of the parameters that are saved.
    pub(crate) fn saved_bytes(&self) -> u64 {
        saved_bytes(self.model.as_ref())
    }

    /// Writes the files that the task has beside config and weights, and returns their names.
    pub(crate) fn write_model_files(&self, folder: &Path) -> RunResult<Vec<String>> {
        let positions = self.model.max_positions() as u32;
        let mut names = Vec::new();
        for (name, content) in self.task.model_files(self.max_length.unwrap_or(positions)) {
            let path = folder.join(name.as_ref());
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(failed("create", parent))?;
            }
            write_of_several(&path, &content)?;
            names.push(name.into_owned());
        }
        Ok(names)
    }

    /// The library that loads the job's output.
    pub(crate) fn library_name(&self, job: &JobFile) -> &'static str {
        if let Some(name) = self.task.library_name() {
            return name;
        }
        let has_adapters = !self.model.adapters().is_empty() && !job.peft.merge;
        if has_adapters { "peft" } else { "transformers" }
    }
}

impl std::fmt::Debug for OpenModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OpenModel").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Returns the model's config for a plan, which reads nothing else and writes nothing.
pub(crate) fn config(job: &JobFile, may_fetch: bool) -> RunResult<ModelConfig> {
    let section = &job.model;
    if let ModelSource::Folder(folder) = &section.name_or_path {
        refuse_stand_ins(folder)?;
    }
    let request = |id: &str| request(section, id);
    let config = planned_config(job, FIELD, &section.name_or_path, request, may_fetch)?;
    let config = vocabulary::planned(section, with_labels(config, section))?;
    generator::planned(section, config, may_fetch)
}

/// Refuses a model's folder in which something else stands in the place of a file, such as a pointer of Git LFS.
fn refuse_stand_ins(folder: &Path) -> RunResult<()> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_of_model(path)).collect();
    files.sort();
    let found = files.iter().find_map(|file| Some((file, traind_loader::stand_in(file)?)));
    match found {
        Some((file, problem)) => {
            let (value, problem) = (file.display().to_string(), problem.to_owned());
            Err(RunError::Field { name: FIELD, value, problem })
        }
        None => Ok(()),
    }
}

/// Whether a file may be one of a model that traind reads.
fn is_of_model(path: &Path) -> bool {
    let ending = path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    ["json", "safetensors", "txt", "model"].contains(&ending) && path.is_file()
}

/// The config in the folder of a job's model or reference, with the overrides of the job.
fn load_config(job: &JobFile, folder: &Path) -> RunResult<ModelConfig> {
    Ok(with_rows(job, ModelConfig::load(folder, &job.model.config_overrides)?))
}

/// The config of the model that `field` names, for a plan, with the overrides of the job.
fn planned_config(
    job: &JobFile,
    field: &'static str,
    source: &ModelSource,
    request: impl FnOnce(&str) -> ModelRequest,
    may_fetch: bool,
) -> RunResult<ModelConfig> {
    let overrides = &job.model.config_overrides;
    Ok(with_rows(job, config_of(field, source, request, overrides, may_fetch)?))
}

/// Asks for the longest rows that the job names, which are beyond the positions of some models.
fn with_rows(job: &JobFile, mut config: ModelConfig) -> ModelConfig {
    let asked = job.data.max_length.max(job.data.block_size);
    config.ask_for_row(asked.unwrap_or_default() as usize);
    config
}

/// An error about the kind of a model, which has no file of its own, names the field that names the model.
fn of_kind(field: &'static str, error: RunError) -> RunError {
    match error {
        RunError::Model(
            error @ (ModelError::UnsupportedTask { .. } | ModelError::UnknownModelType { .. }),
        ) => RunError::Field { name: field, value: String::new(), problem: error.to_string() },
        error => error,
    }
}

/// Returns the config of the model that `field` of the job file names. Writes nothing.
fn config_of(
    field: &'static str,
    source: &ModelSource,
    request: impl FnOnce(&str) -> ModelRequest,
    overrides: &Map<String, Value>,
    may_fetch: bool,
) -> RunResult<ModelConfig> {
    let id = match source {
        ModelSource::Folder(path) => {
            return Ok(ModelConfig::load(&existing_folder(field, path)?, overrides)?);
        }
        ModelSource::Hub(id) => id,
    };
    let found = traind_hub::model_config(&request(id), may_fetch);
    let (path, keys) = found.map_err(|source| RunError::Hub { field, source })?;
    Ok(ModelConfig::new(path, keys).with_overrides(overrides))
}

/// Returns the folder of the model that `field` of the job file names, and fetches it if it is one of
/// the hub.
fn folder_of(
    field: &'static str,
    source: &ModelSource,
    request: impl FnOnce(&str) -> ModelRequest,
    downloads: &Downloads,
) -> RunResult<PathBuf> {
    match source {
        ModelSource::Folder(path) => existing_folder(field, path),
        ModelSource::Hub(id) => downloads.fetch_model(field, request(id)),
    }
}

/// The request for a job's model of the hub.
pub(crate) fn request(section: &ModelSection, id: &str) -> ModelRequest {
    ModelRequest {
        id: id.to_owned(),
        revision: section.revision.clone(),
        with_weights: !section.from_config,
    }
}

fn with_labels(mut config: ModelConfig, section: &ModelSection) -> ModelConfig {
    if let Some(num_labels) = section.num_labels {
        config.set_num_labels(num_labels as usize);
    }
    config
}

fn existing_folder(field: &'static str, path: &Path) -> RunResult<PathBuf> {
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    Err(RunError::Field {
        name: field,
        value: path.display().to_string(),
        problem: "there is no such folder".to_owned(),
    })
}

/// The bytes of the parameters of a model that are saved: with adapters, of those that are trained.
pub(crate) fn saved_bytes(model: &Model) -> u64 {
    let saved = model.parameters().iter().filter(|spec| model.adapters().saves(spec));
    saved.map(|spec| spec.shape.size_bytes() as u64).sum()
}

/// The weights, if `folder` has all of them.
pub(crate) fn all_loaded(folder: &Path, loaded: weights::Loaded) -> RunResult<Vec<HostArray>> {
    let weights::Loaded { arrays, report } = loaded;
    match report.initialized.into_iter().chain(report.missing).next() {
        Some(name) => Err(ModelError::MissingTensor { path: folder.to_owned(), name }.into()),
        None => Ok(arrays),
    }
}

/// The folder or hub id of a model, as the job file has it.
pub(crate) fn shown(source: &ModelSource) -> String {
    match source {
        ModelSource::Folder(path) => path.display().to_string(),
        ModelSource::Hub(id) => id.clone(),
    }
}

/// Refuses to put texts that do not see each other into rows of a model that has no positions for
/// them.
pub(crate) fn check_packing(job: &JobFile, model: &Model) -> RunResult<()> {
    let has_positions = model.inputs().iter().any(|spec| spec.name == "position_ids");
    if has_positions || !job.separates_texts() {
        return Ok(());
    }
    let model_type = model.config().model_type()?;
    let problem = format!("{model_type} reads one text per row; `wrapped` packs without positions");
    let (name, value) = ("data.packing_strategy", job.data.packing_strategy.to_string());
    Err(RunError::Field { name, value, problem })
}

/// The id of the job's own token at the end of texts.
fn eos_token_id(job: &JobFile, processor: &Processor) -> RunResult<Option<u32>> {
    let Some(token) = &job.data.eos_token else { return Ok(None) };
    let id = processor.token_id(token).ok_or_else(|| no_such_token("data.eos_token", token))?;
    Ok(Some(id))
}

/// The error for a token of the job file that the tokenizer lacks.
pub(crate) fn no_such_token(name: &'static str, token: &str) -> RunError {
    let problem = "the tokenizer has no such token".to_owned();
    RunError::Field { name, value: token.to_owned(), problem }
}
