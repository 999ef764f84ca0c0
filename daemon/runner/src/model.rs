//! The job's model: config, tokenizer, family and weights.
//!
//! Imports `tasks`, `control` and `error`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use traind_hub::ModelRequest;
use traind_job_file::{JobFile, Model as ModelSection, ModelSource};
use traind_loader::{
    HuggingFaceTokenizer, LabelEncoder, ModelInputs, TextTokenizer, TokenizerOptions,
};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_proto::v1::ModelLoaded;
use traind_proto::v1::event::Kind;
use traind_xla::runtime::HostArray;

use crate::control::{Downloads, Journal};
use crate::error::{RunError, RunResult};
use crate::tasks::JobTask;

const FIELD: &str = "model.name_or_path";

/// A model folder and its config.
#[derive(Debug)]
pub(crate) struct ModelFolder {
    pub path: PathBuf,
    pub config: ModelConfig,
}

impl ModelFolder {
    pub(crate) fn open(section: &ModelSection, downloads: &Downloads) -> RunResult<ModelFolder> {
        let path = match &section.name_or_path {
            ModelSource::Folder(path) => existing_folder(path)?,
            ModelSource::Hub(id) => downloads.fetch_model(FIELD, request(section, id))?,
        };
        let config = ModelConfig::load(&path, &section.config_overrides)?;
        Ok(ModelFolder { path, config: with_labels(config, section) })
    }

    /// The length of the longest row that the model can read. Refuses configs that have no model for
    /// the task.
    pub(crate) fn max_positions(&self, section: &ModelSection) -> RunResult<u32> {
        Ok(registry::max_positions(&self.config, task(section)?)? as u32)
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
        let max_length = job.data.max_length;
        let tokenizer = HuggingFaceTokenizer::open(&self.path, &TokenizerOptions { max_length })?;
        if let Some(length) = tokenizer.max_length().filter(|length| *length > positions) {
            let message = format!(
                "the tokenizer's model_max_length is {length}, and the model has {positions} \
                 positions: rows are cut to {limit}"
            );
            journal.warn("MAX_LENGTH_CUT", message)?;
        }
        Ok(tokenizer.limited_to(limit)?)
    }

    /// The token that pads rows: the tokenizer's, else the config's.
    pub(crate) fn pad_token_id(&self, tokenizer: &dyn TextTokenizer) -> RunResult<u32> {
        let config_id = self.config.token_id("pad_token_id", i32::MAX as usize)?;
        Ok(tokenizer.pad_token_id().or(config_id.map(|id| id as u32)).unwrap_or(0))
    }

    /// Builds the family's model for the task, with the labels of the data.
    pub(crate) fn build(
        mut self,
        section: &ModelSection,
        task: Arc<dyn JobTask>,
        encoder: Option<&LabelEncoder>,
        tokenizer: &HuggingFaceTokenizer,
    ) -> RunResult<OpenModel> {
        task.configure(&mut self.config, encoder);
        // The Trainer takes the tokenizer's, and GPT-2 looks for it in its rows. Others have built
        // their embeddings by then.
        if let Some(id) = tokenizer.pad_token_id()
            && self.config.model_type()? == "gpt2"
        {
            self.config.set("pad_token_id", id);
        }
        let model = registry::build(self.config, self::task(section)?)?;
        model.check_vocabulary(tokenizer.vocab_size() as usize)?;
        let (inputs, max_shard_bytes) = (tokenizer.model_inputs(), section.max_shard_size.bytes());
        Ok(OpenModel { folder: self.path, model: model.into(), task, inputs, max_shard_bytes })
    }
}

/// A model without weights.
#[derive(Clone)]
pub(crate) struct OpenModel {
    pub folder: PathBuf,
    pub model: Arc<dyn Model>,
    pub task: Arc<dyn JobTask>,
    /// The inputs that the tokenizer provides.
    pub inputs: ModelInputs,
    /// The size of one saved file of weights.
    max_shard_bytes: u64,
}

