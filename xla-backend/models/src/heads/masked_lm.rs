//! Masked language modeling, and causal language modeling of encoders that are
//! decoders: a dense layer, an activation and a norm, then the product with the
//! word embeddings, to which the decoder is usually tied. The decoder may also stand alone.

use traind_xla::Tensor;

use super::{Transform, vocabulary_logits};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::flops;
use crate::layers::{Activation, LayerNorm, Linear};
use crate::model::{Batch, Forward, Head, InputSpec, Lengths, Output, OutputKind, Reads};
use crate::parameters::{Dimension, Init, ParameterPath};
use crate::tasks::{causal_lm, token_labels};
use crate::tensor_parallel::Logits;

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

/// The widths and settings of the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaskedLmSizes {
    pub hidden_size: usize,
    /// The width of the word embeddings.
    pub embedding_size: usize,
    pub vocab_size: usize,
    pub layer_norm_eps: f64,
    pub init: Init,
    pub dense_bias: bool,
    pub norm_bias: bool,
    pub decoder_bias: bool,
}

#[derive(Debug)]
pub(crate) struct MaskedLmHead {
    transform: Option<Transform>,
    decoder: Linear,
    embedding_size: usize,
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
        sizes: &MaskedLmSizes,
        activation: Activation,
        predicts: Predicts,
    ) -> Result<MaskedLmHead> {
        let MaskedLmSizes { hidden_size, embedding_size, vocab_size, .. } = *sizes;
        let (dense, init) = (root.at(names.dense).beside_tokens(), sizes.init);
        let dense =
            Linear::with_bias_if(sizes.dense_bias, dense, hidden_size, embedding_size, init);
        let (norm, epsilon) = (root.at(names.norm), sizes.layer_norm_eps);
        let norm = LayerNorm::with_bias_if(sizes.norm_bias, norm, embedding_size, epsilon);
        let widths = [hidden_size, embedding_size];
        let transform = Transform { dense, activation, norm: Some(norm), widths };
        let decoder = match config.bool_or("tie_word_embeddings", true)? {
            true => tied_decoder(root, names, sizes),
            false => own_decoder(root, names, sizes),
        };
        let transform = Some(transform);
        Ok(MaskedLmHead { transform, decoder, embedding_size, vocab_size, predicts })
    }

    /// The head that is its decoder alone.
    pub(crate) fn of_decoder(
        decoder: Linear,
        hidden_size: usize,
        vocab_size: usize,
    ) -> MaskedLmHead {
        let (embedding_size, predicts) = (hidden_size, Predicts::Itself);
        MaskedLmHead { transform: None, decoder, embedding_size, vocab_size, predicts }
    }

    /// `hidden_states` f32[N, H] to f32[N, V].
    pub(crate) fn logits(&self, cx: &Forward<'_>, hidden_states: &Tensor) -> Result<Logits> {
        let x = Transform::forward_optional(self.transform.as_ref(), cx, hidden_states)?;
        vocabulary_logits(cx, &self.decoder, &x, self.vocab_size)
    }
}

fn tied_decoder(
    root: &mut ParameterPath<'_>,
    names: &MaskedLmNames,
    sizes: &MaskedLmSizes,
) -> Linear {
    let vocabulary = Dimension::vocabulary(sizes.vocab_size);
    let mut decoder = Linear::sharing(names.words);
    if sizes.decoder_bias {
        decoder = decoder.with_bias(root, names.bias, vocabulary);
    }
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
    sizes: &MaskedLmSizes,
) -> Linear {
    let vocabulary = Dimension::vocabulary(sizes.vocab_size);
    let module = names.decoder_weight.trim_end_matches(".weight");
    if let (Some(_), Some((owner, bias))) = (names.decoder_bias, names.bias.rsplit_once('.')) {
        root.at(owner).frozen().bias(bias, vocabulary);
    }
    let (path, width) = (root.at(module), sizes.embedding_size);
    Linear::with_bias_if(sizes.decoder_bias, path, width, vocabulary, sizes.init)
}

impl Head for MaskedLmHead {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs(self.vocab_size)
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

    fn reads(&self) -> Reads<'_> {
        match self.predicts {
            Predicts::Itself => Reads::Labelled,
            Predicts::Next => Reads::BeforeLabels,
        }
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let logits = self.logits(cx, hidden_states)?;
        let loss = match self.predicts {
            Predicts::Itself => token_labels::loss(&logits, batch)?,
            Predicts::Next => causal_lm::loss(&logits, batch)?,
        };
        Ok(Output { logits: logits.by_row(batch.rows()?)?, loss })
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let decoder = flops::dot(self.embedding_size as f64, self.vocab_size as f64);
        let transform = self.transform.as_ref().map_or(0.0, Transform::forward_flops);
        let positions = self.reads().positions(lengths).unwrap_or(lengths.positions);
        positions as f64 * (transform + decoder)
    }
}
