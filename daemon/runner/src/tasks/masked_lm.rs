//! Masked language models: masked tokens are predicted from those around them.

use traind_job_file::{Data, JobFile};
use traind_loader::{Masking, Replacements, TaskSpec, TextTokenizer, TokenizedSet};

use super::{JobTask, Outputs, Reading, language_model};
use crate::error::{RunError, RunResult};
use crate::metrics::Metrics;

pub(super) struct MaskedLm {
    data: Data,
    seed: u64,
    replacements: Replacements,
}

impl MaskedLm {
    pub(super) fn new(job: &JobFile) -> MaskedLm {
        let [mask, random] = job.replaced_shares();
        let replacements = Replacements { mask, random };
        MaskedLm { data: job.data.clone(), seed: job.data_seed(), replacements }
    }
}

impl JobTask for MaskedLm {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        Ok(TaskSpec::MaskedLm(traind_loader::MaskedLm {
            text: self.data.text.clone(),
            block_size: self.block_size(reading.max_length),
        }))
    }

    fn block_size(&self, max_length: u32) -> Option<u32> {
        let size = language_model::block_size(self.data.block_size, max_length);
        (!self.data.line_by_line).then_some(size)
    }

    /// Tokens alone do not say where words begin, for the collator of transformers neither.
    fn check_rows(&self, set: &TokenizedSet) -> RunResult<()> {
        if !self.data.whole_word_mask || set.knows_words() {
            return Ok(());
        }
        let problem = "the rows are tokenized already, and do not say where words begin: tokenize with \
                       return_offsets_mapping=True, which adds the column offset_mapping, give rows of \
                       texts, or set it to false";
        let (name, value) = ("data.whole_word_mask", "true".to_owned());
        Err(RunError::Field { name, value, problem: problem.to_owned() })
    }

    fn masking(&self, tokenizer: &dyn TextTokenizer) -> RunResult<Option<Masking>> {
        // The loader refuses a tokenizer without a mask token.
        let Some(mask_token_id) = tokenizer.mask_token_id() else { return Ok(None) };
        let Data { mlm_probability, whole_word_mask, .. } = self.data;
        let vocab_size = tokenizer.vocab_size();
        let masking =
            Masking::new(self.seed, mlm_probability, whole_word_mask, mask_token_id, vocab_size);
        Ok(Some(masking?.with_replacements(self.replacements)))
    }

    fn output_metrics(&self, outputs: &Outputs) -> Metrics {
        language_model::metrics(outputs)
    }

    fn pipeline_tag(&self) -> &'static str {
        "fill-mask"
    }
}
