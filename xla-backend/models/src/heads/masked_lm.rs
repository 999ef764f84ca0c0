//! Masked language modeling: a dense layer, an activation and a norm, then the
//! product with the word embeddings, to which the decoder is tied.

use traind_xla::{DType, Tensor};

use super::{Head, by_row};
use crate::config::ModelConfig;
use crate::encoder::EncoderConfig;
use crate::error::Result;
use crate::flops;
use crate::layers::{Activation, LayerNorm, Linear};
use crate::model::{Batch, Forward, InputSpec, Output, OutputKind};
use crate::parameters::{Dimension, ParameterPath};
use crate::tasks::token_labels;

#[derive(Debug)]
pub(crate) struct MaskedLmNames {
    pub dense: &'static str,
    pub norm: &'static str,
    /// The word embeddings, which the decoder multiplies with.
    pub words: &'static str,
    /// The vocabulary's bias, [V].
    pub bias: &'static str,
    /// The decoder's weight, which is `words`.
    pub tied_to_words: &'static str,
    /// The decoder's bias, where `bias` is not itself.
    pub tied_to_bias: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct MaskedLmHead {
    dense: Linear,
    activation: Activation,
    norm: LayerNorm,
    decoder: Linear,
    hidden_size: usize,
    vocab_size: usize,
}

impl MaskedLmHead {
    /// Refuses a decoder of its own, which only configs made by hand ask for.
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        names: &MaskedLmNames,
        config: &ModelConfig,
        encoder: &EncoderConfig,
        activation: Activation,
    ) -> Result<MaskedLmHead> {
        if !config.bool_or("tie_word_embeddings", true)? {
            let problem = "masked-lm decoders are tied to the word embeddings";
            return Err(config.error("tie_word_embeddings", problem));
        }
        let (hidden_size, vocab_size) = (encoder.hidden_size(), encoder.vocab_size);
        let dense = encoder.linear(root.at(names.dense), hidden_size, hidden_size);
        let norm = encoder.layer_norm(root.at(names.norm));
        let vocabulary = Dimension::vocabulary(vocab_size);
        let decoder = Linear::sharing(names.words).with_bias(root, names.bias, vocabulary);
        root.tie(names.words, names.tied_to_words);
        if let Some(alias) = names.tied_to_bias {
            root.tie(names.bias, alias);
        }
        Ok(MaskedLmHead { dense, activation, norm, decoder, hidden_size, vocab_size })
    }
}

impl Head for MaskedLmHead {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerToken { classes: self.vocab_size }
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let x = self.activation.forward(&self.dense.forward(cx, hidden_states)?)?;
        let x = self.norm.forward(cx, &x.convert(DType::F32)?)?;
        let logits = self.decoder.forward(cx, &x)?.convert(DType::F32)?;
        let loss = token_labels::loss(&logits, batch)?;
        Ok(Output { logits: by_row(&logits, batch)?, loss })
    }

    fn forward_flops(&self, positions: usize) -> f64 {
        let hidden = self.hidden_size as f64;
        let token = flops::dot(hidden, hidden) + flops::dot(hidden, self.vocab_size as f64);
        positions as f64 * token
    }
}
