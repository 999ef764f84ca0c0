//! Masked language modeling, and causal language modeling of encoders that are
//! decoders: a dense layer, an activation and a norm, then the product with the
//! word embeddings, to which the decoder is usually tied.

use traind_xla::{DType, Tensor};

use super::{Head, vocabulary_logits};
use crate::config::ModelConfig;
use crate::encoder::EncoderConfig;
use crate::error::Result;
use crate::flops;
use crate::layers::{Activation, LayerNorm, Linear};
use crate::model::{Batch, Forward, InputSpec, Lengths, Output, OutputKind};
use crate::parameters::{Dimension, ParameterPath};
use crate::tasks::{causal_lm, token_labels};

#[derive(Debug)]
pub(crate) struct MaskedLmNames {
    pub dense: &'static str,
    pub norm: &'static str,
    /// The word embeddings, which the decoder multiplies with.
    pub words: &'static str,
    /// The vocabulary's bias, [V].
    pub bias: &'static str,
    /// The decoder's weight, which is `words` unless the config unties it.
    pub decoder_weight: &'static str,
    /// The decoder's bias, where `bias` is not itself.
    pub decoder_bias: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct MaskedLmHead {
    dense: Linear,
    activation: Activation,
    norm: LayerNorm,
    decoder: Linear,
    hidden_size: usize,
    vocab_size: usize,
    predicts: Predicts,
}

/// The token whose label the logits of a token are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predicts {
    Itself,
    Next,
}

impl MaskedLmHead {
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        names: &MaskedLmNames,
        config: &ModelConfig,
        encoder: &EncoderConfig,
        activation: Activation,
        predicts: Predicts,
    ) -> Result<MaskedLmHead> {
        let (hidden_size, vocab_size) = (encoder.hidden_size(), encoder.vocab_size);
        let dense = encoder.linear(root.at(names.dense).beside_tokens(), hidden_size, hidden_size);
        let norm = encoder.layer_norm(root.at(names.norm));
        let decoder = match config.bool_or("tie_word_embeddings", true)? {
            true => tied_decoder(root, names, vocab_size),
            false => own_decoder(root, names, encoder),
        };
        Ok(MaskedLmHead { dense, activation, norm, decoder, hidden_size, vocab_size, predicts })
    }
}

fn tied_decoder(root: &mut ParameterPath<'_>, names: &MaskedLmNames, vocab_size: usize) -> Linear {
    let vocabulary = Dimension::vocabulary(vocab_size);
    let decoder = Linear::sharing(names.words).with_bias(root, names.bias, vocabulary);
    root.tie(names.words, names.decoder_weight);
    if let Some(alias) = names.decoder_bias {
        root.tie(names.bias, alias);
    }
    decoder
}

/// A decoder with a weight and a bias of its own. Where those have names below it, transformers
/// keeps the vocabulary's bias beside them, and never reads it.
fn own_decoder(
    root: &mut ParameterPath<'_>,
    names: &MaskedLmNames,
    encoder: &EncoderConfig,
) -> Linear {
    let vocabulary = Dimension::vocabulary(encoder.vocab_size);
    let module = names.decoder_weight.trim_end_matches(".weight");
    if let (Some(_), Some((owner, bias))) = (names.decoder_bias, names.bias.rsplit_once('.')) {
        root.at(owner).frozen().bias(bias, vocabulary);
    }
    Linear::new(root.at(module), encoder.hidden_size(), vocabulary, encoder.std())
}

impl Head for MaskedLmHead {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs()
    }

    fn output(&self) -> OutputKind {
        match self.predicts {
            Predicts::Itself => OutputKind::PerToken { classes: self.vocab_size },
            Predicts::Next => OutputKind::NextToken { classes: self.vocab_size },
        }
    }

    fn divides_positions(&self) -> bool {
        true
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let x = self.activation.forward(&self.dense.forward(cx, hidden_states)?)?;
        let x = self.norm.forward(cx, &x.convert(DType::F32)?)?;
        let logits = vocabulary_logits(cx, &self.decoder, &x, self.vocab_size)?;
        let loss = match self.predicts {
            Predicts::Itself => token_labels::loss(&logits, batch)?,
            Predicts::Next => causal_lm::loss(&logits, batch)?,
        };
        Ok(Output { logits: logits.by_row(batch.rows()?)?, loss })
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let hidden = self.hidden_size as f64;
        let token = flops::dot(hidden, hidden) + flops::dot(hidden, self.vocab_size as f64);
        lengths.positions as f64 * token
    }
}
