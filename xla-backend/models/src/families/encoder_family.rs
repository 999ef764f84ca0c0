//! Families that are encoders, such as BERT, DistilBERT and DeBERTa: their tasks.
//! A family gives the names of its parts and resolves its config.
//!
//! B rows, S positions, C labels, V `vocab_size`.

use crate::config::ModelConfig;
use crate::encoder::{Encoder, EncoderConfig, EncoderNames};
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::heads::{
    EmbeddingHead, MaskedLmHead, MaskedLmNames, MaskedLmSizes, PooledClassifier, Pooling, Predicts,
    SPAN_SCORES, SpanHead, TokenClassifier, Transform,
};
use crate::layers::Activation;
use crate::model::{Head, Model};
use crate::parameters::ParameterPath;
use crate::tasks::{SequenceClassification, Task};

#[derive(Debug)]
pub(crate) struct EncoderFamily {
    pub(super) model_type: &'static str,
    /// The beginning of the classes' names in transformers: `Bert` of `BertForMaskedLM`.
    pub(super) class: &'static str,
    /// The config keys that it reads.
    pub(super) keys: &'static [&'static str],
    pub(super) encoder: EncoderNames,
    /// Names of the dense layer and of the one that gives the logits.
    pub(super) pooled_classifier: [&'static str; 2],
    /// The name of the dense layer that transformers' model without a head has behind the first token.
    pub(super) pooler: Option<&'static str>,
    pub(super) masked_lm: MaskedLmNames,
    /// The end of the class of a decoder's causal language model: `LMHeadModel` of
    /// `BertLMHeadModel`.
    pub(super) causal_lm: Option<&'static str>,
    pub(super) resolve: fn(&ModelConfig) -> Result<FamilyConfig>,
}

/// A family's config, resolved: transformers' defaults where the file is
/// silent.
#[derive(Clone, Debug)]
pub(super) struct FamilyConfig {
    pub encoder: EncoderConfig,
    pub heads: HeadConfig,
}

/// Dropout rates and activations of the heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadConfig {
    pub pooled_input_dropout: f64,
    pub pooled_activation: Activation,
    pub pooled_dropout: f64,
    pub token_dropout: f64,
    pub span_dropout: f64,
    pub masked_lm_activation: Activation,
}

impl Family for EncoderFamily {
    fn model_type(&self) -> &'static str {
        self.model_type
    }

    fn keys(&self) -> &'static [&'static str] {
        self.keys
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok((self.resolve)(config)?.encoder.positions.longest_row())
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        Some(match task {
            Task::SequenceClassification => {
                self.headed("SequenceClassification", Self::sequence_classification)
            }
            Task::TokenClassification => {
                self.headed("TokenClassification", Self::token_classification)
            }
            Task::QuestionAnswering => self.headed("QuestionAnswering", Self::question_answering),
            Task::MaskedLm => self.headed("MaskedLM", Self::masked_lm),
            Task::CausalLm => {
                let class = self.causal_lm?;
                let architecture = format!("{}{class}", self.class);
                FamilyModel::new(architecture, move |config| self.causal_lm(config))
            }
            Task::Embedding => {
                FamilyModel::new(format!("{}Model", self.class), |config| self.embedding(config))
            }
            Task::Seq2SeqLm | Task::ImageClassification | Task::ReplacedTokenDetection => {
                return None;
            }
        })
    }
}

