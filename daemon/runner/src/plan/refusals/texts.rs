//! Refuses files whose rows have other numbers of texts than the loss takes, or than other splits that are evaluated,
//! before a run waits for cores.

use traind_job_file::JobFile;
use traind_loader::TaskSpec;

use crate::data::{EarlySplits, check_sequences};
use crate::error::RunResult;
use crate::tasks::JobTask;

/// Checks the columns of texts of files that are found quickly.
pub(in crate::plan) fn check(
    job: &JobFile,
    task: &dyn JobTask,
    splits: &EarlySplits,
) -> RunResult<()> {
    let of = |split: &Option<TaskSpec>| {
        let spec = split.as_ref().filter(|_| job.train.do_train)?;
        Some((texts(spec)?.to_vec(), spec.sequences_per_row()))
    };
    if let Some((texts, sequences)) = of(&splits.train) {
        task.check_texts(&texts, sequences)?;
    }
    if let Some((texts, sequences)) = of(&splits.validation) {
        task.check_evaluated_texts(&texts, sequences)?;
    }
    let (Some(validation), Some(test)) = (&splits.validation, &splits.test) else { return Ok(()) };
    let [planned, found] = [validation, test].map(TaskSpec::sequences_per_row);
    check_sequences(job.model.task, "test", texts(test).unwrap_or_default(), found, planned)
}

/// The columns of texts to embed or to score; None where sets have columns of their own, and for other tasks.
fn texts(spec: &TaskSpec) -> Option<&[String]> {
    match spec {
        TaskSpec::Embedding(found) if found.sets.is_empty() => Some(&found.texts),
        TaskSpec::Reranker(found) => Some(&found.texts),
        _ => None,
    }
}