impl OpenModel {
    /// Reads or draws the weights, in the order of the parameters.
    pub(crate) fn load_weights(
        &self,
        job: &JobFile,
        journal: &Journal,
    ) -> RunResult<Vec<HostArray>> {
        let start = Instant::now();
        let seed = job.train.seed;
        let specs = self.model.parameters();
        let (arrays, report) = if job.model.from_config {
            (weights::initialize(specs, seed)?, weights::LoadReport::default())
        } else {
            let load = match job.model.ignore_mismatched_sizes {
                true => weights::load_fitting,
                false => weights::load,
            };
            let loaded = load(&self.folder, self.model.as_ref(), seed)?;
            (loaded.arrays, loaded.report)
        };
        self.report(journal, &report, start)?;
        Ok(arrays)
    }

    /// Writes config and weights into a folder; `arrays` are in the order of the parameters.
    pub(crate) fn save_weights(&self, folder: &Path, arrays: &[HostArray]) -> RunResult<()> {
        let (config, specs) = (self.model.config(), self.model.parameters());
        Ok(weights::save(folder, config, specs, arrays, self.max_shard_bytes)?)
    }

    /// Records that the weights came from a checkpoint.
    pub(crate) fn report_resumed(&self, journal: &Journal, start: Instant) -> RunResult<()> {
        self.report(journal, &weights::LoadReport::default(), start)
    }

    fn report(
        &self,
        journal: &Journal,
        report: &weights::LoadReport,
        start: Instant,
    ) -> RunResult<()> {
        if !report.missing.is_empty() {
            let message = format!(
                "the weights lack {}; they start with random values",
                report.missing.join(", ")
            );
            journal.warn("WEIGHTS_MISSING", message)?;
        }
        if !report.mismatched.is_empty() {
            let message = format!(
                "the weights have {} in other shapes; they begin with random values",
                report.mismatched.join(", ")
            );
            journal.warn("WEIGHTS_MISMATCHED", message)?;
        }
        let specs = self.model.parameters();
        let initialized =
            report.initialized.iter().chain(&report.missing).chain(&report.mismatched);
        let initialized = initialized.cloned().collect();
        Ok(journal.record(Kind::ModelLoaded(ModelLoaded {
            model_type: self.model.config().model_type()?.to_owned(),
            parameters: specs.iter().map(|spec| spec.shape.element_count() as u64).sum(),
            initialized,
            unexpected: report.unexpected.clone(),
            seconds: start.elapsed().as_secs_f64(),
        }))?)
    }
}

impl std::fmt::Debug for OpenModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OpenModel").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Returns the model's config for a plan, which reads nothing else and writes nothing.
pub(crate) fn config(section: &ModelSection, may_fetch: bool) -> RunResult<ModelConfig> {
    let overrides = &section.config_overrides;
    let config = match &section.name_or_path {
        ModelSource::Folder(path) => ModelConfig::load(&existing_folder(path)?, overrides)?,
        ModelSource::Hub(id) => {
            let found = traind_hub::model_config(&request(section, id), may_fetch);
            let (path, keys) = found.map_err(|source| RunError::Hub { field: FIELD, source })?;
            ModelConfig::new(path, keys).with_overrides(overrides)
        }
    };
    Ok(with_labels(config, section))
}

fn request(section: &ModelSection, id: &str) -> ModelRequest {
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

fn existing_folder(path: &Path) -> RunResult<PathBuf> {
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    Err(RunError::Field {
        name: FIELD,
        value: path.display().to_string(),
        problem: "there is no such folder".to_owned(),
    })
}

fn task(section: &ModelSection) -> RunResult<Task> {
    let name = section.task.to_string();
    Task::from_name(&name).ok_or_else(|| RunError::Field {
        name: "model.task",
        value: name,
        problem: "no such task is implemented".to_owned(),
    })
}
