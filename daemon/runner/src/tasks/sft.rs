//! Supervised fine-tuning: each token of conversations, of completions or of texts predicts the next.

use std::path::{Path, PathBuf};

use traind_job_file::{Data, JobFile, PackingStrategy};
use traind_loader::{ChatTemplate, LabelEncoder, TaskSpec, eos_token};
use traind_models::ModelConfig;

use super::{JobTask, Outputs, Reading, Scored};
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::step::Readout;

pub(super) struct Sft {
    data: Data,
    /// The model folder, which has the chat template.
    folder: PathBuf,
}

impl Sft {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> Sft {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        Sft { data: job.data.clone(), folder: folder.to_owned() }
    }

    fn packing(&self) -> Option<traind_loader::PackingStrategy> {
        self.data.packing.then_some(match self.data.packing_strategy {
            PackingStrategy::Bfd => traind_loader::PackingStrategy::Bfd,
            PackingStrategy::Wrapped => traind_loader::PackingStrategy::Wrapped,
        })
    }
}

impl JobTask for Sft {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let data = &self.data;
        let own_token = match &data.eos_token {
            Some(token) => Some(token.clone()),
            None => eos_token(&self.folder)?,
        };
        Ok(TaskSpec::Sft(traind_loader::Sft {
            messages: data.messages.clone(),
            prompt: data.prompt.clone(),
            completion: data.completion.clone(),
            text: data.text.clone(),
            template: ChatTemplate::open(&self.folder, data.eos_token.as_deref())?,
            eos_token: own_token,
            max_length: reading.max_length,
            assistant_only_loss: data.assistant_only_loss,
            completion_only_loss: data.completion_only_loss,
            packing: self.packing(),
        }))
    }

    fn configure(&self, _config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {}

    fn readout(&self) -> Readout {
        Readout::CorrectSum
    }

    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        Ok(metrics(scored.outputs))
    }

    fn metric_names(&self, _classes: usize) -> Metrics {
        metrics(&Outputs::default())
    }

    fn pipeline_tag(&self) -> &'static str {
        "text-generation"
    }
}

/// Returns the `mean_token_accuracy` of the tokens that the loss counts, as TRL names it.
fn metrics(outputs: &Outputs) -> Metrics {
    let tokens = outputs.weight_sum.max(1.0);
    Metrics::from([("mean_token_accuracy".to_owned(), outputs.correct_sum / tokens)])
}
