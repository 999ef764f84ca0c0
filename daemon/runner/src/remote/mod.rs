//! The folders of a job that are in a bucket, and the repository of the hub that its model is committed
//! to: staged on the host's disk, uploaded while training continues.
//!
//! Everything is written locally first, as if the job had local folders. So the files are whole, and
//! training waits for the disk alone.
//!
//! Imports `output`, `reporting` and `error`.

mod backlog;
mod claim;
mod folder_upload;
mod mirror;
mod patience;
mod publication;
mod pushes;
mod queue;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use traind_bucket::{Bucket, Location, Object, Problem};
use traind_folders::Record;
use traind_job_file::{DataFiles, JobFile, RunSpec};
use traind_loader::Error as LoaderError;

use crate::error::{RunError, RunResult};
use crate::output::{CHECKPOINT_PREFIX, MANIFEST, failed};
use crate::reporting::{Journal, Stop};

pub(crate) use mirror::{Mirror, Staged};
pub(crate) use publication::Publication;

use pushes::PushRule;

/// The folder in the run directory in which a bucket's files are staged.
const STAGING: &str = "output";

/// The bucket's locations of a job, of which it may have none.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub output: Option<Location>,
    pub checkpoints: Option<Location>,
    job_id: String,
    /// The most checkpoints on the disk at one time, if they are staged there.
    pub staged_max: Option<u64>,
    /// The pushes to the hub, where the job asks for them.
    pushes: Option<PushRule>,
    journal: Journal,
    stop: Stop,
    /// The record of the location of checkpoints, as the run's claim has begun it.
    claimed: Arc<OnceLock<Record>>,
}

impl Remote {
    /// Takes the locations from the job, and puts local folders in their places: a bucket's output is
    /// staged in the run directory, and its checkpoints beside the output.
    pub(crate) fn take(
        spec: &mut RunSpec,
        run_dir: &Path,
        journal: Journal,
        stop: Stop,
    ) -> Result<Remote, traind_bucket::Error> {
        let (job, job_id) = (&mut spec.job, spec.job_id.clone());
        let location = |path: &Path| match DataFiles::is_object(path) {
            true => Location::parse(&path.to_string_lossy()).map(Some),
            false => Ok(None),
        };
        let (output, checkpoints) = (location(&job.output_dir)?, location(job.checkpoints())?);
        let (staged_max, pushes) = (job.staged_checkpoints_max(), PushRule::of(job));
        stage(job, run_dir);
        let claimed = Arc::default();
        Ok(Remote { output, checkpoints, job_id, staged_max, pushes, journal, stop, claimed })
    }

    /// The name of the output folder for users, whose local folder is `local`.
    pub(crate) fn output_name(&self, local: &Path) -> String {
        name(self.output.as_ref(), local)
    }

    /// The name of the folder of checkpoints for users, whose local folder is `local`.
    pub(crate) fn checkpoints_name(&self, local: &Path) -> PathBuf {
        name(self.checkpoints.as_ref(), local).into()
    }

    /// Checks that the bucket takes what the run will write.
    pub(crate) fn check(&self) -> RunResult<()> {
        let fields = [("output_dir", &self.output), ("checkpoint_dir", &self.checkpoints)];
        for (field, location) in fields {
            let Some(location) = location else { continue };
            // Without a key of their own, checkpoints are in output_dir.
            if field == "checkpoint_dir" && self.output.as_ref() == Some(location) {
                continue;
            }
            let bucket = self.open(field, location)?;
            bucket.check(&|| self.keeps()).map_err(run_error(field))?;
        }
        Ok(())
    }

    /// Returns the steps of the checkpoints that are complete in the bucket, in ascending order.
    pub(crate) fn complete_checkpoints(&self) -> RunResult<Vec<u64>> {
        let Some(location) = &self.checkpoints else { return Ok(Vec::new()) };
        let bucket = self.open("checkpoint_dir", location)?;
        let listed = bucket.list("", &|| self.keeps()).map_err(run_error("checkpoint_dir"))?;
        let mut steps: Vec<u64> = listed.iter().filter_map(step_of_manifest).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// Downloads the checkpoint of a step into the new folder `to`.
    pub(crate) fn fetch_checkpoint(&self, step: u64, to: &Path) -> RunResult<()> {
        let Some(location) = &self.checkpoints else { return Ok(()) };
        let bucket = self.open("checkpoint_dir", location)?;
        self.fetch(&bucket, "checkpoint_dir", &format!("{CHECKPOINT_PREFIX}{step}"), to)
    }

    /// Downloads a checkpoint into the new folder `to`: the one at `url`, which `field` of the job file
    /// names, or the newest of the folder there.
    pub(crate) fn fetch_named(&self, field: &'static str, url: &Path, to: &Path) -> RunResult<()> {
        let location = Location::parse(&url.to_string_lossy()).map_err(run_error(field))?;
        let bucket = self.open(field, &location)?;
        let listed = bucket.list("", &|| self.keeps()).map_err(run_error(field))?;
        let newest = listed.iter().filter_map(step_of_manifest).max();
        match newest.filter(|_| listed.iter().all(|object| object.name != MANIFEST)) {
            Some(step) => self.fetch(&bucket, field, &format!("{CHECKPOINT_PREFIX}{step}"), to),
            None => self.fetch(&bucket, field, "", to),
        }
    }

    fn fetch(
        &self,
        bucket: &Bucket,
        field: &'static str,
        folder: &str,
        to: &Path,
    ) -> RunResult<()> {
        let keep = || self.keeps();
        let objects = bucket.list(folder, &keep).map_err(run_error(field))?;
        std::fs::create_dir_all(to).map_err(failed("create", to))?;
        for object in objects {
            let name = object.name.rsplit('/').next().unwrap_or(&object.name);
            self.journal.info(format!("fetch {}", bucket.location().url(&object.name)))?;
            bucket.download(&object, &to.join(name), &keep).map_err(run_error(field))?;
        }
        Ok(())
    }

    fn open(&self, field: &'static str, location: &Location) -> RunResult<Bucket> {
        Bucket::open(location.clone()).map_err(run_error(field))
    }

    /// Whether requests are worth waiting for.
    fn keeps(&self) -> bool {
        self.stop.reason().is_none()
    }
}

/// Puts local folders in the places of a bucket's: its output is staged in the run directory, and its checkpoints
/// beside the output.
pub(crate) fn stage(job: &mut JobFile, run_dir: &Path) {
    if DataFiles::is_object(job.checkpoints()) {
        job.checkpoint_dir = None;
    }
    if DataFiles::is_object(&job.output_dir) {
        job.output_dir = run_dir.join(STAGING);
    }
}

fn name(location: Option<&Location>, local: &Path) -> String {
    location.map_or_else(|| local.display().to_string(), Location::to_string)
}

/// The step of a checkpoint whose manifest this object is.
fn step_of_manifest(object: &Object) -> Option<u64> {
    let step = object.name.strip_prefix(CHECKPOINT_PREFIX)?.strip_suffix(MANIFEST)?;
    step.strip_suffix('/')?.parse().ok()
}

/// Turns an error of the bucket that `field` of the job file names into the run's error.
fn run_error(field: &'static str) -> impl Fn(traind_bucket::Error) -> RunError {
    move |source| match *source.problem {
        Problem::Abandoned => LoaderError::Abandoned.into(),
        _ => RunError::Bucket { field, source },
    }
}
