//! The sections of the job file. Each field's documentation, default and range
//! stand here and nowhere else.

pub(crate) mod columns;
pub(crate) mod data;
pub(crate) mod model;
pub(crate) mod parallel;
pub(crate) mod resources;
pub(crate) mod train;

use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, Error};

use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::{Problems, join};
use crate::section::{FieldDoc, section};
use crate::values::{DataFiles, ModelSource};

use data::Data;
use model::Model;
use parallel::Parallel;
use resources::Resources;
use train::Train;

section! {
    /// A job file.
    pub struct JobFile {
        /// What the job is called; at most 128 characters.
        name: String;
        /// The model to train.
        model: Model;
        /// The rows to train and evaluate on.
        data: Data;
        /// How to train, under the names of Hugging Face's TrainingArguments.
        train: Train;
        /// What to train on.
        resources: Resources;
        /// How the cores share the work.
        parallel: Parallel;
        /// Folder that the trained model is written to, made if it is not there.
        output_dir: PathBuf;
    }
}

impl JobFile {
    /// Whether any of its data files is an object of a bucket.
    pub fn reads_objects(&self) -> bool {
        let data = [&self.data.train, &self.data.validation, &self.data.test];
        let patterns = data.into_iter().flatten().flat_map(|files| &files.patterns);
        patterns.into_iter().any(|pattern| DataFiles::is_object(pattern))
    }

    /// Whether its model or data may have to be fetched from the hub.
    pub fn reads_hub(&self) -> bool {
        let data = [&self.data.train, &self.data.validation, &self.data.test];
        let mut patterns = data.into_iter().flatten().flat_map(|files| &files.patterns);
        matches!(self.model.name_or_path, ModelSource::Hub(_))
            || patterns.any(|pattern| DataFiles::is_data_set(pattern))
    }

    /// Whether there are rows to evaluate on.
    pub fn has_validation(&self) -> bool {
        self.data.validation.is_some() || self.data.validation_split.is_some()
    }

    /// Whether the model is evaluated: where there are rows to do it on, unless it is
    /// told not to.
    pub fn evaluates(&self) -> bool {
        self.train.do_eval.unwrap_or(true) && self.has_validation()
    }

    /// Cores that each see other rows of a batch.
    pub fn data_parallel_size(&self) -> u32 {
        let other = self.parallel.tensor.max(1) * self.parallel.pipeline.max(1);
        self.parallel.data.unwrap_or(self.resources.cores / other)
    }

    /// Rows that one optimizer step sees: Trainer's "total train batch size
    /// (w. parallel, distributed & accumulation)".
    pub fn total_train_batch_size(&self) -> u64 {
        u64::from(self.train.per_device_train_batch_size)
            * u64::from(self.train.gradient_accumulation_steps)
            * u64::from(self.data_parallel_size())
    }

    /// Seed of what concerns data: the order of rows, a split, masks.
    pub fn data_seed(&self) -> u64 {
        self.train.data_seed.unwrap_or(self.train.seed)
    }
}

/// A resolved job file is itself a job file: it is read by the same rules, so
/// that one written before a field existed has that field's default.
impl<'de> Deserialize<'de> for JobFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(deserializer)?;
        let mut problems = Problems::of(&node);
        let job = Self::read(&node, "", &mut problems);
        match (job, problems.finish()) {
            (Some(job), Ok(_)) => Ok(job),
            (_, Err(violations)) => Err(D::Error::custom(&violations[0])),
            (None, Ok(_)) => Err(D::Error::custom("job file cannot be read")),
        }
    }
}

/// All fields of the job file in their order, for its documentation.
pub fn fields() -> Vec<FieldDoc> {
    JobFile::fields("")
}

/// The key that an unknown one most likely stands for: the same key in another
/// section, or the most similar one of its own section.
pub(crate) fn nearest(section: &str, unknown: &str, keys: &[&str]) -> Option<String> {
    let elsewhere = fields().into_iter().find(|field| field.path.ends_with(&format!(".{unknown}")));
    if let Some(field) = elsewhere {
        return Some(field.path);
    }
    keys.iter()
        .map(|key| (strsim::normalized_damerau_levenshtein(unknown, key), key))
        .filter(|(similarity, _)| *similarity >= 0.4)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, key)| join(section, key))
}
