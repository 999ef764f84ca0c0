//! Similarities and distances of embeddings.

use traind_xla::Tensor;

use crate::error::Result;

/// The square below which the length of a vector counts as 0, as in `torch.nn.functional.normalize`. The square root
/// has no gradient at 0.
const SQUARE_MIN: f64 = 1e-24;
/// The number that `torch.nn.functional.pairwise_distance` adds to differences.
const DIFFERENCE: f64 = 1e-6;

/// The similarity of two embeddings, under sentence-transformers' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Similarity {
    /// The cosine of their angle.
    CosSim,
    /// The product of both.
    DotScore,
}

/// The distance of two embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// 1 minus the cosine.
    Cosine,
    /// The length of the difference.
    Euclidean,
    /// The sum of the absolute differences.
    Manhattan,
}

impl Similarity {
    /// The similarity of each row of `a` f32[n, D] and each of `b` f32[m, D]: f32[n, m].
    pub(super) fn matrix(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let [a, b] = self.scaled([a, b])?;
        Ok(a.linear(&b, None)?)
    }

    /// The similarity of the rows with the same number, f32[n].
    pub(super) fn of_pairs(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let [a, b] = self.scaled([a, b])?;
        Ok(a.mul(&b)?.sum(&[1])?)
    }

    fn scaled(self, [a, b]: [&Tensor; 2]) -> Result<[Tensor; 2]> {
        Ok(match self {
            Similarity::CosSim => [normalized(a)?, normalized(b)?],
            Similarity::DotScore => [a.clone(), b.clone()],
        })
    }
}

impl Distance {
    /// The distance of the rows with the same number, f32[n].
    pub(super) fn of_pairs(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        match self {
            Distance::Cosine => Ok(Similarity::CosSim.of_pairs(a, b)?.one_minus()?),
            Distance::Euclidean => length(&a.sub(b)?),
            Distance::Manhattan => Ok(a.sub(b)?.abs()?.sum(&[1])?),
        }
    }

    /// The distance of `torch.nn.functional.pairwise_distance`, for which no difference is 0, of the rows with the same
    /// number, f32[n].
    pub(super) fn of_shifted_pairs(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        match self {
            Distance::Cosine => self.of_pairs(a, b),
            Distance::Euclidean | Distance::Manhattan => {
                self.of_pairs(&a.add_scalar(DIFFERENCE)?, b)
            }
        }
    }
}

/// Rows of `x` f32[n, D] of length 1.
pub(crate) fn normalized(x: &Tensor) -> Result<Tensor> {
    Ok(x.div(&length(x)?.unsqueeze(1)?)?)
}

/// The length of each row, f32[n].
fn length(x: &Tensor) -> Result<Tensor> {
    Ok(x.mul(x)?.sum(&[1])?.maximum_scalar(SQUARE_MIN)?.sqrt()?)
}
