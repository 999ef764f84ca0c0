//! The divergences by which a model may be kept near its reference (Wang et al., 2024).

use traind_xla::Tensor;

use crate::error::Result;
use crate::tasks::softplus::softplus;

/// The divergence between the model and its reference, `f_divergence_type` of TRL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divergence {
    /// KL(model ‖ reference), TRL's default.
    ReverseKl,
    /// KL(reference ‖ model).
    ForwardKl,
    /// The mean divergence of both from their mixture.
    JensenShannon,
    /// α-divergence, with its coefficient.
    Alpha(f64),
}

impl Divergence {
    /// The scores of completions with log-ratios f32[P, 2].
    pub(super) fn scores(self, ratios: &Tensor) -> Result<Tensor> {
        /// Near this distance from 1, the alpha divergence is the reverse one.
        const LIMIT: f64 = 1e-6;
        /// The largest exponent.
        const EXPONENT_MAX: f64 = 80.0;
        Ok(match self {
            Divergence::ReverseKl => ratios.clone(),
            Divergence::Alpha(alpha) if (alpha - 1.0).abs() < LIMIT => ratios.clone(),
            Divergence::ForwardKl => ratios.neg()?.exp()?.one_minus()?,
            Divergence::JensenShannon => {
                softplus(&ratios.neg()?)?.neg()?.add_scalar(std::f64::consts::LN_2)?
            }
            Divergence::Alpha(alpha) => {
                let exponent = ratios.mul_scalar(alpha - 1.0)?.minimum_scalar(EXPONENT_MAX)?;
                exponent.exp()?.sub_scalar(1.0)?.mul_scalar(1.0 / (alpha - 1.0))?
            }
        })
    }
}
