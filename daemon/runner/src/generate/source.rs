//! The folder that texts are generated with: a model's, or one of a job that may still train.

use std::path::{Path, PathBuf};

use traind_job_file::commands::{GenerateJob, GenerateSource};
use traind_job_file::{DataFiles, JobFile};

use crate::checkpoint::newest_complete;
use crate::error::{RunError, RunResult};
use crate::output::TrainerState;
use crate::remote;

const CONFIG: &str = "config.json";
const TRAINER_STATE: &str = "trainer_state.json";
pub(super) const ADAPTER_CONFIG: &str = "adapter_config.json";

/// A folder with weights or adapters.
#[derive(Debug)]
pub(super) struct Found<'request> {
    pub folder: PathBuf,
    /// The steps that the weights were trained for; 0 if that is not known.
    pub step: u64,
    /// The job that wrote it, if it was found by its job.
    pub job: Option<&'request JobFile>,
}

/// Finds the folder of a request's model.
pub(super) fn find(source: &GenerateSource) -> RunResult<Found<'_>> {
    match source {
        GenerateSource::Model(folder) => {
            Ok(Found { folder: folder.clone(), step: trained_steps(folder), job: None })
        }
        GenerateSource::Job(source) => of_job(source),
    }
}

fn of_job(source: &GenerateJob) -> RunResult<Found<'_>> {
    let mut local = source.job.clone();
    remote::stage(&mut local, &source.run_dir);
    let (folder, step) = match source.completed && source.step.is_none() {
        true => trained(source, &local.output_dir)?,
        false => {
            let found = newest_complete(local.checkpoints(), &source.id, source.step);
            let (step, folder) = found.map_err(|error| elsewhere(source).unwrap_or(error))?;
            (folder, step)
        }
    };
    Ok(Found { folder, step, job: Some(&source.job) })
}

/// The trained model.
fn trained(source: &GenerateJob, folder: &Path) -> RunResult<(PathBuf, u64)> {
    if [CONFIG, ADAPTER_CONFIG].iter().any(|name| folder.join(name).is_file()) {
        return Ok((folder.to_owned(), trained_steps(folder)));
    }
    let (step, known) = (None, Vec::new());
    let missing = RunError::NoSuchCheckpoint { folder: folder.to_owned(), step, known };
    Err(elsewhere(source).unwrap_or(missing))
}

/// The reason why a job that has completed has nothing on this host.
fn elsewhere(source: &GenerateJob) -> Option<RunError> {
    let is_elsewhere = source.completed && DataFiles::is_object(&source.job.output_dir);
    let url = || source.job.output_dir.display().to_string();
    is_elsewhere.then(|| RunError::OnlyInBucket { url: url() })
}

/// The steps that a folder's `trainer_state.json` counts.
fn trained_steps(folder: &Path) -> u64 {
    let text = std::fs::read(folder.join(TRAINER_STATE)).unwrap_or_default();
    serde_json::from_slice::<TrainerState>(&text).map_or(0, |state| state.global_step)
}
