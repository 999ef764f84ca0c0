//! Attention whose queries, keys and values are projected by one matrix or by three, and whose queries and keys turn
//! with their positions.

use traind_xla::Tensor;

use super::EncoderConfig;
use crate::error::Result;
use crate::layers::{
    AttentionMask, HeadCounts, Heads, ProjectionNames, Projections, RotaryTable, attend,
    attend_turned,
};
use crate::model::Forward;
use crate::parameters::ParameterPath;

#[derive(Debug)]
pub(super) struct RotaryAttention {
    projections: Projections,
    heads: Heads,
}

impl RotaryAttention {
    pub(super) fn new(
        path: &mut ParameterPath<'_>,
        names: ProjectionNames,
        config: &EncoderConfig,
    ) -> RotaryAttention {
        let (hidden_size, num_heads) = (config.hidden_size(), config.attention.num_heads);
        let head_size = hidden_size / num_heads;
        let counts = HeadCounts { queries: num_heads, keys: num_heads, head_size };
        let (scale, dropout) = ((head_size as f64).powf(-0.5), config.attention.dropout);
        RotaryAttention {
            projections: Projections::new(path, names, hidden_size, counts, true, config.std()),
            heads: Heads { num_heads, scale, score_cap: None, dropout },
        }
    }

    /// `x` [B S, H] attends to itself.
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        angles: Option<&RotaryTable>,
    ) -> Result<Tensor> {
        let [query, key, value] = self.projections.forward(cx, &cx.fan_out(x)?)?;
        let states = [&query, &key, &value];
        match angles {
            Some(table) => attend_turned(cx, states, mask, &self.heads, table),
            None => attend(cx, states, mask, &self.heads),
        }
    }
}
