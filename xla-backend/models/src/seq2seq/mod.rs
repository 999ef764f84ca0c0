//! Models that read a source and write a target: a stack of encoder layers, and one of decoder
//! layers that attend to what the encoder made of the source. Families differ in their stacks.
//!
//! B rows, S positions of the source, T of the target, H hidden size.

pub(crate) mod bart;
pub(crate) mod t5;

use std::ops::Range;

use traind_xla::Tensor;

use crate::error::Result;
use crate::layers::{AttentionMask, Window};
use crate::model::{Batch, Body, Forward, HiddenStates, InputDim, InputSpec, Lengths};
use crate::tensor_parallel::token_dims;

const SOURCE: &str = "input_ids";
const TARGET: &str = "decoder_input_ids";

/// The two stacks of a family. Layers count from 0 in each.
pub(crate) trait Stacks: std::fmt::Debug + Send + Sync {
    /// [`crate::Model::base_model_prefix`].
    fn prefix(&self) -> &'static str;

    fn num_encoder_layers(&self) -> usize;

    fn num_decoder_layers(&self) -> usize;

    /// Ids s32[B, S] to f32[B S, H].
    fn embed_source(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor>;

    /// Ids s32[B, T] to f32[B T, H].
    fn embed_target(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor>;

    /// Returns the addend of the scores of the encoder's attention, from the mask of its padding.
    fn encoder_scores(&self, _cx: &Forward<'_>, mask: AttentionMask) -> Result<AttentionMask> {
        Ok(mask)
    }

    /// Returns the addend of the scores of the decoder's attention to itself, from the causal mask.
    fn decoder_scores(&self, _cx: &Forward<'_>, mask: AttentionMask) -> Result<AttentionMask> {
        Ok(mask)
    }

    /// f32[B S, H] to f32[B S, H].
    fn encoder_layer(
        &self,
        cx: &Forward<'_>,
        layer: usize,
        x: &Tensor,
        scores: &AttentionMask,
    ) -> Result<Tensor>;

    /// Applies the operations that follow the last layer of the encoder.
    fn finish_encoder(&self, cx: &Forward<'_>, x: Tensor) -> Result<Tensor>;

    /// f32[B T, H] to f32[B T, H].
    fn decoder_layer(
        &self,
        cx: &Forward<'_>,
        layer: usize,
        x: &Tensor,
        source: &Source<'_>,
        scores: &AttentionMask,
    ) -> Result<Tensor>;

    /// Applies the operations that follow the last layer of the decoder.
    fn finish_decoder(&self, cx: &Forward<'_>, x: Tensor) -> Result<Tensor>;

    fn vocab_size(&self) -> usize;

    fn max_positions(&self) -> usize;

    /// Floating-point operations of one row.
    fn forward_flops(&self, lengths: Lengths) -> f64;
}

/// The states that a decoder attends to besides itself.
pub(crate) struct Source<'a> {
    /// All positions f32[B S, H], fanned out to the cores that share layers; absent where the keys and values of all
    /// layers are cached.
    pub states: Option<&'a Tensor>,
    /// The mask of the source's padding.
    pub mask: &'a AttentionMask,
}

/// The body of an encoder-decoder model. Its layers are those of the encoder, then those of the
/// decoder.
#[derive(Debug)]
pub(crate) struct EncoderDecoder<S> {
    stacks: S,
}

impl<S: Stacks> EncoderDecoder<S> {
    pub(crate) fn new(stacks: S) -> EncoderDecoder<S> {
        EncoderDecoder { stacks }
    }

    /// Traces some layers of the encoder; the last one ends it.
    fn encode(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: Tensor,
        batch: &Batch,
    ) -> Result<Tensor> {
        if layers.is_empty() {
            return Ok(states);
        }
        let stacks = &self.stacks;
        let cx = &of_source(cx);
        let scores =
            stacks.encoder_scores(cx, Window::All.mask(cx, batch.get("attention_mask")?)?)?;
        cx.over_positions(token_dims(batch.get(SOURCE)?), |cx| {
            let is_last = layers.end == stacks.num_encoder_layers();
            let x = cx.layers("encoder", layers, states, |cx, layer, x| {
                stacks.encoder_layer(cx, layer, x, &scores)
            })?;
            if is_last { stacks.finish_encoder(cx, x) } else { Ok(x) }
        })
    }

    /// Traces some layers of the decoder.
    fn decode(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: Tensor,
        source: Option<&Tensor>,
        batch: &Batch,
    ) -> Result<Tensor> {
        if layers.is_empty() {
            return Ok(states);
        }
        let stacks = &self.stacks;
        let mask = Window::All.mask(cx, batch.get("attention_mask")?)?;
        // All layers compute their keys and values from it.
        let fan_out = |states| {
            of_source(cx).over_positions(token_dims(batch.get(SOURCE)?), |cx| cx.fan_out(states))
        };
        let source = source.map(fan_out).transpose()?;
        let source = Source { states: source.as_ref(), mask: &mask };
        // Padding of targets stands behind them: no token sees it.
        let present = batch.get(TARGET)?;
        let present = cx.trace.full(1.0, present.shape().clone())?;
        let scores = stacks.decoder_scores(cx, Window::Causal(None).mask(cx, &present)?)?;
        cx.layers("decoder", layers, states, |cx, layer, x| {
            stacks.decoder_layer(cx, layer, x, &source, &scores)
        })
    }
}

/// The forward pass for sources. Caches are of targets alone, so that cores divide the positions of sources also where
/// targets are generated.
fn of_source<'a>(cx: &Forward<'a>) -> Forward<'a> {
    Forward { cache: None, ..*cx }
}

impl<S: Stacks> Body for EncoderDecoder<S> {
    fn prefix(&self) -> &'static str {
        self.stacks.prefix()
    }

