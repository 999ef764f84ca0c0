//! Causal language models: each token predicts the next.

use traind_job_file::{Data, JobFile};
use traind_loader::{LabelEncoder, TaskSpec};
use traind_models::ModelConfig;

use super::{JobTask, Outputs, Reading, Scored, language_model};
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::step::Readout;

pub(super) struct CausalLm {
    data: Data,
}

impl CausalLm {
    pub(super) fn new(job: &JobFile) -> CausalLm {
        CausalLm { data: job.data.clone() }
    }
}

impl JobTask for CausalLm {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        Ok(TaskSpec::CausalLm(traind_loader::CausalLm {
            text: self.data.text.clone(),
            block_size: language_model::block_size(self.data.block_size, reading.max_length),
        }))
    }

    fn configure(&self, _config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {}

    fn block_size(&self, max_length: u32) -> Option<u32> {
        Some(language_model::block_size(self.data.block_size, max_length))
    }

    fn readout(&self) -> Readout {
        Readout::CorrectSum
    }

    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        Ok(language_model::metrics(scored.outputs))
    }

    fn metric_names(&self, _classes: usize) -> Metrics {
        language_model::metrics(&Outputs::default())
    }

    fn pipeline_tag(&self) -> &'static str {
        "text-generation"
    }
}
