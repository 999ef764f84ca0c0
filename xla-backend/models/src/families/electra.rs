//! ELECTRA (Clark et al., 2020), as transformers' `ElectraModel` computes it: BERT with embeddings of a
//! width of their own and other heads. Discriminators and generators have the same modules, and are pre-trained
//! together.

mod pretraining;

use super::bert;
use super::encoder_family::{EncoderFamily, FamilyConfig, HeadConfig};
use crate::config::ModelConfig;
use crate::encoder::EncoderConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::heads::MaskedLmNames;
use crate::layers::Activation;
use crate::tasks::Task;

/// The keys of an ELECTRA `config.json` that bear on its computation.
const KEYS: &[&str] = &[
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "classifier_dropout",
    "position_embedding_type",
    "is_decoder",
    "tie_word_embeddings",
];

/// ELECTRA: an encoder whose two models are also trained together.
pub(crate) struct Electra;

pub(crate) const FAMILY: Electra = Electra;

impl Family for Electra {
    fn model_type(&self) -> &'static str {
        ENCODER.model_type()
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        ENCODER.max_positions(config)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        const OF_ENCODER: &EncoderFamily = &ENCODER;
        match task {
            Task::ReplacedTokenDetection => {
                Some(FamilyModel::new("ElectraForPreTraining", pretraining::build))
            }
            _ => OF_ENCODER.model(task),
        }
    }
}

const ENCODER: EncoderFamily = EncoderFamily {
    model_type: "electra",
    class: "Electra",
    keys: KEYS,
    encoder: bert::encoder_names("electra"),
    pooled_classifier: ["classifier.dense", "classifier.out_proj"],
    pooler: None,
    masked_lm: MaskedLmNames {
        dense: "generator_predictions.dense",
        norm: "generator_predictions.LayerNorm",
        words: "electra.embeddings.word_embeddings.weight",
        bias: "generator_lm_head.bias",
        decoder_weight: "generator_lm_head.weight",
        decoder_bias: None,
    },
    causal_lm: Some("ForCausalLM"),
    resolve: |config| {
        let encoder = resolve_encoder(config)?;
        let classifier_dropout = bert::classifier_dropout(config, &encoder)?;
        let heads = HeadConfig {
            pooled_input_dropout: classifier_dropout,
            pooled_activation: Activation::Gelu,
            pooled_dropout: classifier_dropout,
            token_dropout: classifier_dropout,
            span_dropout: 0.0,
            masked_lm_activation: Activation::Gelu,
        };
        Ok(FamilyConfig { encoder, heads })
    },
};

/// BERT's, with a projection where embeddings are not as wide as hidden states.
fn resolve_encoder(config: &ModelConfig) -> Result<EncoderConfig> {
    const DEFAULT_PAD_TOKEN_ID: usize = 0;
    let encoder = bert::resolve_encoder(config, DEFAULT_PAD_TOKEN_ID)?;
    let embedding_size = config.size_or("embedding_size", 128)?;
    let differs = embedding_size != encoder.hidden_size();
    let embedding_projection = differs.then_some("embeddings_project");
    Ok(EncoderConfig { embedding_size, embedding_projection, ..encoder })
}
