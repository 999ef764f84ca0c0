//! Embeddings of texts: the states of their tokens pooled, as sentence-transformers' `Pooling` has it.
//!
//! B rows, S positions, H hidden size, D numbers of an embedding.

use std::path::Path;

use traind_xla::{DType, Tensor};

use super::by_row;
use crate::config::ModelConfig;
use crate::error::Result;
use crate::flops;
use crate::layers::{Activation, Linear};
use crate::model::{
    Batch, Forward, Head, InputSpec, Lengths, Output, OutputKind, Reads, places_in_rows,
};
use crate::parameters::ParameterPath;
use crate::sentence::{Dense, DenseActivation, PoolingMode, SentenceModules};
use crate::tasks::embedding;

/// The least sum of a mask, so that nothing is divided by 0.
const TOKENS_MIN: f64 = 1e-9;
/// A number below every state.
const LOWEST: f64 = -1e30;

#[derive(Debug)]
pub(crate) struct EmbeddingHead {
    modules: SentenceModules,
    hidden_size: usize,
    dense: Vec<DenseLayer>,
}

/// A linear layer with an activation behind the pooling.
#[derive(Debug)]
struct DenseLayer {
    linear: Linear,
    activation: Activation,
    /// The matrix of the residual connection, where there is one.
    residual: Option<Option<Linear>>,
}

impl EmbeddingHead {
    /// Declares the layers behind the pooling of states with `hidden_size` numbers below `root`.
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        config: &ModelConfig,
        hidden_size: usize,
    ) -> Result<EmbeddingHead> {
        let modules = config.sentence_modules().clone();
        modules.check_widths(config.path().parent().unwrap_or(Path::new(".")), hidden_size)?;
        let dense = modules.dense.iter().map(|dense| DenseLayer::new(root, dense)).collect();
        Ok(EmbeddingHead { modules, hidden_size, dense })
    }
}

impl EmbeddingHead {
    /// The token whose state alone is an embedding, if there is one.
    fn one_token(&self) -> Option<OneToken> {
        match self.modules.pooling[..] {
            [mode] => OneToken::of(mode),
            _ => None,
        }
    }

    /// f32[B S, H] to the vectors of all modes of pooling, one behind the other.
    fn pooled(&self, states: &Tensor, batch: &Batch) -> Result<Tensor> {
        let pooled = Pooled { states, batch, attended: batch.get("attention_mask")? };
        let parts = self.modules.pooling.iter().map(|mode| pooled.by(*mode));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(states.trace().concatenate(&parts.iter().collect::<Vec<_>>(), 1)?)
    }
}

/// A token that stands for its row.
#[derive(Clone, Copy, Debug)]
enum OneToken {
    First,
    Last,
}

impl OneToken {
    fn of(mode: PoolingMode) -> Option<OneToken> {
        match mode {
            PoolingMode::Cls => Some(OneToken::First),
            PoolingMode::LastToken => Some(OneToken::Last),
            PoolingMode::Max
            | PoolingMode::Mean
            | PoolingMode::MeanSqrtLenTokens
            | PoolingMode::WeightedMean => None,
        }
    }

    /// Its position in each row, s32[B], by the tokens that are `attended` to, s32[B, S].
    fn position(self, attended: &Tensor) -> Result<Tensor> {
        match self {
            OneToken::First => first_position(attended),
            OneToken::Last => Ok(positions(attended)?.mul(attended)?.max(&[1])?),
        }
    }
}

/// The position of each token, s32[B, S].
fn positions(attended: &Tensor) -> Result<Tensor> {
    Ok(attended.trace().iota(DType::S32, attended.dims(), 1)?)
}

/// The position of each row's first token, s32[B].
fn first_position(attended: &Tensor) -> Result<Tensor> {
    let length = attended.dims()[1] as f64;
    let behind = attended.mul_scalar(-length)?.add_scalar(length)?;
    Ok(positions(attended)?.add(&behind)?.min(&[1])?)
}

impl DenseLayer {
    fn new(root: &mut ParameterPath<'_>, dense: &Dense) -> DenseLayer {
        let mut path = root.at(&dense.folder);
        let Dense { in_features, out_features, bias, activation, .. } = *dense;
        let linear = Linear::uniform(bias, path.at("linear"), in_features, out_features);
        let residual = dense.use_residual.then(|| {
            let is_wide = in_features != out_features;
            is_wide.then(|| Linear::uniform(false, path.at("residual"), in_features, out_features))
        });
        DenseLayer { linear, activation: function(activation), residual }
    }

