//! The predictions of tokens that batches compute: those that a loss reads, where a program can leave out the others.

use traind_job_file::{JobFile, Platform, TaskName};
use traind_loader::{MaskedShare, Sampler, TokenizedSet};
use traind_xla::kernels::products_are_kernels;

use crate::error::RunResult;

/// The masked tokens that alone are predicted; `None` where all are, or the job masks none.
pub(crate) fn masked_share(job: &JobFile) -> Option<MaskedShare> {
    let share =
        MaskedShare { probability: job.data.mlm_probability, of_words: job.data.whole_word_mask };
    (job.model.task.masks_tokens() && has_whole_batches(job)).then_some(share)
}

/// Whether the tokens of a core's batch are its own: no stages, cores or hosts divide them.
fn has_whole_batches(job: &JobFile) -> bool {
    let parallel = &job.parallel;
    parallel.pipeline == 1 && !parallel.sequence_parallel && job.data_hosts() == 1
}

/// The sampler whose batches compute the predictions that the loss of `set` reads and no others, where that is possible
/// and saves time.
pub(crate) fn predicting(
    job: &JobFile,
    sampler: Sampler,
    set: &TokenizedSet,
) -> RunResult<Sampler> {
    if let Some(share) = masked_share(job) {
        return Ok(sampler.predicting_masked(share));
    }
    let share = match may_leave_predictions_out(job) {
        true => set.predicted_share(&sampler.sampled_rows())?,
        false => None,
    };
    match share.is_some_and(|share| share <= PREDICTED_SHARE_MAX) {
        true => Ok(sampler.predicting_labelled()),
        false => Ok(sampler),
    }
}

/// The share of predictions with a label from which on it takes longer to move the states of these than to compute the
/// others.
const PREDICTED_SHARE_MAX: f64 = 0.9;

/// Whether predictions of the next token are compared with labels that some of them lack, as those of prompts do, and
/// programs leave slots without a token out.
fn may_leave_predictions_out(job: &JobFile) -> bool {
    predicts_next(job.model.task)
        && job.resources.platform == Platform::Cpu
        && job.resources.hosts == 1
        && has_whole_batches(job)
        && products_are_kernels(job.resources.cores as usize)
}

/// Whether a task's loss reads predictions of the next token, and of those the ones with a label alone.
pub(crate) fn predicts_next(task: TaskName) -> bool {
    matches!(task, TaskName::CausalLm | TaskName::Sft | TaskName::Dpo)
}
