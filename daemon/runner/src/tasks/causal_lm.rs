//! Causal language models: each token predicts the next.

use traind_job_file::{Data, JobFile};
use traind_loader::TaskSpec;

use super::{JobTask, Outputs, Reading, language_model};
use crate::error::RunResult;
use crate::metrics::Metrics;

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

    fn block_size(&self, max_length: u32) -> Option<u32> {
        Some(language_model::block_size(self.data.block_size, max_length))
    }

    fn output_metrics(&self, outputs: &Outputs) -> Metrics {
        language_model::metrics(outputs)
    }

    fn pipeline_tag(&self) -> &'static str {
        "text-generation"
    }
}
