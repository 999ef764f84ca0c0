//! Opens the model of the job: its config, tokenizer, family and weights.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use traind_job_file::{Model as ModelSection, ModelSource};
use traind_loader::{HuggingFaceTokenizer, TextTokenizer, TokenizerOptions};
use traind_models::tasks::ProblemType;
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_proto::v1::ModelLoaded;
use traind_proto::v1::event::Kind;
use traind_xla::runtime::HostArray;

use crate::context::Context;
use crate::data::Splits;
use crate::failure::{RunError, RunResult};

/// A model folder, read but for its weights.
#[derive(Debug)]
pub(crate) struct ModelFolder {
    pub path: PathBuf,
    pub config: ModelConfig,
}

impl ModelFolder {
    pub(crate) fn open(section: &ModelSection) -> RunResult<ModelFolder> {
        let path = resolve(section)?;
        let mut config = ModelConfig::load(&path, &section.config_overrides)?;
        if let Some(num_labels) = section.num_labels {
            config.set_num_labels(num_labels as usize);
        }
        Ok(ModelFolder { path, config })
    }

    /// Whether labels are numbers and not classes.
    pub(crate) fn is_regression(&self, section: &ModelSection) -> RunResult<bool> {
        let asked = section.num_labels == Some(1);
        let set = self.config.optional_string("problem_type")?;
        Ok(asked || set == Some(ProblemType::Regression.name()))
    }

    /// Rows are cut to the job's `max_length`, else to what the model can read.
    pub(crate) fn tokenizer(
        &self,
        section: &ModelSection,
        max_length: Option<u32>,
    ) -> RunResult<HuggingFaceTokenizer> {
        // The number of positions is each family's own arithmetic.
        let positions =
            registry::build(self.config.clone(), task(section)?)?.max_positions() as u32;
        if let Some(asked) = max_length.filter(|&asked| asked > positions) {
            return Err(RunError::Field {
                name: "data.max_length",
                value: asked.to_string(),
                problem: format!("the model has {positions} positions"),
            });
        }
        let own = HuggingFaceTokenizer::open(&self.path, &TokenizerOptions { max_length })?;
        if own.max_length().is_some_and(|length| length <= positions) {
            return Ok(own);
        }
        let options = TokenizerOptions { max_length: Some(positions) };
        Ok(HuggingFaceTokenizer::open(&self.path, &options)?)
    }

    /// Builds the family's model for the task, with the labels of the data.
    pub(crate) fn build(
        mut self,
        section: &ModelSection,
        splits: &Splits,
        tokenizer: &dyn TextTokenizer,
    ) -> RunResult<OpenModel> {
        match &splits.encoder {
            // Names that only number the classes do not replace the config's.
            Some(encoder) if names_are_numbers(encoder.id2label()) => {
                self.config.set_num_labels(encoder.id2label().len());
            }
            Some(encoder) => self.config.set_labels(encoder.id2label()),
            None => self.config.set_problem_type(ProblemType::Regression),
        }
        let model = registry::build(self.config, task(section)?)?;
        model.check_vocabulary(tokenizer.vocab_size() as usize)?;
        Ok(OpenModel { folder: self.path, model: model.into() })
    }
}

/// A model without weights.
#[derive(Clone)]
pub(crate) struct OpenModel {
    pub folder: PathBuf,
    pub model: Arc<dyn Model>,
}

impl OpenModel {
    /// Reads the weights, or draws them, in the order of the parameters.
    pub(crate) fn load_weights(&self, context: &Context) -> RunResult<Vec<HostArray>> {
        let start = Instant::now();
        let seed = context.spec.job.train.seed;
        let specs = self.model.parameters();
        let (arrays, report) = if context.spec.job.model.from_config {
            (weights::initialize(specs, seed)?, weights::LoadReport::default())
        } else {
            let loaded = weights::load(&self.folder, self.model.as_ref(), seed)?;
            (loaded.arrays, loaded.report)
        };
        self.report(context, &report, start)?;
        Ok(arrays)
    }

    /// Tells of weights that a checkpoint gave.
    pub(crate) fn resumed(&self, context: &Context, start: Instant) -> RunResult<()> {
        self.report(context, &weights::LoadReport::default(), start)
    }

    fn report(
        &self,
        context: &Context,
        report: &weights::LoadReport,
        start: Instant,
    ) -> RunResult<()> {
        if !report.missing.is_empty() {
            let message = format!(
                "the weights lack {}; they begin with random values",
                report.missing.join(", ")
            );
            context.journal.warn("WEIGHTS_MISSING", message)?;
        }
        let specs = self.model.parameters();
        let initialized = report.initialized.iter().chain(&report.missing).cloned().collect();
        Ok(context.journal.record(Kind::ModelLoaded(ModelLoaded {
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

fn resolve(section: &ModelSection) -> RunResult<PathBuf> {
    match &section.name_or_path {
        ModelSource::Folder(path) => folder(path),
        ModelSource::Hub(id) => crate::hub::snapshot(id, section.revision.as_deref()),
    }
}

fn folder(path: &Path) -> RunResult<PathBuf> {
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    Err(RunError::Field {
        name: "model.name_or_path",
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

fn names_are_numbers(names: &[String]) -> bool {
    names.iter().enumerate().all(|(id, name)| *name == format!("LABEL_{id}"))
}
