//! `torch.nn.Dropout`: zeroes with probability `rate` and scales the rest.

use traind_xla::Tensor;
use traind_xla::ops::Random;

use crate::error::Result;
use crate::model::Forward;

/// `x` itself when not training or when the rate is zero. Where cores divide positions, `x` has those
/// of this core.
pub(crate) fn dropout(cx: &Forward<'_>, x: &Tensor, rate: f64) -> Result<Tensor> {
    dropped(x, rate, cx.random_of_positions()?.as_ref())
}

/// Dropout inside a layer that cores share, of features [B S, I] of which this core has some alone.
pub(crate) fn dropout_of_features(cx: &Forward<'_>, x: &Tensor, rate: f64) -> Result<Tensor> {
    let features = x.dims().last().copied().unwrap_or(1);
    dropped(x, rate, cx.random_of_features(features)?.as_ref())
}

/// Dropout inside a layer that cores share, of what all of them have [B S, H].
pub(crate) fn dropout_of_all(cx: &Forward<'_>, x: &Tensor, rate: f64) -> Result<Tensor> {
    dropped(x, rate, cx.random)
}

/// Dropout of the shares of attention [B, N, S, T], of whose heads this core may have some alone.
pub(super) fn dropout_of_heads(cx: &Forward<'_>, shares: &Tensor, rate: f64) -> Result<Tensor> {
    let heads = shares.dims().get(1).copied().unwrap_or(1);
    dropped(shares, rate, cx.random_of_heads(heads)?.as_ref())
}

fn dropped(x: &Tensor, rate: f64, random: Option<&Random>) -> Result<Tensor> {
    match random {
        Some(random) if rate > 0.0 => Ok(x.dropout(rate, random)?),
        _ => Ok(x.clone()),
    }
}
