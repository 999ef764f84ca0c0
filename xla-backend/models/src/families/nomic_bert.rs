//! Nomic BERT (Nussbaum et al., 2024), as transformers' `NomicBertModel` computes it: BERT with rotary positions, gated
//! feed-forward networks, and no biases in its layers.

use super::bert;
use super::rotary_bert::{Defaults, LayerNames, RotaryBertFamily};
use crate::heads::MaskedLmNames;
use crate::layers::GateNames;

pub(crate) const FAMILY: RotaryBertFamily = RotaryBertFamily {
    model_type: "nomic_bert",
    class: "NomicBert",
    prefix: "nomic_bert",
    pooler: "nomic_bert.pooler.dense",
    names: LayerNames {
        embedding_norm: "emb_ln",
        layers: "encoder.layers",
        attention: "attn",
        projections: "Wqkv",
        output: "out_proj",
        norms: ["norm1", "norm2"],
        gate: GateNames::Apart(["fc12", "fc11"]),
        down: "fc2",
    },
    masked_lm: MaskedLmNames {
        norm: "cls.predictions.transform.layer_norm",
        words: "nomic_bert.embeddings.word_embeddings.weight",
        ..bert::FAMILY.masked_lm
    },
    masked_lm_activation: None,
    has_biases: false,
    drops_features: false,
    defaults: Defaults {
        vocab_size: 30_528,
        hidden_act: "silu",
        hidden_dropout: 0.0,
        max_position_embeddings: 2048,
        type_vocab_size: 2,
        pad_token_id: 0,
        theta: 1000.0,
    },
};
