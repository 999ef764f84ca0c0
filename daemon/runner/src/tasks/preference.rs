//! Preferences: the chosen completion of a prompt becomes more probable than the rejected one, or gets the larger
//! reward, or desirable completions become more probable than others.

use std::path::{Path, PathBuf};

use traind_job_file::{JobFile, KtoLoss, TaskName};
use traind_loader::{LabelEncoder, TaskSpec, bos_token};
use traind_models::ModelConfig;
use traind_models::tasks::ProblemType;
use traind_models::tasks::preference::Metric;

use super::{JobTask, KnownRows, Outputs, Reading, language_model, layouts};
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::recipe::step_metrics;
use crate::step::Readout;

pub(super) struct Preference {
    job: JobFile,
    /// The model folder, which has the chat template.
    folder: PathBuf,
}

impl Preference {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> Preference {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        Preference { job: job.clone(), folder: folder.to_owned() }
    }

    fn pairs(&self, reading: &Reading<'_>) -> RunResult<traind_loader::Dpo> {
        let data = &self.job.data;
        Ok(traind_loader::Dpo {
            prompt: data.prompt.clone(),
            chosen: data.chosen.clone(),
            rejected: data.rejected.clone(),
            template: layouts::template(data, &self.folder)?,
            eos_token: language_model::eos_token(data, &self.folder)?,
            layouts: layouts::layouts(&self.job, reading.files, &self.folder)?,
            max_length: reading.max_length,
        })
    }

    fn kto(&self, pairs: traind_loader::Dpo) -> traind_loader::Kto {
        let (data, train) = (&self.job.data, &self.job.train);
        let estimates = self.job.kto.loss_type == KtoLoss::Kto;
        traind_loader::Kto {
            pairs,
            completion: data.completion.clone(),
            label: data.label.clone(),
            rotation: estimates.then_some(train.per_device_train_batch_size),
            is_paired: false,
        }
    }
}

impl JobTask for Preference {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let pairs = self.pairs(reading)?;
        Ok(match self.job.model.task {
            TaskName::Reward => {
                TaskSpec::Reward(traind_loader::Reward::new(pairs, self.job.data.margin.clone()))
            }
            TaskName::Orpo | TaskName::Cpo => {
                let bos_token = bos_token(&self.folder)?;
                TaskSpec::Cpo(traind_loader::Cpo { pairs, bos_token })
            }
            TaskName::Kto => TaskSpec::Kto(self.kto(pairs)),
            _ => TaskSpec::Dpo(pairs),
        })
    }

    /// A reward model is a classifier with one output.
    fn configure(&self, config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {
        if self.job.model.task == TaskName::Reward {
            config.set_num_labels(1);
            if !matches!(ProblemType::of(config), Ok(ProblemType::Regression)) {
                ProblemType::Regression.set(config);
            }
        }
    }

    /// Other objectives than that of dpo compare rows with their batch, or count the tokens of all of its rows.
    fn loss_depends_on_batches(&self) -> bool {
        self.job.model.task != TaskName::Dpo
    }

    fn readout(&self) -> Readout {
        Readout::Preferences
    }

    /// The means of the metrics of batches, which count alike whatever their number of rows, as TRL
    /// logs them.
    fn output_metrics(&self, outputs: &Outputs) -> Metrics {
        let columns = outputs.rows.first().map_or(0, |row| row.values.len());
        let means: Vec<f64> = (0..columns).map(|place| outputs.mean_of_batches(place)).collect();
        let metrics = Metric::values(step_metrics(&self.job), &means);
        metrics.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn metric_names(&self, _rows: &KnownRows<'_>) -> Metrics {
        step_metrics(&self.job).iter().map(|metric| (metric.name.to_owned(), 0.0)).collect()
    }

    fn chat_template(&self) -> RunResult<Option<String>> {
        layouts::chosen_template(&self.job.data, &self.folder)
    }

    fn pipeline_tag(&self) -> &'static str {
        match self.job.model.task {
            TaskName::Reward => "text-classification",
            _ => "text-generation",
        }
    }
}
