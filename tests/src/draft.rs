//! A job before its submission: a folder with its model and data, and a request that a test
//! may change.

use std::fmt::Display;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use traind_proto::v1::CreateJobRequest;

use crate::output::Output;
use crate::{Host, data, model};

/// The default job file.
pub const JOB_FILE: &str = "\
name: tiny
model:
  name_or_path: ./model
  task: sequence-classification
data:
  train: train.csv
  validation: validation.parquet
  label_map: [animal, fruit, tool]
train:
  num_train_epochs: 2
  per_device_train_batch_size: 8
  learning_rate: 5.0e-3
  logging_steps: 1
resources:
  platform: cpu
  cores: 1
output_dir: out
";

const TRAIN_ROWS: usize = 60; // the last batch of 8 is not full
const VALIDATION_ROWS: usize = 53;

// With the two special tokens of a row, at most 8 and at most 12 tokens. Each padded length adds
// two programs to compile.
const MAX_WORDS: usize = 6;
const MAX_WORDS_OF_TWO_SHAPES: usize = 10;

#[derive(Clone, Debug)]
pub struct Draft {
    folder: PathBuf,
    /// The rows of the validation file, in order.
    pub validation: Vec<data::Row>,
    request: CreateJobRequest,
}

impl Draft {
    /// A valid job in the folder `name` of the host.
    pub fn new(host: &Host, name: &str) -> Draft {
        let folder = host.path(name);
        fs::create_dir(&folder).unwrap();
        model::write(&folder.join("model"));
        let validation = write_data(&folder, MAX_WORDS);
        let base_dir = folder.to_str().unwrap().to_owned();
        let job_file = JOB_FILE.to_owned();
        let request = CreateJobRequest { job_file, base_dir, ..Default::default() };
        Draft { folder, validation, request }.set("name", name)
    }

    /// A job with the given job file in the folder `name` of the host, without model and data.
    pub fn of_job_file(host: &Host, name: &str, job_file: &str) -> Draft {
        let folder = host.path(name);
        fs::create_dir(&folder).unwrap();
        let base_dir = folder.to_str().unwrap().to_owned();
        let job_file = job_file.to_owned();
        let request = CreateJobRequest { job_file, base_dir, ..Default::default() };
        Draft { folder, validation: Vec::new(), request }
    }

    /// Makes the lengths of rows differ enough for two padded lengths.
    pub fn with_long_rows(mut self) -> Draft {
        self.validation = write_data(&self.folder, MAX_WORDS_OF_TWO_SHAPES);
        self
    }

    /// Has rows of two padded lengths, and allows for more, though they would not pay with a model this small.
    pub fn with_two_shapes(self) -> Draft {
        self.with_long_rows().set("data.padded_lengths_max", 6)
    }

    /// The job with another task and a fixture's model. `data` replaces the section of that name.
    pub fn of_task(self, task: &str, fixture: &str, data: &str) -> Draft {
        model::write_fixture(&self.path("model"), fixture);
        let usual = JOB_FILE.split_once("data:\n").unwrap().1.split_once("train:\n").unwrap().0;
        self.edit("sequence-classification", task)
            .edit(usual, "")
            .edit("data:\n", &format!("data: {data}\n"))
    }

    /// Writes a file in the job's folder.
    pub fn write(self, name: &str, content: impl AsRef<[u8]>) -> Draft {
        fs::write(self.path(name), content).unwrap();
        self
    }

    /// Overrides a value of the job file.
    pub fn set(mut self, field: &str, value: impl Display) -> Draft {
        self.request.overrides.insert(field.to_owned(), value.to_string());
        self
    }

    /// Makes the job too long to end by itself. The learning rate is too small to diverge.
    pub fn endless(self) -> Draft {
        self.set("train.max_steps", 1_000_000).set("train.learning_rate", 1e-6)
    }

    /// Replaces text in the job file.
    pub fn edit(mut self, from: &str, to: &str) -> Draft {
        assert!(self.request.job_file.contains(from), "the job file has no {from:?}");
        self.request.job_file = self.request.job_file.replace(from, to);
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The job's output in the folder of this name.
    pub fn output(&self, name: &str) -> Output {
        Output::new(self.path(name))
    }
}

/// Writes both files and returns the rows of the validation file.
fn write_data(folder: &Path, max_words: usize) -> Vec<data::Row> {
    let train = data::rows(1, TRAIN_ROWS, max_words);
    fs::write(folder.join("train.csv"), data::csv(&train)).unwrap();
    let validation = data::rows(2, VALIDATION_ROWS, max_words);
    fs::write(folder.join("validation.parquet"), data::parquet(&validation)).unwrap();
    validation
}

/// The request to submit.
impl Deref for Draft {
    type Target = CreateJobRequest;

    fn deref(&self) -> &CreateJobRequest {
        &self.request
    }
}
