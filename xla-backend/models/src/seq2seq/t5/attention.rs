//! `T5Attention`: scores are not scaled, and heads may be of any width.
//!
//! B rows, S queries, T keys, H `d_model`, N heads.

use traind_xla::Tensor;

use super::T5Config;
use crate::error::Result;
use crate::layers::{Heads, Linear, attend_heads, split_heads};
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
            heads: Heads { num_heads: config.num_heads, scale: 1.0, dropout: config.dropout_rate },
        }
    }

    /// `x` [B S, H] attends to `source` [B T, H]; `scores` f32[B, 1 or N, 1 or S, T] are added to
    /// the scores.
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        source: &Tensor,
        scores: &Tensor,
    ) -> Result<Tensor> {
        let rows = scores.dims()[0];
        let split = |x: &Tensor| split_heads(x, rows, self.heads.num_heads);
        let query = split(&self.query.forward(cx, x)?)?;
        let key = split(&self.key.forward(cx, source)?)?;
        let value = split(&self.value.forward(cx, source)?)?;
        let attended = attend_heads(cx, [&query, &key, &value], scores, &self.heads)?;
        self.output.forward(cx, &attended)
    }
}
