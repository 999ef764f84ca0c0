//! The gated feed-forward network (Shazeer, 2020): down(act(gate(x)) up(x)).
//!
//! B rows, S positions, H hidden, I inner width.

use traind_xla::Tensor;

use super::config::DecoderConfig;
use super::linear;
use crate::error::Result;
use crate::layers::{Activation, Linear};
use crate::model::Forward;
use crate::parameters::{Dimension, ParameterPath};

#[derive(Debug)]
pub(super) struct Mlp {
    gate_and_up: GateAndUp,
    down: Linear,
    activation: Activation,
}

#[derive(Debug)]
enum GateAndUp {
    Apart {
        gate: Linear,
        up: Linear,
    },
    /// One behind the other in one matrix.
    Joined(Linear),
}

impl Mlp {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &DecoderConfig) -> Mlp {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (bias, std) = (config.mlp_bias, config.initializer_range);
        let features = Dimension::features(inner);
        let gate_and_up = if config.fused_projections {
            let width = Dimension::joined_features(2 * inner, 2);
            GateAndUp::Joined(linear(path.at("gate_up_proj"), hidden, width, bias, std))
        } else {
            GateAndUp::Apart {
                gate: linear(path.at("gate_proj"), hidden, features, bias, std),
                up: linear(path.at("up_proj"), hidden, features, bias, std),
            }
        };
        let down = linear(path.at("down_proj"), features, hidden, bias, std);
        Mlp { gate_and_up, down, activation: config.hidden_act }
    }

    /// [B S, H] to [B S, H].
    pub(super) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let x = cx.fan_out(x)?;
        let (gate, up) = match &self.gate_and_up {
            GateAndUp::Apart { gate, up } => (gate.forward(cx, &x)?, up.forward(cx, &x)?),
            GateAndUp::Joined(joined) => {
                let joined = joined.forward(cx, &x)?;
                let inner = joined.dims()[1] / 2;
                (joined.slice(1, 0, inner)?, joined.slice(1, inner, 2 * inner)?)
            }
        };
        self.down.forward(cx, &self.activation.forward_gated(&gate, &up)?)
    }
}
