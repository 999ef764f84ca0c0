//! `traind-runner generate`: texts of a model, or of a job's.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::JobFile;

/// A request for texts.
#[derive(Debug, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// The model to generate with.
    pub source: GenerateSource,
    /// The texts to continue, or to answer with an encoder-decoder model.
    pub prompts: Vec<String>,
    /// Whether each prompt is a message of the user, for the model's chat template.
    #[serde(default)]
    pub chat: bool,
    /// Settings above those of the model, by the names of `generation_config.json`.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Determines the tokens that are drawn.
    pub seed: u64,
    /// The platform of the core that generates.
    pub platform: String,
    /// The library of its plugin.
    pub plugin: PathBuf,
    /// The folder of compiled programs.
    pub cache_dir: PathBuf,
}

/// The model to generate with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerateSource {
    /// A Hugging Face model folder, or one with adapters.
    Model(PathBuf),
    /// A job of the daemon.
    Job(Box<GenerateJob>),
}

/// A job of the daemon whose model generates.
#[derive(Debug, Serialize, Deserialize)]
pub struct GenerateJob {
    /// The job's id.
    pub id: String,
    /// The job, resolved.
    pub job: JobFile,
    /// The folder of its run.
    pub run_dir: PathBuf,
    /// Whether the job has completed, so that its output folder has the trained model.
    pub completed: bool,
    /// The steps before the checkpoint; absent for the newest one, or for the trained model.
    pub step: Option<u64>,
}

/// The answer to a request for texts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GenerateAnswer {
    /// A text for each prompt.
    Texts(GeneratedTexts),
    /// The reason why there are none.
    Refusal(GenerateRefusal),
}

/// Texts of a model.
#[derive(Debug, Serialize, Deserialize)]
pub struct GeneratedTexts {
    /// The steps that the model was trained for; 0 if that is not known.
    pub step: u64,
    /// The texts, in the order of their prompts.
    pub texts: Vec<GeneratedText>,
    /// Settings of the model that do not go together.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The text that was generated for a prompt.
#[derive(Debug, Serialize, Deserialize)]
pub struct GeneratedText {
    /// The prompt.
    pub prompt: String,
    /// The text without the prompt and without special tokens.
    pub text: String,
    /// The tokens of the text.
    pub tokens: Vec<u32>,
}

/// The reason why there are no texts.
#[derive(Debug, Serialize, Deserialize)]
pub struct GenerateRefusal {
    /// A reason of `traind.v1`.
    pub reason: String,
    /// The error for users.
    pub message: String,
}
