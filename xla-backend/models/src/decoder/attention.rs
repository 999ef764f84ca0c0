//! Self-attention of a decoder: rotary positions, and keys and values that
//! several queries share.
//!
//! B rows, S positions, H hidden, N heads of queries, K of keys and values, D head size.

use traind_xla::Tensor;

use super::config::{DecoderAttentionConfig, DecoderConfig, HeadsNorm};
use crate::error::Result;
use crate::layers::{
    AttentionMask, Heads, Linear, ProjectionNames, Projections, RotaryTable, attend_heads,
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

    /// `x` [B S, H] attends to itself, without a table regardless of positions. The result is that of the tokens that
    /// are read.
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        rotary: Option<&RotaryTable>,
    ) -> Result<Tensor> {
        let (rows, size) = (mask.rows(), self.config.head_dim);
        let projected = self.projections.forward(cx, &cx.fan_out(x)?)?;
        // This core's heads.
        let split = |x: &Tensor| split_heads(x, rows, x.dims()[1] / size);
        let [query, key, value] = &projected;
        let norms = self.norms.as_ref().map_or([None, None], |norms| norms.each_ref().map(Some));
        let turned = |x: &Tensor, norm: Option<&HeadsNorm>| -> Result<Tensor> {
            let x = match norm {
                None => split(x)?,
                Some(HeadsNorm::Each(norm)) => norm.forward(cx, &split(x)?)?,
                Some(HeadsNorm::Whole(norm)) => split(&norm.forward(cx, x)?)?,
            };
            let x = rotary.map_or_else(|| Ok(x.clone()), |rotary| rotary.rotate(&x))?;
            Ok(x.convert(cx.compute_dtype())?)
        };
        let (query, key) = (turned(query, norms[0])?, turned(key, norms[1])?);
        let [key, value] = cx.with_cached([key, split(value)?])?;
        let heads = Heads {
            num_heads: self.config.num_attention_heads,
            scale: self.config.scale,
            score_cap: self.config.score_cap,
            dropout: self.config.dropout,
        };
        let attended = attend_heads(cx, [&query, &key, &value], mask, &heads)?;
        self.output.forward(&cx.behind_attention(), &cx.read_tokens(&attended)?)
    }
}
