//! The sections of the job file. Each field's documentation, default and range stand only here.

pub(crate) mod choices;
pub(crate) mod columns;
pub(crate) mod data;
pub(crate) mod data_files;
pub(crate) mod data_set;
mod embedding_sets;
pub(crate) mod generation;
mod host_grid;
pub(crate) mod kubernetes;
pub(crate) mod layout;
pub(crate) mod model;
pub(crate) mod notify;
pub(crate) mod objectives;
pub(crate) mod optimizers;
pub(crate) mod parallel;
pub(crate) mod peft;
pub(crate) mod resources;
pub(crate) mod slurm;
pub(crate) mod train;
pub(crate) mod vocabulary;

use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, Error};

use crate::field_doc::FieldDoc;
use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::Problems;
use crate::section::section;
use crate::values::{ModelSource, ResumeFrom};

use data::{Data, PackingStrategy};
use data_files::DataFiles;
use kubernetes::Kubernetes;
use model::{Model, TaskName};
use notify::Notify;
use objectives::dpo::Dpo;
use objectives::embedding::{Embedding, EmbeddingLoss};
use objectives::preferences::{Cpo, Kto, KtoLoss, Orpo, Reward};
use objectives::replaced_tokens::ReplacedTokenDetection;
use objectives::reranker::{Reranker, RerankerLoss};
use parallel::Parallel;
use peft::Peft;
use resources::Resources;
use slurm::Slurm;
use train::Train;

/// The default of `data.max_source_length`, that of `run_summarization`.
const SOURCE_LENGTH: u32 = 1024;
/// The default of `data.max_target_length`, that of `run_summarization`.
const TARGET_LENGTH: u32 = 128;
/// The default of `data.max_length` for conversations, that of TRL's trainers.
const CHAT_LENGTH: u32 = 1024;

/// One that is written, two that wait for their upload, one that is uploaded, and the best.
const STAGED_CHECKPOINTS_MAX: u64 = 5;

section! {
    /// A job file.
    pub struct JobFile {
        /// Name of the job; at most 128 characters.
        name: String;
        /// The model to train.
        model: Model;
        /// The data to train and evaluate on.
        data: Data;
        /// Training settings, under the names of Hugging Face's TrainingArguments.
        train: Train;
        /// Adapters to train on frozen weights, under the names of PEFT's LoraConfig.
        peft: Peft;
        /// The objective of `task: dpo`, under the names of TRL's DPOConfig.
        dpo: Dpo;
        /// The objective of `task: reward`, under the names of TRL's RewardConfig.
        reward: Reward;
        /// The objective of `task: orpo`, under the names of TRL's ORPOConfig.
        orpo: Orpo;
        /// The objective of `task: cpo`, under the names of TRL's CPOConfig.
        cpo: Cpo;
        /// The objective of `task: kto`, under the names of TRL's KTOConfig.
        kto: Kto;
        /// The objective of `task: replaced-token-detection`, and the generator of the tokens.
        replaced_token_detection: ReplacedTokenDetection;
        /// The model and the objective of `task: embedding`, under the names of sentence-transformers.
        embedding: Embedding;
        /// The objective of `task: reranker`, under the names of sentence-transformers.
        reranker: Reranker;
        /// The devices to train on.
        resources: Resources;
        /// How the cores divide the work.
        parallel: Parallel;
        /// Options for jobs scheduled by Slurm.
        slurm: Slurm;
        /// Options for jobs scheduled by Kubernetes.
        kubernetes: Kubernetes;
        /// Webhooks and a command that are notified when the job enters a state.
        notify: Notify;
        /// Folder for the trained model, created if it does not exist, or `s3://BUCKET/PREFIX`: the
        /// model is then uploaded when complete, and checkpoints while training continues.
        output_dir: PathBuf;
        /// Folder or `s3://BUCKET/PREFIX` for checkpoints; defaults to `output_dir`. From a bucket,
        /// a job can resume on another host.
        checkpoint_dir: Option<PathBuf> = None;
    }
}

impl JobFile {
    /// The job as JSON, without the keys that have their defaults. So another version of traind reads it, unless it
    /// sets a key that is not known there.
    pub fn without_defaults(&self) -> serde_json::Result<serde_json::Value> {
        let mut json = serde_json::to_value(self)?;
        self.remove_defaults(&mut json);
        Ok(json)
    }

