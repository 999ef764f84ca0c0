//! Self-attention of a decoder: rotary positions, and keys and values that
//! several queries share.
//!
//! B rows, S positions, H hidden, N heads of queries, K of keys and values, D head size.

use traind_xla::Tensor;

use super::config::{DecoderAttentionConfig, DecoderConfig, HeadsNorm};
use crate::error::Result;
use crate::layers::{
    AttentionMask, Heads, Linear, ProjectionNames, Projections, RotaryTable, attend, attend_turned,
    split_heads,
};
use crate::model::Forward;
use crate::parameters::ParameterPath;

#[derive(Debug)]
pub(super) struct Attention {
    config: DecoderAttentionConfig,
    projections: Projections,
    /// The norms of queries and of keys.
    norms: Option<[HeadsNorm; 2]>,
    output: Linear,
}

impl Attention {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &DecoderConfig) -> Attention {
        let (attention, hidden) = (&config.attention, config.hidden_size);
        let std = config.initializer_range;
        let names = match config.fused_projections {
            true => ProjectionNames::Joined("qkv_proj"),
            false => ProjectionNames::Apart(["q_proj", "k_proj", "v_proj"]),
        };
        let (heads, bias) = (attention.heads(), attention.input_bias);
        let projections = Projections::new(&mut path, names, hidden, heads, bias, std);
        let norms = config.query_norms(&mut path);
        let output = path.at("o_proj");
        let output =
            Linear::with_bias_if(attention.output_bias, output, heads.query_width(), hidden, std);
        Attention { config: attention.clone(), projections, norms, output }
    }

    /// `x` [T, H] attends to itself, without a table regardless of positions. The result is that of the tokens that are
    /// read.
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        rotary: Option<&RotaryTable>,
    ) -> Result<Tensor> {
        let [query, key, value] = self.projections.forward(cx, &cx.fan_out(x)?)?;
        let [query, key] = match &self.norms {
            Some([of_queries, of_keys]) => {
                [self.normalized(cx, query, of_queries)?, self.normalized(cx, key, of_keys)?]
            }
            None => [query, key],
        };
        let heads = Heads {
            num_heads: self.config.num_attention_heads,
            scale: self.config.scale,
            score_cap: self.config.score_cap,
            dropout: self.config.dropout,
        };
        let attended = match rotary {
            Some(table) => attend_turned(cx, [&query, &key, &value], mask, &heads, table)?,
            None => {
                let [query, key] = [query, key].map(|x| x.convert(cx.compute_dtype()));
                attend(cx, [&query?, &key?, &value], mask, &heads)?
            }
        };
        self.output.forward(&cx.behind_attention(), &cx.read_tokens(&attended)?)
    }

    /// `x` [T, N D] by the norm of its heads, or of all of them.
    fn normalized(&self, cx: &Forward<'_>, x: Tensor, norm: &HeadsNorm) -> Result<Tensor> {
        let (size, dims) = (self.config.head_dim, x.dims().to_vec());
        match norm {
            HeadsNorm::Each(norm) => {
                let heads = split_heads(&x, 1, dims[1] / size)?;
                Ok(norm.forward(cx, &heads)?.reshape(&dims)?)
            }
            HeadsNorm::Whole(norm) => norm.forward(cx, &x),
        }
    }
}
