//! GTE (Zhang et al., 2024), as transformers' `GteModel` computes it: BERT with rotary positions and gated feed-forward
//! networks, whose gates have no biases.

use super::rotary_bert::{Defaults, LayerNames, RotaryBertFamily};
use crate::heads::MaskedLmNames;
use crate::layers::{Activation, GateNames};

pub(crate) const FAMILY: RotaryBertFamily = RotaryBertFamily {
    model_type: "gte",
    class: "Gte",
    prefix: "gte",
    pooler: "gte.pooler.dense",
    names: LayerNames {
        embedding_norm: "embeddings.LayerNorm",
        layers: "encoder.layer",
        attention: "attention",
        projections: "qkv_proj",
        output: "o_proj",
        norms: ["attn_ln", "mlp_ln"],
        gate: GateNames::JoinedFactorFirst("up_gate_proj"),
        down: "down_proj",
    },
    masked_lm: MaskedLmNames {
        dense: "lm_head.dense",
        norm: "lm_head.norm",
        words: "gte.embeddings.word_embeddings.weight",
        bias: "lm_head.decoder.bias",
        decoder_weight: "lm_head.decoder.weight",
        decoder_bias: None,
    },
    masked_lm_activation: Some(Activation::Gelu),
    has_biases: true,
    drops_features: true,
    defaults: Defaults {
        vocab_size: 250_048,
        hidden_act: "gelu",
        hidden_dropout: 0.1,
        max_position_embeddings: 8192,
        type_vocab_size: 1,
        pad_token_id: 1,
        theta: 160_000.0,
    },
};
