//! `T5Attention`: scores are not scaled, and heads may be of any width.
//!
//! B rows, S queries, T keys, H `d_model`, N heads.

use traind_xla::Tensor;

use super::{Source, T5Config};
use crate::error::Result;
use crate::layers::{AttentionMask, Heads, Linear, attend_heads, states_of};
use crate::model::Forward;
use crate::parameters::ParameterPath;

#[derive(Debug)]
pub(super) struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: Heads,
}

impl Attention {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &T5Config) -> Attention {
        let (model, inner) = (config.d_model, config.heads());
        let mut projection = |name, inputs: usize| {
            Linear::without_bias(path.at(name), model, inner, config.std(inputs))
        };
        Attention {
            query: projection("q", model * config.d_kv),
            key: projection("k", model),
            value: projection("v", model),
            output: Linear::without_bias(path.at("o"), inner, model, config.std(inner.size)),
            heads: Heads {
                num_heads: config.num_heads,
                scale: 1.0,
                score_cap: None,
                dropout: config.dropout_rate,
            },
        }
    }

    /// `x` [B S, H] attends to itself; learned `scores` f32[B, N, S, S] are added to its own.
    pub(super) fn to_itself(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        scores: &AttentionMask,
    ) -> Result<Tensor> {
        let x = &cx.fan_out(x)?;
        let keys = cx.with_cached(self.keys(cx, x, scores.rows())?)?;
        self.attend(cx, x, keys, scores)
    }

    /// `x` [B T, H] attends to a source, whose mask is added to the scores.
    pub(super) fn to_source(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        source: &Source<'_>,
    ) -> Result<Tensor> {
        let rows = source.mask.rows();
        let keys = cx.with_source(|| self.keys(cx, states_of(source.states)?, rows))?;
        self.attend(cx, &cx.fan_out(x)?, keys, source.mask)
    }

    /// Keys and values of `x` [B S, H], which is fanned out: [B, S, N, D] each.
    fn keys(&self, cx: &Forward<'_>, x: &Tensor, rows: usize) -> Result<[Tensor; 2]> {
        let split = |x: &Tensor| self.heads.split(cx, x, rows);
        Ok([split(&self.key.forward(cx, x)?)?, split(&self.value.forward(cx, x)?)?])
    }

    /// `x` is fanned out.
    fn attend(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        [key, value]: [Tensor; 2],
        scores: &AttentionMask,
    ) -> Result<Tensor> {
        let query = self.query.forward(cx, x)?;
        let query = self.heads.split(cx, &query, scores.rows())?;
        let attended = attend_heads(cx, [&query, &key, &value], scores, &self.heads)?;
        self.output.forward(cx, &attended)
    }
}