    /// [B, inputs] to f32[B, outputs].
    fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let y = self.activation.forward(&self.linear.forward(cx, x)?.convert(DType::F32)?)?;
        Ok(match &self.residual {
            None => y,
            Some(None) => y.add(x)?,
            Some(Some(residual)) => y.add(&residual.forward(cx, x)?.convert(DType::F32)?)?,
        })
    }
}

impl Head for EmbeddingHead {
    fn inputs(&self) -> Vec<InputSpec> {
        embedding::inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerRow { classes: self.modules.width(self.hidden_size) }
    }

    fn reads(&self) -> Reads<'_> {
        self.one_token().map_or(Reads::All, |token| {
            Reads::one_of_row(move |batch| token.position(batch.get("attention_mask")?))
        })
    }

    /// The embeddings f32[B, D] are the logits; the loss is that of a job.
    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let states = hidden_states.convert(DType::F32)?;
        let mut joined = match self.one_token() {
            Some(_) => states,
            None => self.pooled(&states, batch)?,
        };
        for dense in &self.dense {
            joined = dense.forward(cx, &joined)?;
        }
        let logits = if self.modules.normalize { embedding::normalized(&joined)? } else { joined };
        Ok(Output { logits: logits.into(), loss: None })
    }

    fn forward_flops(&self, _lengths: Lengths) -> f64 {
        let flops = |dense: &Dense| flops::dot(dense.in_features as f64, dense.out_features as f64);
        self.modules.dense.iter().map(flops).sum()
    }
}

fn function(activation: DenseActivation) -> Activation {
    match activation {
        DenseActivation::Identity => Activation::Linear,
        DenseActivation::Tanh => Activation::Tanh,
        DenseActivation::Relu => Activation::Relu,
        DenseActivation::Gelu => Activation::Gelu,
        DenseActivation::Silu => Activation::Silu,
        DenseActivation::Sigmoid => Activation::Sigmoid,
    }
}

/// The states of a batch.
struct Pooled<'a> {
    /// f32[B S, H].
    states: &'a Tensor,
    batch: &'a Batch,
    /// s32[B, S].
    attended: &'a Tensor,
}

impl Pooled<'_> {
    /// f32[B, H].
    fn by(&self, mode: PoolingMode) -> Result<Tensor> {
        match mode {
            PoolingMode::Cls => self.at(&OneToken::First.position(self.attended)?),
            PoolingMode::LastToken => self.at(&OneToken::Last.position(self.attended)?),
            PoolingMode::Max => self.largest(),
            PoolingMode::Mean => {
                let weights = self.mask()?;
                self.mean(&weights, &weights.sum(&[1])?.maximum_scalar(TOKENS_MIN)?)
            }
            PoolingMode::MeanSqrtLenTokens => {
                let weights = self.mask()?;
                self.mean(&weights, &weights.sum(&[1])?.maximum_scalar(TOKENS_MIN)?.sqrt()?)
            }
            PoolingMode::WeightedMean => {
                let first = first_position(self.attended)?.unsqueeze(1)?;
                let places = positions(self.attended)?.add_scalar(1.0)?.sub(&first)?;
                let weights = self.mask()?.mul(&places.convert(DType::F32)?)?;
                self.mean(&weights, &weights.sum(&[1])?.maximum_scalar(TOKENS_MIN)?)
            }
        }
    }

    /// The sum of states, each times its weight f32[B, S], by `divisor` f32[B].
    fn mean(&self, weights: &Tensor, divisor: &Tensor) -> Result<Tensor> {
        let states = by_row(self.states, self.batch)?;
        let sum = states.mul(&weights.unsqueeze(2)?)?.sum(&[1])?;
        Ok(sum.div(&divisor.unsqueeze(1)?)?)
    }

    fn largest(&self) -> Result<Tensor> {
        let states = by_row(self.states, self.batch)?;
        let is_attended = self.attended.gt_scalar(0.0)?.unsqueeze(2)?;
        let lowest = states.trace().full(LOWEST, states.shape().clone())?;
        Ok(is_attended.select(&states, &lowest)?.max(&[1])?)
    }

    /// The states at one position of each row, s32[B].
    fn at(&self, positions: &Tensor) -> Result<Tensor> {
        Ok(self.states.take(&places_in_rows(positions, self.attended.dims()[1])?)?)
    }

    /// 1 for each token, f32[B, S].
    fn mask(&self) -> Result<Tensor> {
        Ok(self.attended.convert(DType::F32)?)
    }
}
