//! The attention of encoders whose queries and keys turn with their positions, and which project queries, keys and
//! values by one matrix.

use traind_xla::Tensor;

use crate::error::Result;
use crate::layers::{
    AttentionMask, HeadCounts, Heads, Linear, ProjectionNames, Projections, RotaryTable,
    attend_turned,
};
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath};

/// The sizes and settings of such an attention.
pub(super) struct RotaryAttentionConfig {
    pub hidden_size: usize,
    pub num_heads: usize,
    pub head_size: usize,
    pub has_biases: bool,
    /// The rate at which shares of attention are dropped.
    pub dropout: f64,
    /// How the matrix of projections and that of the output are drawn.
    pub inits: [Init; 2],
}

#[derive(Debug)]
pub(super) struct RotaryAttention {
    projections: Projections,
    heads: Heads,
    output: Linear,
}

impl RotaryAttention {
    /// `names` are those of the matrix of projections and of that of the output.
    pub(super) fn new(
        path: &mut ParameterPath<'_>,
        [projections, output]: [&'static str; 2],
        config: &RotaryAttentionConfig,
    ) -> RotaryAttention {
        let RotaryAttentionConfig { hidden_size, num_heads, head_size, has_biases, .. } = *config;
        let counts = HeadCounts { queries: num_heads, keys: num_heads, head_size };
        let ([input, of_output], names) = (config.inits, ProjectionNames::Joined(projections));
        let projections = Projections::new(path, names, hidden_size, counts, has_biases, input);
        let (output, width) = (path.at(output), counts.query_width());
        let output = Linear::with_bias_if(has_biases, output, width, hidden_size, of_output);
        let (scale, dropout) = ((head_size as f64).powf(-0.5), config.dropout);
        let heads = Heads { num_heads, scale, score_cap: None, dropout };
        RotaryAttention { projections, heads, output }
    }

    /// `x` [B S, H] attends to itself. The result is that of the tokens that are read.
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let [query, key, value] = self.projections.forward(cx, &cx.fan_out(x)?)?;
        let attended = attend_turned(cx, [&query, &key, &value], mask, &self.heads, table)?;
        self.output.forward(&cx.behind_attention(), &cx.read_tokens(&attended)?)
    }
}
