//! The gated feed-forward network (Shazeer, 2020): down(dropout(act(gate(x)) up(x))).
//!
//! B rows, S positions, H hidden, I inner width.

use traind_xla::Tensor;

use super::{Activation, Linear, dropout_of_features};
use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath};

/// The sizes and settings of a gated feed-forward network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatedMlpConfig {
    /// The width of hidden states.
    pub hidden_size: usize,
    /// The width of the gate and of its factor.
    pub intermediate_size: usize,
    /// The function of the gate.
    pub activation: Activation,
    /// Whether the gate and its factor have biases, and whether the output has one.
    pub biases: [bool; 2],
    /// The rate at which the product of gate and factor is dropped.
    pub dropout: f64,
    /// How the weights of the gate and its factor are drawn, and those of the output.
    pub inits: [Init; 2],
}

/// The names of the gate and of its factor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GateNames {
    /// Two matrices.
    Apart([&'static str; 2]),
    /// One behind the other in one matrix.
    Joined(&'static str),
    /// One behind the other in one matrix, the factor before the gate.
    JoinedFactorFirst(&'static str),
}

/// A feed-forward network whose inner layer is multiplied by a gate: SwiGLU, GeGLU.
#[derive(Clone, Debug)]
pub(crate) struct GatedMlp {
    gate_and_up: GateAndUp,
    down: Linear,
    activation: Activation,
    dropout: f64,
}

#[derive(Clone, Debug)]
enum GateAndUp {
    Apart { gate: Linear, up: Linear },
    Joined { both: Linear, is_gate_first: bool },
}

impl GatedMlp {
    /// `down` is the name of the output layer.
    pub(crate) fn new(
        mut path: ParameterPath<'_>,
        gate: GateNames,
        down: &str,
        config: &GatedMlpConfig,
    ) -> GatedMlp {
        let GatedMlpConfig { hidden_size, intermediate_size: inner, .. } = *config;
        let ([bias, down_bias], [init, down_init]) = (config.biases, config.inits);
        let features = Dimension::features(inner);
        let mut input = |name: &str, width: Dimension| {
            Linear::with_bias_if(bias, path.at(name), hidden_size, width, init)
        };
        let gate_and_up = match gate {
            GateNames::Joined(name) | GateNames::JoinedFactorFirst(name) => GateAndUp::Joined {
                both: input(name, Dimension::joined_features(2 * inner, 2)),
                is_gate_first: matches!(gate, GateNames::Joined(_)),
            },
            GateNames::Apart([gate, up]) => {
                GateAndUp::Apart { gate: input(gate, features), up: input(up, features) }
            }
        };
        let down = Linear::with_bias_if(down_bias, path.at(down), features, hidden_size, down_init);
        GatedMlp { gate_and_up, down, activation: config.activation, dropout: config.dropout }
    }

    /// [B S, H] to [B S, H].
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let x = cx.fan_out(x)?;
        let (gate, up) = match &self.gate_and_up {
            GateAndUp::Apart { gate, up } => (gate.forward(cx, &x)?, up.forward(cx, &x)?),
            GateAndUp::Joined { both, is_gate_first } => {
                let joined = both.forward(cx, &x)?;
                let inner = joined.dims()[1] / 2;
                let halves = [joined.slice(1, 0, inner)?, joined.slice(1, inner, 2 * inner)?];
                let [first, second] = halves;
                if *is_gate_first { (first, second) } else { (second, first) }
            }
        };
        let inner = self.activation.forward_gated(&gate, &up)?;
        self.down.forward(cx, &dropout_of_features(cx, &inner, self.dropout)?)
    }
}
