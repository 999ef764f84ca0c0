//! The folder that texts are generated with: a model's, or one of a job that may still train.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use traind_job_file::{DataFiles, JobFile};

use crate::checkpoint::newest_complete;
use crate::error::{RunError, RunResult};
use crate::output::TrainerState;
use crate::remote;

const CONFIG: &str = "config.json";
const TRAINER_STATE: &str = "trainer_state.json";
pub(super) const ADAPTER_CONFIG: &str = "adapter_config.json";

/// The model to generate with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// A Hugging Face model folder, or one with adapters.
    Model(PathBuf),
    Job(Box<JobSource>),
}

/// A job of the daemon.
#[derive(Debug, Deserialize)]
pub(super) struct JobSource {
    id: String,
    job: JobFile,
    run_dir: PathBuf,
    /// Whether the job has completed, so that its output folder has the trained model.
    completed: bool,
    /// The steps before the checkpoint; absent for the newest one, or for the trained model.
    step: Option<u64>,
}

/// A folder with weights or adapters.
#[derive(Debug)]
pub(super) struct Found<'request> {
    pub folder: PathBuf,
    /// The steps that the weights were trained for; 0 if that is not known.
    pub step: u64,
    /// The job that wrote it, if it was found by its job.
    pub job: Option<&'request JobFile>,
}

impl Source {
    pub(super) fn find(&self) -> RunResult<Found<'_>> {
        match self {
            Source::Model(folder) => {
                Ok(Found { folder: folder.clone(), step: trained_steps(folder), job: None })
            }
            Source::Job(source) => source.find(),
        }
    }
}

impl JobSource {
    fn find(&self) -> RunResult<Found<'_>> {
        let mut local = self.job.clone();
        remote::stage(&mut local, &self.run_dir);
        let (folder, step) = match self.completed && self.step.is_none() {
            true => self.trained(&local.output_dir)?,
            false => {
                let found = newest_complete(local.checkpoints(), &self.id, self.step);
                let (step, folder) = found.map_err(|error| self.elsewhere().unwrap_or(error))?;
                (folder, step)
            }
        };
        Ok(Found { folder, step, job: Some(&self.job) })
    }

    /// The trained model.
    fn trained(&self, folder: &Path) -> RunResult<(PathBuf, u64)> {
        if [CONFIG, ADAPTER_CONFIG].iter().any(|name| folder.join(name).is_file()) {
            return Ok((folder.to_owned(), trained_steps(folder)));
        }
        let (step, known) = (None, Vec::new());
        let missing = RunError::NoSuchCheckpoint { folder: folder.to_owned(), step, known };
        Err(self.elsewhere().unwrap_or(missing))
    }

    /// Why a job that has completed has nothing on this host.
    fn elsewhere(&self) -> Option<RunError> {
        let is_elsewhere = self.completed && DataFiles::is_object(&self.job.output_dir);
        let url = || self.job.output_dir.display().to_string();
        is_elsewhere.then(|| RunError::OnlyInBucket { url: url() })
    }
}

/// The steps that a folder's `trainer_state.json` counts.
fn trained_steps(folder: &Path) -> u64 {
    let text = std::fs::read(folder.join(TRAINER_STATE)).unwrap_or_default();
    serde_json::from_slice::<TrainerState>(&text).map_or(0, |state| state.global_step)
}
