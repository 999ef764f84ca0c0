//! ModernBERT (Warner et al., 2024), as transformers' `ModernBertModel` computes it: rotary positions, of
//! which layers that see their neighbours alone have other ones, gated feed-forward networks, and norms
//! before both parts of a layer.
//!
//! B rows, S positions, H `hidden_size`, N heads, D head size, C labels, V `vocab_size`.

mod body;
mod config;

use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::heads::{
    EmbeddingHead, MaskedLmHead, MaskedLmNames, MaskedLmSizes, PooledClassifier, Predicts,
    SPAN_SCORES, SpanHead, TokenClassifier,
};
use crate::model::{Head, Model};
use crate::parameters::ParameterPath;
use crate::tasks::{SequenceClassification, Task};
use body::ModernBert;
use config::ModernBertConfig;

/// The keys of a ModernBERT `config.json` that bear on its computation.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "hidden_activation", "max_position_embeddings", "initializer_range",
    "initializer_cutoff_factor", "norm_eps", "norm_bias", "pad_token_id", "attention_bias",
    "attention_dropout", "layer_types", "global_attn_every_n_layers", "local_attention",
    "rope_parameters", "rope_scaling", "global_rope_theta", "local_rope_theta",
    "embedding_dropout", "mlp_bias", "mlp_dropout", "decoder_bias", "classifier_pooling",
    "classifier_dropout", "classifier_bias", "classifier_activation", "tie_word_embeddings",
];

/// The name of the body in a model with a head.
const PREFIX: &str = "model";

const MASKED_LM: MaskedLmNames = MaskedLmNames {
    dense: "head.dense",
    norm: "head.norm",
    words: "model.embeddings.tok_embeddings.weight",
    bias: "decoder.bias",
    decoder_weight: "decoder.weight",
    decoder_bias: None,
};

pub(crate) const FAMILY: ModernBertFamily = ModernBertFamily;

#[derive(Debug)]
pub(crate) struct ModernBertFamily;

impl Family for ModernBertFamily {
    fn model_type(&self) -> &'static str {
        "modernbert"
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(ModernBertConfig::resolve(config)?.max_position_embeddings)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        let (class, build): (_, fn(ModelConfig) -> _) = match task {
            Task::SequenceClassification => ("ForSequenceClassification", sequence_classification),
            Task::TokenClassification => ("ForTokenClassification", token_classification),
            Task::QuestionAnswering => ("ForQuestionAnswering", question_answering),
            Task::MaskedLm => ("ForMaskedLM", masked_lm),
            Task::Embedding => ("Model", embedding),
            Task::CausalLm
            | Task::Seq2SeqLm
            | Task::ImageClassification
            | Task::ReplacedTokenDetection => return None,
        };
        Some(FamilyModel::new(format!("ModernBert{class}"), build))
    }
}

/// Logits f32[B, C].
fn sequence_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, modern, root| {
        let task = SequenceClassification::new(config)?;
        Ok(PooledClassifier {
            pooling: modern.pooling,
            input_dropout: 0.0,
            transform: modern.transform(root),
            dropout: modern.classifier_dropout,
            classifier: modern.classifier(root, task.num_labels),
            task,
        })
    })
}

/// Logits f32[B, S, C].
fn token_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, modern, root| {
        let (transform, init) = (modern.transform(root), modern.inits().classifier);
        let (labels, dropout) = (config.num_labels()?, modern.classifier_dropout);
        let classifier = TokenClassifier::new(root, modern.hidden_size, init, labels, dropout);
        Ok(classifier.behind(transform))
    })
}

/// Logits f32[B, S, 2]. Transformers wants the two to be the labels.
fn question_answering(mut config: ModelConfig) -> Result<Model> {
    config.set_num_labels(SPAN_SCORES);
    with_head(config, |_, modern, root| {
        let (transform, dropout) = (modern.transform(root), modern.classifier_dropout);
        Ok(SpanHead::behind(transform, dropout, modern.classifier(root, SPAN_SCORES)))
    })
}

/// Logits f32[B, S, V].
fn masked_lm(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, modern, root| {
        let sizes = MaskedLmSizes {
            hidden_size: modern.hidden_size,
            embedding_size: modern.hidden_size,
            vocab_size: modern.vocab_size,
            layer_norm_eps: modern.norm_eps,
            init: modern.inits().output,
            dense_bias: modern.classifier_bias,
            norm_bias: modern.norm_bias,
            decoder_bias: modern.decoder_bias,
        };
        let activation = modern.classifier_activation;
        MaskedLmHead::new(root, &MASKED_LM, config, &sizes, activation, Predicts::Itself)
    })
}

/// Embeddings f32[B, D].
fn embedding(config: ModelConfig) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let modern = ModernBertConfig::resolve(config)?;
        let hidden_size = modern.hidden_size;
        let body = ModernBert::new(&mut root.at("").as_base_model(PREFIX), modern);
        Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
    })
}

/// The model with a head.
fn with_head<H: Head + 'static>(
    config: ModelConfig,
    head: impl FnOnce(&ModelConfig, &ModernBertConfig, &mut ParameterPath<'_>) -> Result<H>,
) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let modern = ModernBertConfig::resolve(config)?;
        let body = ModernBert::new(root, modern.clone());
        Ok((body, head(config, &modern, root)?))
    })
}
