//! Refuses training files whose rows have other numbers of texts than the loss takes, before a run waits for cores.

use traind_job_file::{JobFile, TaskName};
use traind_loader::TaskSpec;

use crate::data::train_columns;
use crate::error::RunResult;
use crate::tasks::{JobTask, Reading};

/// Checks the columns of texts of files that are found quickly.
pub(in crate::plan) fn check(job: &JobFile, task: &dyn JobTask) -> RunResult<()> {
    let is_of_texts = matches!(job.model.task, TaskName::Embedding | TaskName::Reranker);
    if !is_of_texts || !job.train.do_train {
        return Ok(());
    }
    let Some(available) = train_columns(job) else { return Ok(()) };
    let reading = Reading {
        encoder: None,
        labelled: true,
        evaluated: false,
        files: job.data.train.as_ref(),
        max_length: 0,
    };
    match task.task_spec(&reading)?.for_columns(&available) {
        TaskSpec::Embedding(found) if found.sets.is_empty() => task.check_texts(&found.texts),
        TaskSpec::Reranker(found) => task.check_texts(&found.texts),
        _ => Ok(()),
    }
}
