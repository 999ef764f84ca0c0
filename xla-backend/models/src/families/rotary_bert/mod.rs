//! BERT with rotary positions and gated feed-forward networks: the layers of Nomic BERT and of GTE. A family gives
//! names, defaults, and which layers have biases.
//!
//! B rows, S positions, H `hidden_size`, N heads, D head size, C labels, V `vocab_size`.

mod body;
mod config;

use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::heads::{
    EmbeddingHead, MaskedLmHead, MaskedLmNames, MaskedLmSizes, PooledClassifier, Pooling, Predicts,
    TokenClassifier, Transform,
};
use crate::layers::{Activation, GateNames, Linear};
use crate::model::{Head, Model};
use crate::parameters::ParameterPath;
use crate::tasks::{SequenceClassification, Task};
use body::RotaryBert;
use config::RotaryBertConfig;

/// The keys of their `config.json` that bear on the computation.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim",
    "intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps",
    "pad_token_id", "classifier_dropout", "rope_parameters", "rope_scaling", "rope_theta",
    "tie_word_embeddings",
];

/// A family of such encoders.
#[derive(Debug)]
pub(crate) struct RotaryBertFamily {
    pub(super) model_type: &'static str,
    /// The beginning of the classes' names in transformers.
    pub(super) class: &'static str,
    /// The name of the body in a model with a head.
    pub(super) prefix: &'static str,
    /// The name of the dense layer behind the first token, which classifiers of rows have.
    pub(super) pooler: &'static str,
    pub(super) names: LayerNames,
    pub(super) masked_lm: MaskedLmNames,
    /// The activation of the head of masked language models, where it is not that of the layers.
    pub(super) masked_lm_activation: Option<Activation>,
    /// Whether attention, and the output of feed-forward networks, have biases.
    pub(super) has_biases: bool,
    /// Whether feed-forward networks drop the product of gate and factor.
    pub(super) drops_features: bool,
    pub(super) defaults: Defaults,
}

/// The names of layers and of what is in them, as models on the hub have them and transformers saves them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNames {
    pub embedding_norm: &'static str,
    pub layers: &'static str,
    pub attention: &'static str,
    /// Queries, keys and values in one matrix.
    pub projections: &'static str,
    pub output: &'static str,
    /// The norms behind the attention and behind the feed-forward network.
    pub norms: [&'static str; 2],
    pub gate: GateNames,
    pub down: &'static str,
}

/// Transformers' defaults of keys that differ between families.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub vocab_size: usize,
    pub hidden_act: &'static str,
    pub hidden_dropout: f64,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub pad_token_id: usize,
    pub theta: f64,
}

impl Family for RotaryBertFamily {
    fn model_type(&self) -> &'static str {
        self.model_type
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(RotaryBertConfig::resolve(self, config)?.max_position_embeddings)
    }

    /// Transformers has no classes of these that answer questions.
    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        type Build = fn(&RotaryBertFamily, ModelConfig) -> Result<Model>;
        let (class, build): (_, Build) = match task {
            Task::SequenceClassification => {
                ("ForSequenceClassification", Self::sequence_classification)
            }
            Task::TokenClassification => ("ForTokenClassification", Self::token_classification),
            Task::MaskedLm => ("ForMaskedLM", Self::masked_lm),
            Task::Embedding => ("Model", Self::embedding),
            Task::QuestionAnswering
            | Task::CausalLm
            | Task::Seq2SeqLm
            | Task::ImageClassification
            | Task::ReplacedTokenDetection => return None,
        };
        let architecture = format!("{}{class}", self.class);
        Some(FamilyModel::new(architecture, move |config| build(self, config)))
    }
}

impl RotaryBertFamily {
    /// Logits f32[B, C].
    fn sequence_classification(&self, config: ModelConfig) -> Result<Model> {
        self.with_head(config, |config, bert, root| {
            let (hidden, std) = (bert.hidden_size, bert.initializer_range);
            let task = SequenceClassification::new(config)?;
            Ok(PooledClassifier {
                pooling: Pooling::First,
                input_dropout: 0.0,
                transform: Transform {
                    dense: Linear::new(root.at(self.pooler), hidden, hidden, std),
                    activation: Activation::Tanh,
                    norm: None,
                    widths: [hidden; 2],
                },
                dropout: bert.classifier_dropout,
                classifier: Linear::new(root.at("classifier"), hidden, task.num_labels, std),
                task,
            })
        })
    }

    /// Logits f32[B, S, C].
    fn token_classification(&self, config: ModelConfig) -> Result<Model> {
        self.with_head(config, |config, bert, root| {
            let (labels, std) = (config.num_labels()?, bert.initializer_range);
            Ok(TokenClassifier::new(root, bert.hidden_size, std, labels, bert.classifier_dropout))
        })
    }

    /// Logits f32[B, S, V].
    fn masked_lm(&self, config: ModelConfig) -> Result<Model> {
        self.with_head(config, |config, bert, root| {
            let sizes = MaskedLmSizes {
                hidden_size: bert.hidden_size,
                embedding_size: bert.hidden_size,
                vocab_size: bert.vocab_size,
                layer_norm_eps: bert.layer_norm_eps,
                init: bert.initializer_range.into(),
                dense_bias: true,
                norm_bias: true,
                decoder_bias: true,
            };
            let activation = self.masked_lm_activation.unwrap_or(bert.hidden_act);
            MaskedLmHead::new(root, &self.masked_lm, config, &sizes, activation, Predicts::Itself)
        })
    }

    /// Embeddings f32[B, D].
    fn embedding(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let bert = RotaryBertConfig::resolve(self, config)?;
            let hidden_size = bert.hidden_size;
            let body = RotaryBert::new(&mut root.at("").as_base_model(self.prefix), bert);
            Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
        })
    }

    /// The model with a head.
    fn with_head<H: Head + 'static>(
        &self,
        config: ModelConfig,
        head: impl FnOnce(&ModelConfig, &RotaryBertConfig, &mut ParameterPath<'_>) -> Result<H>,
    ) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let bert = RotaryBertConfig::resolve(self, config)?;
            let body = RotaryBert::new(root, bert.clone());
            Ok((body, head(config, &bert, root)?))
        })
    }
}
