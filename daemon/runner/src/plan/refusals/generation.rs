//! Refuses settings of generated texts that cannot work with the model, before a run waits for cores.

use std::path::Path;
use std::sync::Arc;

use traind_choices::GENERATION_CONFIG;
use traind_job_file::{JobFile, ModelSource};
use traind_models::Model;

use crate::error::RunResult;
use crate::evaluation::check_generation;

/// Checks the settings where those of the model are on this host.
pub(in crate::plan) fn check(job: &JobFile, model: &Arc<Model>) -> RunResult<()> {
    let folder = model.config().path().parent().unwrap_or(Path::new("."));
    let is_known = matches!(job.model.name_or_path, ModelSource::Folder(_))
        || folder.join(GENERATION_CONFIG).exists();
    match is_known {
        true => check_generation(job, model, folder),
        false => Ok(()),
    }
}
