//! EuroBERT (Boizard et al., 2025), as transformers' `EuroBertModel` computes it: the layers of Llama, whose tokens see
//! each other in both directions.
//!
//! B rows, S positions, C labels, V `vocab_size`.

use super::decoders::{Defaults, LLAMA, decoder_keys, resolve_llama, set_attention_bias};
use crate::config::ModelConfig;
use crate::decoder::{Decoder, DecoderConfig, PREFIX, WORDS};
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::heads::{
    EmbeddingHead, MaskedLmHead, PooledClassifier, Pooling, TokenClassifier, Transform,
};
use crate::layers::{Activation, Linear};
use crate::model::{Head, Model};
use crate::parameters::{Dimension, ParameterPath};
use crate::tasks::{SequenceClassification, Task};

const KEYS: &[&str] = decoder_keys!["attention_bias", "mlp_bias", "classifier_pooling"];

const DEFAULTS: Defaults = Defaults {
    vocab_size: 128_256,
    hidden_size: 768,
    intermediate_size: 3072,
    num_hidden_layers: 12,
    num_attention_heads: 12,
    max_position_embeddings: 8192,
    rms_norm_eps: 1e-5,
    pad_token_id: Some(128_001),
    ..LLAMA
};

pub(crate) const FAMILY: EuroBertFamily = EuroBertFamily;

#[derive(Debug)]
pub(crate) struct EuroBertFamily;

impl Family for EuroBertFamily {
    fn model_type(&self) -> &'static str {
        "eurobert"
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(resolve(config)?.max_position_embeddings)
    }

    /// Transformers has no class of it that answers questions.
    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        let (class, build): (_, fn(ModelConfig) -> _) = match task {
            Task::SequenceClassification => ("ForSequenceClassification", sequence_classification),
            Task::TokenClassification => ("ForTokenClassification", token_classification),
            Task::MaskedLm => ("ForMaskedLM", masked_lm),
            Task::Embedding => ("Model", embedding),
            Task::QuestionAnswering
            | Task::CausalLm
            | Task::Seq2SeqLm
            | Task::ImageClassification
            | Task::ReplacedTokenDetection => return None,
        };
        Some(FamilyModel::new(format!("EuroBert{class}"), build))
    }
}

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut euro = resolve_llama(config, &DEFAULTS)?;
    set_attention_bias(config, &mut euro)?;
    euro.mlp_bias = config.bool_or("mlp_bias", false)?;
    euro.is_causal = false;
    Ok(euro)
}

/// The vector of a row that is classified, or the mean of all tokens' classes.
fn pooling(config: &ModelConfig) -> Result<Pooling> {
    const KEY: &str = "classifier_pooling";
    match config.string_or(KEY, "late")? {
        "late" => Ok(Pooling::MeanOfLogits),
        "bos" => Ok(Pooling::First),
        "mean" => Ok(Pooling::Mean),
        other => Err(config.error(KEY, format!("expected late, bos or mean, found {other}"))),
    }
}

/// Logits f32[B, C].
fn sequence_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, euro, root| {
        let (hidden, std) = (euro.hidden_size, euro.initializer_range);
        let task = SequenceClassification::new(config)?;
        Ok(PooledClassifier {
            pooling: pooling(config)?,
            input_dropout: 0.0,
            transform: Transform {
                dense: Linear::new(root.at("dense"), hidden, hidden, std),
                activation: Activation::Gelu,
                norm: None,
                widths: [hidden; 2],
            },
            dropout: 0.0,
            classifier: Linear::new(root.at("classifier"), hidden, task.num_labels, std),
            task,
        })
    })
}

/// Logits f32[B, S, C].
fn token_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, euro, root| {
        let (labels, std) = (config.num_labels()?, euro.initializer_range);
        Ok(TokenClassifier::new(root, euro.hidden_size, std, labels, 0.0))
    })
}

/// Logits f32[B, S, V].
fn masked_lm(config: ModelConfig) -> Result<Model> {
    with_head(config, |_, euro, root| {
        let (hidden_size, vocab_size) = (euro.hidden_size, euro.vocab_size);
        let vocabulary = Dimension::vocabulary(vocab_size);
        let decoder = match (euro.tie_word_embeddings, euro.mlp_bias) {
            (true, has_bias) => {
                root.tie(WORDS, "lm_head.weight");
                let decoder = Linear::sharing(WORDS);
                match has_bias {
                    true => decoder.with_bias(root, "lm_head.bias", vocabulary),
                    false => decoder,
                }
            }
            (false, has_bias) => {
                let (path, std) = (root.at("lm_head"), euro.initializer_range);
                Linear::with_bias_if(has_bias, path, hidden_size, vocabulary, std)
            }
        };
        Ok(MaskedLmHead::of_decoder(decoder, hidden_size, vocab_size))
    })
}

/// Embeddings f32[B, D].
fn embedding(config: ModelConfig) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let euro = resolve(config)?;
        let hidden_size = euro.hidden_size;
        let body = Decoder::new(&mut root.at("").as_base_model(PREFIX), euro);
        Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
    })
}

/// The model with a head.
fn with_head<H: Head + 'static>(
    config: ModelConfig,
    head: impl FnOnce(&ModelConfig, &DecoderConfig, &mut ParameterPath<'_>) -> Result<H>,
) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let euro = resolve(config)?;
        let body = Decoder::new(root, euro.clone());
        Ok((body, head(config, &euro, root)?))
    })
}
