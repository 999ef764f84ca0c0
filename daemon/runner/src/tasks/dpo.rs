//! Direct preference optimization: the chosen completion of a prompt becomes more probable than the
//! rejected one.

use std::path::{Path, PathBuf};

use traind_job_file::JobFile;
use traind_loader::TaskSpec;
use traind_models::ModelConfig;
use traind_models::tasks::Preference;

use super::{JobTask, Outputs, Reading, language_model, layouts};
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::step::Readout;

pub(super) struct Dpo {
    job: JobFile,
    /// The model folder, which has the chat template.
    folder: PathBuf,
}

impl Dpo {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> Dpo {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        Dpo { job: job.clone(), folder: folder.to_owned() }
    }
}

impl JobTask for Dpo {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let data = &self.job.data;
        Ok(TaskSpec::Dpo(traind_loader::Dpo {
            prompt: data.prompt.clone(),
            chosen: data.chosen.clone(),
            rejected: data.rejected.clone(),
            template: layouts::template(data, &self.folder)?,
            eos_token: language_model::eos_token(data, &self.folder)?,
            layouts: layouts::layouts(&self.job, reading.files, &self.folder)?,
            max_length: reading.max_length,
        }))
    }

    /// Every row is one pair.
    fn loss_depends_on_batches(&self) -> bool {
        false
    }

    fn readout(&self) -> Readout {
        Readout::Preferences
    }

    /// The means of the metrics of batches, which count alike whatever their number of pairs, as TRL
    /// logs them.
    fn output_metrics(&self, outputs: &Outputs) -> Metrics {
        let names = Preference::METRICS.iter().enumerate();
        names.map(|(at, name)| ((*name).to_owned(), outputs.mean_of_batches(at))).collect()
    }

    fn chat_template(&self) -> RunResult<Option<String>> {
        layouts::chosen_template(&self.job.data, &self.folder)
    }

    fn pipeline_tag(&self) -> &'static str {
        "text-generation"
    }
}
