//! RoBERTa (Liu et al., 2019) and XLM-RoBERTa (Conneau et al., 2019): BERT with
//! positions counted from behind the padding id and heads of other names.

use super::bert;
use super::encoder_family::{EncoderFamily, FamilyConfig, HeadConfig};
use crate::config::ModelConfig;
use crate::encoder::{EncoderConfig, Positions};
use crate::error::Result;
use crate::heads::MaskedLmNames;
use crate::layers::Activation;

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "roberta",
    class: "Roberta",
    keys: bert::KEYS,
    encoder: bert::encoder_names("roberta"),
    pooled_classifier: ["classifier.dense", "classifier.out_proj"],
    pooler: Some("roberta.pooler.dense"),
    masked_lm: MaskedLmNames {
        dense: "lm_head.dense",
        norm: "lm_head.layer_norm",
        words: "roberta.embeddings.word_embeddings.weight",
        bias: "lm_head.bias",
        decoder_weight: "lm_head.decoder.weight",
        decoder_bias: Some("lm_head.decoder.bias"),
    },
    causal_lm: Some("ForCausalLM"),
    resolve: |config| {
        let encoder = resolve_encoder(config)?;
        let heads = heads(config, &encoder)?;
        Ok(FamilyConfig { encoder, heads })
    },
};

/// XLM-RoBERTa has RoBERTa's modules under another name.
pub(crate) const XLM_FAMILY: EncoderFamily =
    EncoderFamily { model_type: "xlm-roberta", class: "XLMRoberta", ..FAMILY };

/// The dropout rates and activations of the heads.
pub(super) fn heads(config: &ModelConfig, encoder: &EncoderConfig) -> Result<HeadConfig> {
    let classifier_dropout = bert::classifier_dropout(config, encoder)?;
    Ok(HeadConfig {
        pooled_input_dropout: classifier_dropout,
        pooled_activation: Activation::Tanh,
        pooled_dropout: classifier_dropout,
        token_dropout: classifier_dropout,
        span_dropout: 0.0,
        masked_lm_activation: Activation::Gelu,
    })
}

/// Resolves the keys of BERT, with positions that need a padding id.
fn resolve_encoder(config: &ModelConfig) -> Result<EncoderConfig> {
    const DEFAULT_PAD_TOKEN_ID: usize = 1;
    let encoder = bert::resolve_encoder(config, DEFAULT_PAD_TOKEN_ID)?;
    let rows = encoder.positions.rows();
    match encoder.pad_token_id {
        Some(padding_id) if padding_id + 1 < rows => {
            Ok(EncoderConfig { positions: Positions::AfterPadding { rows, padding_id }, ..encoder })
        }
        found => {
            let found = found.map_or("none".to_owned(), |id| id.to_string());
            let problem = format!(
                "expected a token id with positions behind it \
                 (max_position_embeddings is {rows}), found {found}"
            );
            Err(config.error("pad_token_id", problem))
        }
    }
}
