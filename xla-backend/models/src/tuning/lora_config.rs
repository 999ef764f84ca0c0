//! The settings of LoRA, as PEFT's `LoraConfig` has them.

use traind_choices::PeftBias;

use super::token_rows::TokenIndices;
use crate::tasks::Task;

/// The layers that get an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetModules {
    /// Names or suffixes of whole parts.
    Named(Vec<String>),
    /// Every linear layer but the last.
    AllLinear,
}

/// `peft.LoraConfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// The rank of the adapters.
    pub r: usize,
    /// The factor of an adapter's product, before it is divided by the rank.
    pub lora_alpha: f64,
    /// The rate at which inputs of adapters are dropped in training.
    pub lora_dropout: f64,
    /// The layers that get an adapter.
    pub target_modules: TargetModules,
    /// Modules that are trained whole; see [`Lora::with_head_of`].
    pub modules_to_save: Vec<String>,
    /// Divides alpha by √r instead of r (Kalajdzievski, 2023).
    pub use_rslora: bool,
    /// Trains the magnitude of each row apart from its direction (Liu et al., 2024).
    pub use_dora: bool,
    /// The biases that are trained.
    pub bias: PeftBias,
    /// The numbers of the layers that get adapters; all without.
    pub layers_to_transform: Option<Vec<usize>>,
    /// Tokens whose rows of embeddings are trained.
    pub trainable_token_indices: Option<TokenIndices>,
    /// Trains modules to save that are tied as one.
    pub ensure_weight_tying: bool,
}

impl Lora {
    /// The target modules that PEFT has for a family.
    pub fn default_targets(model_type: &str) -> Option<TargetModules> {
        let names: &[&str] = match model_type {
            "bert" | "roberta" | "xlm-roberta" | "electra" | "albert" => &["query", "value"],
            "mpnet" => &["q", "v"],
            "deberta-v2" => &["query_proj", "value_proj"],
            "distilbert" => &["q_lin", "v_lin"],
            "gpt2" => &["c_attn"],
            "llama" | "mistral" | "eurobert" | "gemma" | "gemma2" | "gemma3_text" | "qwen2"
            | "qwen3" => &["q_proj", "v_proj"],
            "phi3" => &["qkv_proj"],
            "modernbert" => &["Wqkv"],
            "t5" | "mt5" => &["q", "v"],
            "bart" => &["q_proj", "v_proj"],
            _ => return None,
        };
        Some(TargetModules::Named(names.iter().map(|name| (*name).to_owned()).collect()))
    }

    /// Adds the modules that PEFT trains whole for a task, since they are new. PEFT has no such rule for
    /// images and for questions to ModernBERT, whose classifiers are as new.
    pub fn with_head_of(mut self, task: Task, model_type: &str) -> Lora {
        let heads: &[&str] = match task {
            Task::SequenceClassification | Task::TokenClassification => &["classifier", "score"],
            Task::ImageClassification => &["classifier"],
            Task::QuestionAnswering if model_type == "modernbert" => &["classifier"],
            Task::QuestionAnswering => &["qa_outputs"],
            _ => &[],
        };
        for head in heads {
            if self.modules_to_save.iter().all(|module| module != head) {
                self.modules_to_save.push((*head).to_owned());
            }
        }
        self
    }

    /// The factor of an adapter's result.
    pub fn scaling(&self) -> f64 {
        let r = self.r as f64;
        self.lora_alpha / if self.use_rslora { r.sqrt() } else { r }
    }
}
