//! The update of AdamW (Loshchilov and Hutter 2017), in place and in one pass.

use std::ops::Range;

use crate::dispatch::vectorized;
use crate::table::FewRows;

/// Settings that the updates of all elements share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalars {
    /// The factor that gradients are multiplied with first.
    pub factor: f32,
    /// The factor that parameters are multiplied with first; 1 where they do not decay.
    pub decay_factor: f32,
    pub one_minus_beta1: f32,
    pub beta2: f32,
    pub one_minus_beta2: f32,
    pub step_size: f32,
    pub bias_correction2_sqrt: f32,
    pub epsilon: f32,
}

/// Elements of a block, so that all arrays of one stay in the fastest cache.
const BLOCK: usize = 512;
/// The gradient of a block that has none.
static ZEROS: [f32; BLOCK] = [0.0; BLOCK];

/// Updates a parameter and both moments by a gradient. Each element is rounded alike wherever it stands, so that an
/// update in parts is that of the whole.
pub fn update(
    parameter: &mut [f32],
    exp_avg: &mut [f32],
    exp_avg_sq: &mut [f32],
    gradient: &[f32],
    at: Scalars,
) {
    update_copies(&mut [parameter], exp_avg, exp_avg_sq, gradient, at);
}

/// Updates a parameter with several copies, which are equal before and after: the first one is read.
pub fn update_copies(
    copies: &mut [&mut [f32]],
    exp_avg: &mut [f32],
    exp_avg_sq: &mut [f32],
    gradient: &[f32],
    at: Scalars,
) {
    let count = copies.first().map_or(gradient.len(), |copy| copy.len());
    assert_eq!(gradient.len(), count, "the gradient is of another size");
    update_part(copies, [exp_avg, exp_avg_sq], 0..count, Some(gradient), at);
}

/// Updates a table with several copies by a gradient of few rows, of which all others are zeros.
pub fn update_copies_by_rows(
    copies: &mut [&mut [f32]],
    exp_avg: &mut [f32],
    exp_avg_sq: &mut [f32],
    gradient: &FewRows,
    at: Scalars,
) {
    let Some(count) = copies.first().map(|copy| copy.len()) else { return };
    let mut end = 0;
    for (place, row) in gradient.rows() {
        update_part(copies, [exp_avg, exp_avg_sq], end..place.start, None, at);
        end = place.end;
        update_part(copies, [exp_avg, exp_avg_sq], place, Some(row), at);
    }
    update_part(copies, [exp_avg, exp_avg_sq], end..count, None, at);
}

/// Updates a part of the elements by their gradient, which is zeros where there is none.
fn update_part(
    copies: &mut [&mut [f32]],
    [exp_avg, exp_avg_sq]: [&mut [f32]; 2],
    part: Range<usize>,
    gradient: Option<&[f32]>,
    at: Scalars,
) {
    let Some((first, others)) = copies.split_first_mut() else { return };
    assert_eq!([exp_avg.len(), exp_avg_sq.len()], [first.len(); 2]);
    let keeps_zeros = at.keep_zeros();
    for start in part.clone().step_by(BLOCK) {
        let block = start..part.end.min(start + BLOCK);
        let (exp_avg, exp_avg_sq) = (&mut exp_avg[block.clone()], &mut exp_avg_sq[block.clone()]);
        let known = gradient.map(|it| &it[block.start - part.start..block.end - part.start]);
        let is_zero = keeps_zeros
            && known.is_none_or(are_zeros)
            && are_zeros(exp_avg)
            && are_zeros(exp_avg_sq);
        let parameter = &mut first[block.clone()];
        match is_zero {
            true if at.decay_factor == 1.0 => continue,
            true => parameter.iter_mut().for_each(|parameter| *parameter *= at.decay_factor),
            false => {
                let gradient = known.unwrap_or(&ZEROS[..block.len()]);
                update_block(parameter, exp_avg, exp_avg_sq, gradient, at);
            }
        }
        for copy in others.iter_mut() {
            copy[block.clone()].copy_from_slice(parameter);
        }
    }
}

impl Scalars {
    /// Whether moments stay zero where gradients are, and the parameter only decays: so it is in the rows of an
    /// embedding that no batch had yet, which are most of a large vocabulary.
    fn keep_zeros(&self) -> bool {
        let factors = [self.factor, self.one_minus_beta1, self.beta2, self.one_minus_beta2];
        // Zero times infinity is NaN, and so is zero over zero.
        self.epsilon > 0.0
            && self.bias_correction2_sqrt > 0.0
            && factors.into_iter().chain([self.step_size]).all(f32::is_finite)
    }
}

/// Whether all elements are +0. Most blocks that are not begin with another number.
fn are_zeros(x: &[f32]) -> bool {
    x.chunks(64).all(|x| x.iter().fold(0, |bits, x| bits | x.to_bits()) == 0)
}

vectorized! {
    fn update_block(
        parameter: &mut [f32],
        exp_avg: &mut [f32],
        exp_avg_sq: &mut [f32],
        gradient: &[f32],
        at: Scalars,
    ) {
        let state = parameter.iter_mut().zip(exp_avg).zip(exp_avg_sq);
        for (((parameter, exp_avg), exp_avg_sq), &gradient) in state.zip(gradient) {
            let gradient = gradient * at.factor;
            *exp_avg += (gradient - *exp_avg) * at.one_minus_beta1;
            *exp_avg_sq = *exp_avg_sq * at.beta2 + gradient * gradient * at.one_minus_beta2;
            let denominator = exp_avg_sq.sqrt() / at.bias_correction2_sqrt + at.epsilon;
            *parameter = *parameter * at.decay_factor - *exp_avg / denominator * at.step_size;
        }
    }
}
