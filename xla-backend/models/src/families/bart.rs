//! BART (Lewis et al., 2019), and mBART (Liu et al., 2020).
//!
//! V `vocab_size`, T positions of a target.

use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::heads::{Seq2SeqLmHead, lm_head};
use crate::layers::{Activation, check_heads};
use crate::model::Model;
use crate::parameters::{Dimension, Init, Role};
use crate::seq2seq::EncoderDecoder;
use crate::seq2seq::bart::{Bart, BartConfig, StackConfig, WORDS};
use crate::tasks::Task;

/// The keys of a `config.json` that bear on its computation.
const KEYS: &[&str] = &[
    "vocab_size",
    "max_position_embeddings",
    "encoder_layers",
    "encoder_ffn_dim",
    "encoder_attention_heads",
    "decoder_layers",
    "decoder_ffn_dim",
    "decoder_attention_heads",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "activation_function",
    "d_model",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "init_std",
    "scale_embedding",
    "pad_token_id",
    "eos_token_id",
    "decoder_start_token_id",
    "tie_word_embeddings",
];

const FINAL_LOGITS_BIAS: &str = "final_logits_bias";

/// A family whose models are BART's.
#[derive(Debug)]
pub(crate) struct BartFamily {
    model_type: &'static str,
    class: &'static str,
    normalizes_before: bool,
}

pub(crate) const FAMILY: BartFamily =
    BartFamily { model_type: "bart", class: "Bart", normalizes_before: false };

pub(crate) const MBART_FAMILY: BartFamily =
    BartFamily { model_type: "mbart", class: "MBart", normalizes_before: true };

impl Family for BartFamily {
    fn model_type(&self) -> &'static str {
        self.model_type
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(self.resolve(config)?.max_position_embeddings)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        let name = format!("{}ForConditionalGeneration", self.class);
        (task == Task::Seq2SeqLm)
            .then(|| FamilyModel::new(name, |config| self.conditional_generation(config)))
    }
}

impl BartFamily {
    /// Logits f32[B, T, V].
    fn conditional_generation(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let bart = self.resolve(config)?;
            let (hidden_size, vocab_size) = (bart.d_model, bart.vocab_size);
            let std = bart.init_std;
            let body = EncoderDecoder::new(Bart::new(root, bart));
            let tied = config.bool_or("tie_word_embeddings", true)?;
            let decoder = lm_head(root, WORDS, tied, [hidden_size, vocab_size], std);
            // A buffer in transformers: saved, and never trained.
            let dimensions = [1.into(), Dimension::vocabulary(vocab_size)];
            let bias = root.at("").frozen().declare(
                FINAL_LOGITS_BIAS,
                Role::Bias,
                &dimensions,
                Init::Zeros,
            );
            Ok((
                body,
                Seq2SeqLmHead { decoder, scale: None, bias: Some(bias), hidden_size, vocab_size },
            ))
        })
    }

    fn resolve(&self, config: &ModelConfig) -> Result<BartConfig> {
        let vocab_size = config.size_or("vocab_size", 50_265)?;
        let d_model = config.size_or("d_model", 1024)?;
        Ok(BartConfig {
            vocab_size,
            d_model,
            max_position_embeddings: config.size_or("max_position_embeddings", 1024)?,
            encoder: stack(config, "encoder", d_model)?,
            decoder: stack(config, "decoder", d_model)?,
            activation: Activation::from_config(config, "activation_function", "gelu")?,
            dropout: config.dropout_or("dropout", 0.1)?,
            attention_dropout: config.dropout_or("attention_dropout", 0.0)?,
            activation_dropout: config.dropout_or("activation_dropout", 0.0)?,
            init_std: config.positive_or("init_std", 0.02)?,
            scale_embedding: config.bool_or("scale_embedding", false)?,
            pad_token_id: config.token_id_or("pad_token_id", vocab_size, 1)?,
            normalizes_before: self.normalizes_before,
        })
    }
}

fn stack(config: &ModelConfig, name: &str, d_model: usize) -> Result<StackConfig> {
    let layerdrop = format!("{name}_layerdrop");
    if config.dropout_or(&layerdrop, 0.0)? > 0.0 {
        return Err(config.error(&layerdrop, "layers cannot be dropped: set it to 0"));
    }
    let heads_key = format!("{name}_attention_heads");
    let attention_heads = config.size_or(&heads_key, 16)?;
    check_heads(config, &heads_key, attention_heads, d_model)?;
    Ok(StackConfig {
        layers: config.size_or(&format!("{name}_layers"), 12)?,
        ffn_dim: config.size_or(&format!("{name}_ffn_dim"), 4096)?,
        attention_heads,
    })
}