impl EncoderFamily {
    fn headed<'a>(
        &'a self,
        head: &str,
        build: fn(&'a EncoderFamily, ModelConfig) -> Result<Model>,
    ) -> FamilyModel<'a> {
        FamilyModel::new(format!("{}For{head}", self.class), move |config| build(self, config))
    }

    /// Logits f32[B, C].
    fn sequence_classification(&self, config: ModelConfig) -> Result<Model> {
        self.build(config, |config, family, root| {
            let (encoder, heads) = (&family.encoder, family.heads);
            let task = SequenceClassification::new(config)?;
            let (hidden_size, [dense, classifier]) =
                (encoder.hidden_size(), self.pooled_classifier);
            Ok(PooledClassifier {
                pooling: Pooling::First,
                input_dropout: heads.pooled_input_dropout,
                transform: Transform {
                    dense: encoder.linear(root.at(dense), hidden_size, hidden_size),
                    activation: heads.pooled_activation,
                    norm: None,
                    widths: [hidden_size; 2],
                },
                dropout: heads.pooled_dropout,
                classifier: encoder.linear(root.at(classifier), hidden_size, task.num_labels),
                task,
            })
        })
    }

    /// Logits f32[B, S, C].
    fn token_classification(&self, config: ModelConfig) -> Result<Model> {
        self.build(config, |config, family, root| {
            let num_labels = config.num_labels()?;
            let (hidden_size, std) = (family.encoder.hidden_size(), family.encoder.std());
            let dropout = family.heads.token_dropout;
            Ok(TokenClassifier::new(root, hidden_size, std, num_labels, dropout))
        })
    }

    /// Logits f32[B, S, 2]. Transformers wants the two to be the labels.
    fn question_answering(&self, mut config: ModelConfig) -> Result<Model> {
        config.set_num_labels(SPAN_SCORES);
        self.build(config, |_, family, root| {
            let (hidden_size, std) = (family.encoder.hidden_size(), family.encoder.std());
            Ok(SpanHead::new(root, hidden_size, std, family.heads.span_dropout))
        })
    }

    /// Logits f32[B, S, V]. Refuses DeBERTa's other head.
    fn masked_lm(&self, config: ModelConfig) -> Result<Model> {
        if self.keys.contains(&"legacy") && !config.bool_or("legacy", true)? {
            return Err(config.error("legacy", "only the head of true is supported"));
        }
        self.build(config, |config, family, root| {
            self.masked_lm_head(config, family, root, Predicts::Itself)
        })
    }

    /// Logits f32[B, S, V]. Refuses an encoder that is no decoder: every token would see the one
    /// that it is to predict.
    fn causal_lm(&self, config: ModelConfig) -> Result<Model> {
        if !config.bool_or("is_decoder", false)? {
            let problem = "causal language modeling needs true, in config.json or \
                           model.config_overrides";
            return Err(config.error("is_decoder", problem));
        }
        self.build(config, |config, family, root| {
            self.masked_lm_head(config, family, root, Predicts::Next)
        })
    }

    pub(super) fn masked_lm_head(
        &self,
        config: &ModelConfig,
        family: &FamilyConfig,
        root: &mut ParameterPath<'_>,
        predicts: Predicts,
    ) -> Result<MaskedLmHead> {
        let FamilyConfig { encoder, heads } = family;
        let sizes = MaskedLmSizes {
            hidden_size: encoder.hidden_size(),
            embedding_size: encoder.embedding_size,
            vocab_size: encoder.vocab_size,
            layer_norm_eps: encoder.layer_norm_eps,
            init: encoder.std().into(),
            dense_bias: true,
            norm_bias: true,
            decoder_bias: true,
        };
        let activation = heads.masked_lm_activation;
        MaskedLmHead::new(root, &self.masked_lm, config, &sizes, activation, predicts)
    }

    /// Embeddings f32[B, D]. The pooler, which they do not depend on, stays as it is.
    fn embedding(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let FamilyConfig { encoder, .. } = (self.resolve)(config)?;
            let mut base = root.at("").as_base_model(self.encoder.prefix);
            let body = Encoder::new(&mut base, &self.encoder, encoder.clone());
            let hidden_size = encoder.hidden_size();
            if let Some(pooler) = self.pooler {
                encoder.linear(base.at(pooler).frozen(), hidden_size, hidden_size);
            }
            Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
        })
    }

    fn build<H: Head + 'static>(
        &self,
        config: ModelConfig,
        head: impl FnOnce(&ModelConfig, &FamilyConfig, &mut ParameterPath<'_>) -> Result<H>,
    ) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let family = (self.resolve)(config)?;
            let encoder = Encoder::new(root, &self.encoder, family.encoder.clone());
            Ok((encoder, head(config, &family, root)?))
        })
    }
}
