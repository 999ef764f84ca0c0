//! The folders that a job reads and writes.

use std::path::{Path, PathBuf};

use traind_job_file::{DataFiles, JobFile, ResumeFrom, SaveStrategy};

use crate::checkpoints::step_of_checkpoint;
use crate::identity::Identity;
use crate::names::{is_adapter, is_copied, is_model, is_result, is_state};

/// The files that a job writes into its output folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Reports and predictions of a given model.
    Results,
    /// Adapters, and the files that describe the training.
    Adapter,
    /// A whole model, and the files that describe the training.
    Model,
}

impl Writes {
    /// Whether a file of this name is, or may be, written or would be loaded instead.
    pub(crate) fn concerns(self, name: &str) -> bool {
        match self {
            Writes::Results => is_result(name),
            Writes::Adapter => is_adapter(name) || is_trained(name),
            // transformers loads adapters in the place of the model beside them.
            Writes::Model => is_model(name) || is_adapter(name) || is_trained(name),
        }
    }
}

fn is_trained(name: &str) -> bool {
    is_state(name) || is_result(name) || is_copied(name)
}

/// Where a job begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Beginning,
    /// The newest checkpoint of its own folder.
    OwnFolder,
    /// A checkpoint, or the newest one of another folder.
    Folder(PathBuf),
}

/// The folders of a job on this host and its use of them.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The output folder; `None` if it is in a bucket.
    pub output: Option<PathBuf>,
    /// The folder of checkpoints; `None` if it is in a bucket or the job saves none.
    pub checkpoints: Option<PathBuf>,
    /// The key that names the folder of checkpoints.
    pub checkpoints_field: &'static str,
    pub writes: Writes,
    pub origin: Origin,
    /// `train.overwrite_output_dir`.
    pub overwrites: bool,
    /// The folders of weights that it reads, with their keys.
    pub weights: Vec<(String, PathBuf)>,
    /// The files and folders of data that it reads, with their keys; no globs.
    pub data: Vec<(String, PathBuf)>,
}

impl Intent {
    /// Returns the intent of a resolved job file.
    pub fn of(job: &JobFile) -> Intent {
        let local = |path: &Path| (!DataFiles::is_url(path)).then(|| path.to_owned());
        let saves = job.train.do_train && job.train.save_strategy != SaveStrategy::No;
        let has_adapter = job.peft.method.is_some() && !job.peft.merge;
        Intent {
            output: local(&job.output_dir),
            checkpoints: local(job.checkpoints()).filter(|_| saves),
            checkpoints_field: job
                .checkpoint_dir
                .as_ref()
                .map_or("output_dir", |_| "checkpoint_dir"),
            writes: match (job.train.do_train, has_adapter) {
                (false, _) => Writes::Results,
                (true, true) => Writes::Adapter,
                (true, false) => Writes::Model,
            },
            origin: match &job.train.resume_from_checkpoint {
                None | Some(ResumeFrom::Nowhere) => Origin::Beginning,
                Some(ResumeFrom::Newest | ResumeFrom::NewestIfAny) => Origin::OwnFolder,
                Some(ResumeFrom::Folder(folder)) => Origin::Folder(folder.clone()),
            },
            overwrites: job.train.overwrite_output_dir,
            weights: owned(job.weight_folders()),
            data: data(job),
        }
    }
}

impl Intent {
    /// Returns true if the job continues a run whose checkpoints are in `folder`.
    pub fn continues(&self, folder: &Identity) -> bool {
        match &self.origin {
            Origin::Beginning => false,
            Origin::OwnFolder => true,
            Origin::Folder(from) => {
                let parent = step_of_checkpoint(from).and_then(|_| from.parent());
                let candidates = [Some(from.as_path()), parent].into_iter().flatten();
                candidates.filter_map(|from| Identity::of(from).ok()).any(|from| from.is(folder))
            }
        }
    }

    /// Returns true if `folder` has weights that the job reads.
    pub fn reads(&self, folder: &Identity) -> bool {
        let is_here = |path: &PathBuf| Identity::of(path).is_ok_and(|path| path.is(folder));
        self.weights.iter().any(|(_, path)| is_here(path))
    }
}

fn data(job: &JobFile) -> Vec<(String, PathBuf)> {
    let data = &job.data;
    let splits = [
        ("data.train", &data.train),
        ("data.validation", &data.validation),
        ("data.test", &data.test),
    ];
    let paths = splits.into_iter().flat_map(|(field, files)| {
        files.iter().flat_map(|files| &files.patterns).map(move |path| (field, path.as_path()))
    });
    owned(paths.filter(|(_, path)| !DataFiles::is_url(path) && !DataFiles::is_searched(path)))
}

fn owned<'a>(paths: impl Iterator<Item = (&'static str, &'a Path)>) -> Vec<(String, PathBuf)> {
    paths.map(|(field, path)| (field.to_owned(), path.to_owned())).collect()
}
