//! Supervised fine-tuning: each token of conversations, of completions or of texts predicts the next.

use std::path::{Path, PathBuf};

use traind_job_file::{Data, JobFile};
use traind_loader::TaskSpec;
use traind_models::ModelConfig;

use super::{JobTask, LossDivisor, Outputs, Reading, language_model, layouts};
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::recipe::rows;

pub(super) struct Sft {
    job: JobFile,
    /// Whether the model reads positions, since some rows have several texts.
    position_ids: bool,
    /// The model folder, which has the chat template.
    folder: PathBuf,
}

impl Sft {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> Sft {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        let position_ids = job.separates_texts();
        Sft { job: job.clone(), position_ids, folder: folder.to_owned() }
    }

    /// How texts share rows of a split.
    fn packing(&self, reading: &Reading<'_>) -> Option<traind_loader::PackingStrategy> {
        let Data { packing, eval_packing, packing_strategy, .. } = &self.job.data;
        let packs = eval_packing.filter(|_| reading.evaluated).unwrap_or(*packing);
        packs.then_some(rows::packing_strategy(*packing_strategy))
    }
}

impl JobTask for Sft {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let data = &self.job.data;
        Ok(TaskSpec::Sft(traind_loader::Sft {
            messages: data.messages.clone(),
            prompt: data.prompt.clone(),
            completion: data.completion.clone(),
            text: data.text.clone(),
            template: layouts::template(data, &self.folder)?,
            eos_token: language_model::eos_token(data, &self.folder)?,
            max_length: reading.max_length,
            assistant_only_loss: data.assistant_only_loss,
            completion_only_loss: data.completion_only_loss,
            packing: self.packing(reading),
            layouts: layouts::layouts(&self.job, reading.files, &self.folder)?,
            position_ids: self.position_ids,
        }))
    }

    /// Returns TRL's `mean_token_accuracy`: the mean over batches of the accuracy for the tokens that the loss counts.
    fn output_metrics(&self, outputs: &Outputs) -> Metrics {
        Metrics::from([("mean_token_accuracy".to_owned(), outputs.accuracy.value())])
    }

    /// Returns the number of predicted tokens: TRL's trainer evaluates without the count that it trains with.
    fn loss_divisor(&self) -> LossDivisor {
        LossDivisor::Predicted
    }

    fn chat_template(&self) -> RunResult<Option<String>> {
        layouts::chosen_template(&self.job.data, &self.folder)
    }

    fn pipeline_tag(&self) -> &'static str {
        "text-generation"
    }
}
