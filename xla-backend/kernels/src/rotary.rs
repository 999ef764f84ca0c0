//! Rotary positions (Su et al. 2021): the first R elements of each head are R / 2 pairs, element i and
//! element i + R / 2, and each pair is turned by an angle.
//!
//! T tokens, N heads, D head size, R the rotated part of a head, P rows of the tables.

use crate::dispatch::vectorized;

/// Cosines and sines of the angles, [P, R / 2] each. Token t has row t mod P.
#[derive(Clone, Copy, Debug)]
pub struct Angles<'a> {
    pub cos: &'a [f32],
    pub sin: &'a [f32],
    /// R / 2.
    pub pairs: usize,
}

/// Turns the heads of `x` [T, N, D] in place, `heads` to a token and `head_size` elements each;
/// backwards if `inverse` is set.
pub fn rotate(x: &mut [f32], angles: &Angles<'_>, [heads, head_size]: [usize; 2], inverse: bool) {
    let Angles { cos, sin, pairs } = *angles;
    assert!(2 * pairs <= head_size, "{pairs} pairs are more than a head has");
    assert!(x.len().is_multiple_of(heads * head_size), "not all tokens are whole");
    assert!(pairs > 0 && cos.len() == sin.len() && cos.len().is_multiple_of(pairs));
    rotate_tokens(x, angles, heads, head_size, inverse);
}

vectorized! {
    fn rotate_tokens(
        x: &mut [f32],
        angles: &Angles<'_>,
        heads: usize,
        head_size: usize,
        inverse: bool,
    ) {
        let Angles { cos, sin, pairs } = *angles;
        let direction = if inverse { -1.0 } else { 1.0 };
        let rows = cos.chunks_exact(pairs).zip(sin.chunks_exact(pairs)).cycle();
        for (token, (cos, sin)) in x.chunks_exact_mut(heads * head_size).zip(rows) {
            for head in token.chunks_exact_mut(head_size) {
                let (first, rest) = head.split_at_mut(pairs);
                let turned = first.iter_mut().zip(&mut rest[..pairs]);
                for ((first, second), (cos, sin)) in turned.zip(cos.iter().zip(sin)) {
                    let (x, y, sin) = (*first, *second, direction * sin);
                    *first = x * cos - y * sin;
                    *second = y * cos + x * sin;
                }
            }
        }
    }
}
