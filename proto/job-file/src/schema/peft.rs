//! `peft`: adapters beside frozen weights, under the names of PEFT's LoraConfig.

use std::path::PathBuf;

use crate::range::above;
use crate::section::section;
use crate::spelled::spelled;
use crate::values::{LayerNumbers, TargetModules};

section! {
    /// Adapters to train beside frozen weights, under the names of PEFT's LoraConfig.
    pub struct Peft {
        /// The kind of adapters; without it all weights are trained. `output_dir` and checkpoints
        /// then hold `adapter_config.json` and `adapter_model.safetensors`, which
        /// `PeftModel.from_pretrained` loads.
        method: Option<PeftMethod> = None;
        /// Rank of the adapters.
        r: u32 = 8, in 1.0..=65_536.0;
        /// Scale of the adapters: their result is multiplied by `lora_alpha / r`.
        lora_alpha: f64 = 8.0, in above(0.0);
        /// Dropout of the adapters' inputs.
        lora_dropout: f64 = 0.0, in 0.0..1.0;
        /// Linear layers that get an adapter: a list of names or of their last parts, or
        /// `all-linear` for all but the last; by default PEFT's for the family, such as
        /// `[q_proj, v_proj]`.
        target_modules: Option<TargetModules> = None;
        /// Modules that are trained whole and saved with the adapters. The new head of a
        /// classification or of question answering always is.
        modules_to_save: Vec<String> = Vec::new();
        /// Multiply by `lora_alpha / √r` instead.
        use_rslora: bool = false;
        /// Train the magnitude of each row of a weight apart from its direction (DoRA).
        use_dora: bool = false;
        /// Biases that are trained besides: none, all, or those of the layers with an adapter.
        bias: PeftBias = PeftBias::None;
        /// Numbers of the layers that get adapters; by default all.
        layers_to_transform: Option<LayerNumbers> = None;
        /// Folder of adapters to start from. Its `adapter_config.json` takes the place of the keys
        /// above but `method`.
        adapter_name_or_path: Option<PathBuf> = None;
        /// Write a whole model to `output_dir`, with the adapters added to its weights.
        merge: bool = false;
    }
}

spelled! {
    /// A kind of adapters.
    pub enum PeftMethod {
        /// Low-rank adaptation.
        Lora = "lora",
    }
}

spelled! {
    /// The biases that are trained beside adapters.
    pub enum PeftBias {
        /// No bias.
        None = "none",
        /// Every bias of the model.
        All = "all",
        /// The biases of the layers that have an adapter.
        LoraOnly = "lora_only",
    }
}
