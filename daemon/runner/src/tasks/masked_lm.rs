//! Masked language models: masked tokens are predicted from those around them.

use traind_job_file::{Data, JobFile};
use traind_loader::{LabelEncoder, Masking, TaskSpec, TextTokenizer};
use traind_models::ModelConfig;

use super::{JobTask, Outputs, Reading, Scored, language_model};
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::step::Readout;

pub(super) struct MaskedLm {
    data: Data,
    seed: u64,
}

impl MaskedLm {
    pub(super) fn new(job: &JobFile) -> MaskedLm {
        MaskedLm { data: job.data.clone(), seed: job.data_seed() }
    }
}

impl JobTask for MaskedLm {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        Ok(TaskSpec::MaskedLm(traind_loader::MaskedLm {
            text: self.data.text.clone(),
            block_size: self.block_size(reading.max_length),
        }))
    }

    fn configure(&self, _config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {}

    fn block_size(&self, max_length: u32) -> Option<u32> {
        let size = language_model::block_size(self.data.block_size, max_length);
        (!self.data.line_by_line).then_some(size)
    }

    fn masking(&self, tokenizer: &dyn TextTokenizer) -> RunResult<Option<Masking>> {
        // The loader refuses a tokenizer without a mask token.
        let Some(mask_token_id) = tokenizer.mask_token_id() else { return Ok(None) };
        let Data { mlm_probability, whole_word_mask, .. } = self.data;
        let vocab_size = tokenizer.vocab_size();
        let masking =
            Masking::new(self.seed, mlm_probability, whole_word_mask, mask_token_id, vocab_size);
        Ok(Some(masking?))
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
        "fill-mask"
    }
}
