//! Triplets of the farthest text of the same class and the nearest one of another (Hermans et al., 2017), as
//! `BatchHardTripletLoss` has it.

use std::ops::RangeInclusive;

use traind_xla::{DType, Tensor};

use super::{Distance, EmbeddedTexts, EmbeddingLoss, RowLabels, Similarity};
use crate::error::Result;
use crate::model::LossSum;

/// The number that the peer adds to distances of 0 before it takes their root, which has no gradient there.
const ROOT: f64 = 1e-16;

/// Texts with a class, compared with those of all cores and hosts. There is no Manhattan distance.
#[derive(Clone, Debug)]
pub struct BatchHardTriplet {
    /// The distance of two embeddings.
    pub distance: Distance,
    /// The least difference of the two distances of a triplet.
    pub margin: f64,
}

impl EmbeddingLoss for BatchHardTriplet {
    fn texts(&self) -> RangeInclusive<usize> {
        1..=1
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Class
    }

    fn compares_rows(&self) -> bool {
        true
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let (own, numbers) = (&texts.columns[0], texts.numbers()?);
        let all = texts.peers.gather(own)?;
        let counts = texts.all_weights()?.gt_scalar(0.0)?.convert(DType::F32)?.unsqueeze(0)?;
        let classes = texts.peers.gather(&numbers)?.unsqueeze(0)?;
        let is_same = numbers.unsqueeze(1)?.eq(&classes)?.convert(DType::F32)?;
        let is_other = texts.peers.own(own, own.dims()[0], all.dims()[0])?.not()?;
        let is_other = is_other.convert(DType::F32)?;
        // A text is at 0 from itself; empty slots are near nothing.
        let distances = self.distances(own, &all)?.mul(&is_other)?.mul(&counts)?;
        let positive = distances.mul(&is_same)?.max(&[1])?;
        let is_negative = is_same.one_minus()?.mul(&counts)?;
        let farthest = distances.max_keep(&[1])?;
        let negative = distances.add(&farthest.mul(&is_negative.one_minus()?)?)?.min(&[1])?;
        texts.sum(&positive.sub(&negative)?.add_scalar(self.margin)?.relu()?)
    }
}

impl BatchHardTriplet {
    /// The distances of each of this core's texts to each of all, f32[n, N].
    fn distances(&self, own: &Tensor, all: &Tensor) -> Result<Tensor> {
        if self.distance == Distance::Cosine {
            return Ok(Similarity::CosSim.matrix(own, all)?.one_minus()?);
        }
        let product = Similarity::DotScore.matrix(own, all)?;
        let square = |x: &Tensor| x.mul(x)?.sum(&[1]);
        let squares = square(all)?.unsqueeze(0)?.sub(&product.mul_scalar(2.0)?)?;
        let squares = squares.add(&square(own)?.unsqueeze(1)?)?.relu()?;
        let is_zero = squares.le_scalar(0.0)?.convert(DType::F32)?;
        let roots = squares.add(&is_zero.mul_scalar(ROOT)?)?.sqrt()?;
        Ok(roots.mul(&is_zero.one_minus()?)?)
    }
}