    /// Returns true if it reads or writes objects of a bucket.
    pub fn uses_objects(&self) -> bool {
        let data = [&self.data.train, &self.data.validation, &self.data.test];
        let mut patterns = data.into_iter().flatten().flat_map(|files| &files.patterns);
        let mut folders = self.folders_used().into_iter();
        patterns.any(|pattern| DataFiles::is_object(pattern))
            || folders.any(|(_, folder)| DataFiles::is_object(folder))
    }

    /// The folder of its checkpoints, or their URL.
    pub fn checkpoints(&self) -> &Path {
        self.checkpoint_dir.as_deref().unwrap_or(&self.output_dir)
    }

    /// The most checkpoints on the host's disk at one time if they are in a bucket; `None` if they are
    /// in a folder.
    pub fn staged_checkpoints_max(&self) -> Option<u64> {
        DataFiles::is_object(self.checkpoints()).then_some(STAGED_CHECKPOINTS_MAX)
    }

    /// The folders that it writes, and the one that it resumes from, with their fields. Each may be a
    /// URL.
    pub fn folders_used(&self) -> Vec<(&'static str, &Path)> {
        let mut folders = vec![("output_dir", self.output_dir.as_path())];
        folders.extend(self.checkpoint_dir.as_deref().map(|folder| ("checkpoint_dir", folder)));
        if let Some(ResumeFrom::Folder(folder)) = &self.train.resume_from_checkpoint {
            folders.push(("train.resume_from_checkpoint", folder));
        }
        folders
    }

    /// Returns true if its model or data may have to be fetched from the hub.
    pub fn reads_hub(&self) -> bool {
        let data = [&self.data.train, &self.data.validation, &self.data.test];
        let mut patterns = data.into_iter().flatten().flat_map(|files| &files.patterns);
        self.models().any(|(_, source)| matches!(source, ModelSource::Hub(_)))
            || patterns.any(|pattern| DataFiles::is_data_set(pattern))
    }

    /// Returns true if it reads from the hub or commits to it.
    pub fn uses_hub(&self) -> bool {
        self.train.push_to_hub || self.reads_hub()
    }

    /// The repository of the hub that the model is committed to, with or without an account; `None`
    /// without `train.push_to_hub`.
    pub fn hub_repository(&self) -> Option<String> {
        let of_folder = || self.output_dir.file_name().unwrap_or_default().to_string_lossy().into();
        let id = || self.train.hub_model_id.clone().unwrap_or_else(of_folder);
        self.train.push_to_hub.then(id)
    }

    /// The folders of weights that it starts from, with their fields.
    pub fn weight_folders(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let models = self.models().filter_map(|(field, source)| match source {
            ModelSource::Folder(path) => Some((field, path.as_path())),
            ModelSource::Hub(_) => None,
        });
        let adapter = self.peft.adapter_name_or_path.as_deref();
        models.chain(adapter.map(|path| ("peft.adapter_name_or_path", path)))
    }

    /// The models that it reads, with their fields.
    pub fn models(&self) -> impl Iterator<Item = (&'static str, &ModelSource)> {
        let model = ("model.name_or_path", &self.model.name_or_path);
        let generator = self.model.generator.as_ref().map(|source| ("model.generator", source));
        let others = generator.into_iter().chain(self.reference_model());
        [model].into_iter().chain(others).chain(self.guide_model())
    }

    /// Returns true if some weights are not trained.
    pub fn freezes(&self) -> bool {
        self.peft.method.is_some() || !self.train.freeze.is_empty()
    }

    /// Returns true if a frozen reference stands beside the trained model.
    pub fn has_reference(&self) -> bool {
        matches!(self.model.task, TaskName::Dpo | TaskName::Kto)
    }

    /// The model of the reference, with its field; `None` where it is the model that training starts from.
    pub fn reference_model(&self) -> Option<(&'static str, &ModelSource)> {
        let dpo = self.dpo.ref_model_name_or_path.as_ref();
        let kto = self.kto.ref_model_name_or_path.as_ref();
        let of_dpo = dpo.map(|source| ("dpo.ref_model_name_or_path", source));
        of_dpo.or(kto.map(|source| ("kto.ref_model_name_or_path", source)))
    }

    /// The model that guides a loss of embeddings, with its field, if there is one.
    pub fn guide_model(&self) -> Option<(&'static str, &ModelSource)> {
        self.embedding.guide.as_ref().map(|source| ("embedding.guide", source))
    }

    /// Returns true if preferences are trained on without the dropout that the model's config has.
    pub fn disables_dropout(&self) -> bool {
        match self.model.task {
            TaskName::Dpo => self.dpo.disable_dropout,
            TaskName::Reward => self.reward.disable_dropout,
            TaskName::Orpo => self.orpo.disable_dropout,
            TaskName::Cpo => self.cpo.disable_dropout,
            TaskName::Kto => self.kto.disable_dropout,
            _ => false,
        }
    }

