//! The tasks of a family that is an encoder: what BERT, DistilBERT and RoBERTa
//! have in common. A family says how its parts are called and how its config
//! reads.
//!
//! B rows, S positions, C labels, V `vocab_size`.

use crate::body::assemble;
use crate::config::ModelConfig;
use crate::encoder::{Encoder, EncoderConfig, EncoderNames};
use crate::error::Result;
use crate::heads::{
    Head, MaskedLmHead, MaskedLmNames, PooledClassifier, SPAN_SCORES, SpanHead, TokenClassifier,
};
use crate::layers::Activation;
use crate::model::Model;
use crate::parameters::ParameterPath;
use crate::tasks::SequenceClassification;

#[derive(Debug)]
pub(crate) struct EncoderFamily {
    pub(super) encoder: EncoderNames,
    /// Of the dense layer and of the one that gives the logits.
    pub(super) pooled_classifier: [&'static str; 2],
    pub(super) masked_lm: MaskedLmNames,
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

impl EncoderFamily {
    /// Logits f32[B, C].
    pub(crate) fn sequence_classification(&self, config: ModelConfig) -> Result<Box<dyn Model>> {
        self.build(config, |config, family, root| {
            let (encoder, heads) = (&family.encoder, family.heads);
            let task = SequenceClassification::new(config)?;
            let (hidden_size, [dense, classifier]) =
                (encoder.hidden_size(), self.pooled_classifier);
            Ok(PooledClassifier {
                input_dropout: heads.pooled_input_dropout,
                dense: encoder.linear(root.at(dense), hidden_size, hidden_size),
                activation: heads.pooled_activation,
                dropout: heads.pooled_dropout,
                classifier: encoder.linear(root.at(classifier), hidden_size, task.num_labels),
                hidden_size,
                task,
            })
        })
    }

    /// Logits f32[B, S, C].
    pub(crate) fn token_classification(&self, config: ModelConfig) -> Result<Box<dyn Model>> {
        self.build(config, |config, family, root| {
            let num_labels = config.num_labels()?;
            Ok(TokenClassifier::new(root, &family.encoder, num_labels, family.heads.token_dropout))
        })
    }

    /// Logits f32[B, S, 2]. Transformers wants the two to be the labels.
    pub(crate) fn question_answering(&self, mut config: ModelConfig) -> Result<Box<dyn Model>> {
        config.set_num_labels(SPAN_SCORES);
        self.build(config, |_, family, root| {
            Ok(SpanHead::new(root, &family.encoder, family.heads.span_dropout))
        })
    }

    /// Logits f32[B, S, V].
    pub(crate) fn masked_lm(&self, config: ModelConfig) -> Result<Box<dyn Model>> {
        self.build(config, |config, family, root| {
            let activation = family.heads.masked_lm_activation;
            MaskedLmHead::new(root, &self.masked_lm, config, &family.encoder, activation)
        })
    }

    fn build<H: Head + 'static>(
        &self,
        config: ModelConfig,
        head: impl FnOnce(&ModelConfig, &FamilyConfig, &mut ParameterPath<'_>) -> Result<H>,
    ) -> Result<Box<dyn Model>> {
        assemble(config, |config, root| {
            let family = (self.resolve)(config)?;
            let encoder = Encoder::new(root, &self.encoder, family.encoder.clone());
            Ok((encoder, head(config, &family, root)?))
        })
    }
}
