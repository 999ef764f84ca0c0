//! `BertLayer`: attention and a feed-forward network, each added to its input
//! and normalized after, or normalized before.

use traind_xla::Tensor;

use super::rotary_attention::RotaryAttention;
use super::{EncoderConfig, EncoderNames};
use crate::error::Result;
use crate::layers::{
    Activation, Attention, AttentionMask, DisentangledAttention, LayerNorm, Linear,
    ProjectionNames, Residual, RotaryTable,
};
use crate::model::Forward;
use crate::parameters::{Dimension, ParameterPath};

#[derive(Debug)]
pub(super) struct Layer {
    attention: SelfAttention,
    attention_output: Residual,
    intermediate: Linear,
    activation: Activation,
    output: Residual,
    /// The norms before the attention and before the feed-forward network, where none stands behind them.
    input_norms: Option<[LayerNorm; 2]>,
}

#[derive(Debug)]
enum SelfAttention {
    Plain(Box<Attention>),
    Disentangled(Box<DisentangledAttention>),
    Rotary(Box<RotaryAttention>),
}

/// The tables of positions that attention reads, where its scores depend on them.
#[derive(Clone, Copy, Debug)]
pub(super) struct PositionTables<'a> {
    /// The angles by which queries and keys turn.
    pub angles: Option<&'a RotaryTable>,
    /// The vectors of distances.
    pub distances: Option<&'a Tensor>,
}

impl Layer {
    pub(super) fn new(
        mut path: ParameterPath<'_>,
        names: &EncoderNames,
        config: &EncoderConfig,
    ) -> Layer {
        let hidden = config.hidden_size();
        let inner = Dimension::features(config.intermediate_size);
        let attention_norm = config.layer_norm(path.at(names.attention_norm));
        let output_norm = config.layer_norm(path.at(names.output_norm));
        let (norms, input_norms) = match config.last_norm {
            None => ([Some(attention_norm), Some(output_norm)], None),
            Some(_) => ([None, None], Some([attention_norm, output_norm])),
        };
        let [attention_norm, output_norm] = norms;
        Layer {
            attention: SelfAttention::new(&mut path, names, config),
            attention_output: Residual {
                dense: config.linear(path.at(names.attention_output), config.heads(), hidden),
                norm: attention_norm,
                dropout: config.attention_output_dropout,
            },
            intermediate: config.linear(path.at(names.intermediate), hidden, inner),
            activation: config.hidden_act,
            output: Residual {
                dense: config.linear(path.at(names.output), inner, hidden),
                norm: output_norm,
                dropout: config.output_dropout,
            },
            input_norms,
        }
    }

    /// `x` [T, H] to [T, H], or to [R, H] of the tokens that are read.
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        positions: PositionTables<'_>,
    ) -> Result<Tensor> {
        let [attention_norm, output_norm] = match &self.input_norms {
            Some([attention_norm, output_norm]) => [Some(attention_norm), Some(output_norm)],
            None => [None, None],
        };
        let input = normalized(cx, attention_norm, x)?;
        let attended = self.attention.forward(cx, &input, mask, positions)?;
        let (attended, x) = (cx.read_tokens(&attended)?, cx.read_tokens(x)?);
        let cx = &cx.behind_attention();
        let x = self.attention_output.forward(cx, &attended, &x)?;
        let input = normalized(cx, output_norm, &x)?;
        let inner = self.intermediate.forward(cx, &cx.fan_out(&input)?)?;
        let inner = self.activation.forward(&inner)?;
        self.output.forward(cx, &inner, &x)
    }
}

/// `x`, by `norm` if there is one.
fn normalized(cx: &Forward<'_>, norm: Option<&LayerNorm>, x: &Tensor) -> Result<Tensor> {
    norm.map_or_else(|| Ok(x.clone()), |norm| norm.forward(cx, x))
}

impl SelfAttention {
    fn new(
        path: &mut ParameterPath<'_>,
        names: &EncoderNames,
        config: &EncoderConfig,
    ) -> SelfAttention {
        let sizes = &config.attention;
        match (names.projections, config.disentangled) {
            (ProjectionNames::Apart(apart), None) if config.rotary.is_none() => {
                SelfAttention::Plain(Box::new(Attention::new(path, apart, sizes)))
            }
            (ProjectionNames::Apart(apart), Some(terms)) => {
                let contents = Attention::new(path, apart, sizes);
                let attention = DisentangledAttention::new(path, contents, sizes, terms);
                SelfAttention::Disentangled(Box::new(attention))
            }
            (names, _) => {
                SelfAttention::Rotary(Box::new(RotaryAttention::new(path, names, config)))
            }
        }
    }

    fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        positions: PositionTables<'_>,
    ) -> Result<Tensor> {
        match self {
            SelfAttention::Plain(attention) => attention.forward(cx, x, mask),
            SelfAttention::Disentangled(attention) => {
                attention.forward(cx, x, mask, positions.distances)
            }
            SelfAttention::Rotary(attention) => attention.forward(cx, x, mask, positions.angles),
        }
    }
}