    /// The sequences of tokens that the model reads of a row. For texts whose columns are not named,
    /// only their files tell, and this is the fewest that there can be.
    pub fn sequences_per_row(&self) -> usize {
        match self.model.task {
            TaskName::Kto if self.kto.loss_type == KtoLoss::ApoZeroUnpaired => 1,
            task if task.is_of_preferences() => 2,
            TaskName::Embedding => self.widest_embedding().1,
            TaskName::Reranker => self.reranker.passages(self.data.texts.len()),
            _ => 1,
        }
    }

    /// Returns true if there are rows to evaluate on.
    pub fn has_validation(&self) -> bool {
        self.data.validation.is_some() || self.data.validation_split.is_some()
    }

    /// Returns true if the model is evaluated: there are rows to do it on, and `train.do_eval` is
    /// not false.
    pub fn evaluates(&self) -> bool {
        self.train.do_eval.unwrap_or(true) && self.has_validation()
    }

    /// Returns true if the model is neither trained nor evaluated.
    pub fn only_predicts(&self) -> bool {
        !self.train.do_train && !self.evaluates() && self.train.do_predict
    }

    /// The number of cores, on all hosts, that each see different rows of a batch.
    pub fn data_parallel_size(&self) -> u32 {
        let other = self.parallel.tensor.max(1) * self.parallel.pipeline.max(1);
        self.parallel.data.unwrap_or(self.resources.total_cores() / other)
    }

    /// Whether the loss compares the rows of a batch with each other, so that it depends on how many there are.
    pub fn compares_rows(&self) -> bool {
        match self.model.task {
            TaskName::Embedding => {
                let of_sets = self.embedding_sets().into_iter().map(|(set, _)| set.loss);
                of_sets.chain([self.embedding.loss]).any(EmbeddingLoss::compares_rows)
            }
            TaskName::Reranker => self.reranker.loss == RerankerLoss::Lambda,
            _ => false,
        }
    }

    /// The tokens that rows are truncated to, or their sources where rows have two texts; `None`
    /// where tokenizer and model decide.
    pub fn row_length(&self) -> Option<u32> {
        match self.model.task {
            TaskName::Seq2SeqLm => Some(self.data.max_source_length.unwrap_or(SOURCE_LENGTH)),
            task if task.is_of_conversations() => Some(self.data.max_length.unwrap_or(CHAT_LENGTH)),
            _ => self.data.max_length,
        }
    }

    /// The tokens that targets are truncated to, for a model with so many positions.
    pub fn target_length(&self, positions: u32) -> u32 {
        self.data.max_target_length.unwrap_or(TARGET_LENGTH.min(positions))
    }

    /// Returns true if rows hold several texts that do not see each other.
    pub fn separates_texts(&self) -> bool {
        let packs = self.data.packing || self.data.eval_packing == Some(true);
        packs && self.data.packing_strategy == PackingStrategy::Bfd
    }

    /// The rows of one optimizer step: the Trainer's "total train batch size
    /// (w. parallel, distributed & accumulation)".
    pub fn total_train_batch_size(&self) -> u64 {
        u64::from(self.train.per_device_train_batch_size)
            * u64::from(self.train.gradient_accumulation_steps)
            * u64::from(self.data_parallel_size())
    }

    /// The shares of masked tokens that become the mask token, and another token: those of BERT or of ELECTRA where
    /// the job names none.
    pub fn replaced_shares(&self) -> [f64; 2] {
        let defaults = match self.model.task {
            TaskName::ReplacedTokenDetection => [0.85, 0.0],
            _ => [0.8, 0.1],
        };
        let [mask, random] = defaults;
        let data = &self.data;
        [data.mask_replace_prob.unwrap_or(mask), data.random_replace_prob.unwrap_or(random)]
    }

    /// The seed of everything that concerns data: the order of rows, the split, the masks.
    pub fn data_seed(&self) -> u64 {
        self.train.data_seed.unwrap_or(self.train.seed)
    }
}

/// A resolved job file is itself a job file: it is read by the same rules, so
/// that one written before a field existed has that field's default.
impl<'de> Deserialize<'de> for JobFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(deserializer)?;
        let mut problems = Problems::of(&node, field_paths);
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

/// The paths of all fields.
pub(crate) fn field_paths() -> Vec<String> {
    fields().into_iter().map(|field| field.path).collect()
}
