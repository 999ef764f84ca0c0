//! XLM-RoBERTa-XL (Goyal et al., 2021), as transformers' `XLMRobertaXLModel` computes it: RoBERTa with norms before the
//! parts of its layers, none of its embeddings, and one behind the last layer.

use super::encoder_family::{EncoderFamily, FamilyConfig};
use super::roberta;
use crate::encoder::{EncoderConfig, EncoderNames};

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "xlm-roberta-xl",
    class: "XLMRobertaXL",
    encoder: EncoderNames {
        attention_norm: "attention.self_attn_layer_norm",
        output_norm: "LayerNorm",
        ..roberta::FAMILY.encoder
    },
    resolve: |config| {
        let FamilyConfig { encoder, heads } = (roberta::FAMILY.resolve)(config)?;
        let encoder = EncoderConfig {
            layer_norm_eps: config.positive_or("layer_norm_eps", 1e-5)?,
            // Sums behind the feed-forward network have no dropout.
            output_dropout: 0.0,
            last_norm: Some("encoder.LayerNorm"),
            ..encoder
        };
        Ok(FamilyConfig { encoder, heads })
    },
    ..roberta::FAMILY
};
