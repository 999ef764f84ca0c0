//! `peft`: adapters beside frozen weights, under the names of PEFT's LoraConfig.

use std::path::PathBuf;

use traind_choices::PeftBias;

use crate::section::{above, section};
use crate::spelled::spelled;
use crate::values::{LayerNumbers, TargetModules, TokenIndices};

section! {
    /// Adapters to train on frozen weights, under the names of PEFT's LoraConfig.
    pub struct Peft {
        /// Type of adapter; without it, all weights are trained. With it, `output_dir` and
        /// checkpoints hold `adapter_config.json` and `adapter_model.safetensors`, which
        /// `PeftModel.from_pretrained` loads.
        method: Option<PeftMethod> = None;
        /// Rank of the adapters.
        r: u32 = 8, in 1.0..=65_536.0;
        /// Scale of the adapters: their output is multiplied by `lora_alpha / r`.
        lora_alpha: f64 = 8.0, in above(0.0);
        /// Dropout on the adapters' inputs.
        lora_dropout: f64 = 0.0, in 0.0..1.0;
        /// Linear layers to adapt: a list of names or of their last parts, or `all-linear` for all
        /// but the last; defaults to PEFT's for the model family, such as `[q_proj, v_proj]`.
        target_modules: Option<TargetModules> = None;
        /// Modules to train in full and save with the adapters. A new classification or
        /// question-answering head is always included.
        modules_to_save: Vec<String> = Vec::new();
        /// Ids of tokens whose rows of the embedding are trained as well, such as those of new tokens. A
        /// list is for the input embedding and a head that is tied to it; a mapping has a list for each
        /// module, such as `{embed_tokens: [50257], lm_head: [50257]}`.
        trainable_token_indices: Option<TokenIndices> = None;
        /// Train modules of `modules_to_save` that are tied (`tie_word_embeddings`) as one. Without it,
        /// they are refused.
        ensure_weight_tying: bool = false;
        /// Scale by `lora_alpha / √r` instead (rsLoRA).
        use_rslora: bool = false;
        /// Train the magnitude of each weight row separately from its direction (DoRA).
        use_dora: bool = false;
        /// Biases to train as well: none, all, or those of the adapted layers.
        bias: PeftBias = PeftBias::None;
        /// Numbers of the layers to adapt; defaults to all.
        layers_to_transform: Option<LayerNumbers> = None;
        /// Folder of adapters to start from. Its `adapter_config.json` replaces the keys above
        /// except `method`.
        adapter_name_or_path: Option<PathBuf> = None;
        /// Write a full model to `output_dir`, with the adapters merged into its weights.
        merge: bool = false;
    }
}

spelled! {
    /// A type of adapter.
    pub enum PeftMethod {
        /// Low-rank adaptation.
        Lora = "lora",
    }
}