    /// `input_ids` and `attention_mask`, each s32[B, S], and `decoder_input_ids` s32[B, T].
    fn inputs(&self) -> Vec<InputSpec> {
        let source = [InputDim::Rows, InputDim::Positions];
        let target = [InputDim::Rows, InputDim::TargetPositions];
        vec![
            InputSpec::token_ids(SOURCE, &source, self.vocab_size()),
            InputSpec::attention_mask(),
            InputSpec::token_ids(TARGET, &target, self.vocab_size()),
        ]
    }

    fn num_layers(&self) -> usize {
        self.stacks.num_encoder_layers() + self.stacks.num_decoder_layers()
    }

    fn traces_alike(&self, layer: usize, other: usize) -> bool {
        let is_encoder = |layer: usize| layer < self.stacks.num_encoder_layers();
        is_encoder(layer) == is_encoder(other)
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let encoder = match cx.cached_positions() {
            // The keys and values of the source are cached.
            Some(_) => None,
            None => {
                let ids = batch.get(SOURCE)?;
                let embed = |cx: &Forward<'_>| self.stacks.embed_source(cx, ids);
                Some(of_source(cx).over_positions(token_dims(ids), embed)?)
            }
        };
        let last = self.stacks.embed_target(cx, batch.get(TARGET)?)?;
        Ok(HiddenStates { last, encoder })
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let HiddenStates { last, encoder } = states;
        let boundary = self.stacks.num_encoder_layers();
        let of_encoder = layers.start.min(boundary)..layers.end.min(boundary);
        let of_decoder = layers.start.saturating_sub(boundary)..layers.end.saturating_sub(boundary);
        let encode = |source| self.encode(cx, of_encoder, source, batch);
        let encoder = encoder.map(encode).transpose()?;
        let last = self.decode(cx, of_decoder, last, encoder.as_ref(), batch)?;
        Ok(HiddenStates { last, encoder })
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        self.stacks.finish_decoder(cx, states.last.clone())
    }

    fn token_dims(&self, batch: &Batch) -> Result<[usize; 2]> {
        Ok(token_dims(batch.get(TARGET)?))
    }

    fn is_generative(&self) -> bool {
        true
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn vocab_size(&self) -> usize {
        self.stacks.vocab_size()
    }

    fn max_positions(&self) -> usize {
        self.stacks.max_positions()
    }

    fn forward_flops(&self, lengths: Lengths, _read: Option<usize>) -> f64 {
        self.stacks.forward_flops(lengths)
    }
}
