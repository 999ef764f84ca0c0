//! Draws tokens: temperature, `top_k` and `top_p` as transformers' warpers apply them, then one draw
//! by a hash of seed, row and place, so that a text depends on nothing else.

use super::settings::Sampling;

/// The place of a draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    pub seed: u64,
    pub row: u64,
    /// The number of tokens before the one that is drawn.
    pub position: u64,
}

/// Draws a token by its scores.
pub(super) fn draw(sampling: &Sampling, scores: &mut [f32], at: Draw) -> u32 {
    warp(sampling, scores);
    let shares = softmax(scores);
    let total: f64 = shares.iter().sum();
    let mut left = at.uniform() * total;
    for (token, share) in shares.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return token as u32;
        }
    }
    // Rounding may leave a rest behind the last token that can be drawn.
    shares.iter().rposition(|share| *share > 0.0).unwrap_or_default() as u32
}

/// Divides by the temperature and removes tokens that cannot be drawn.
fn warp(sampling: &Sampling, scores: &mut [f32]) {
    if sampling.temperature != 1.0 {
        scores.iter_mut().for_each(|score| *score /= sampling.temperature as f32);
    }
    if sampling.top_k > 0 {
        keep_largest(scores, sampling.top_k);
    }
    if sampling.top_p < 1.0 {
        keep_share(scores, sampling.top_p);
    }
}

/// Removes scores below that of the `count`th largest; all equal to it stay.
fn keep_largest(scores: &mut [f32], count: usize) {
    if count >= scores.len() {
        return;
    }
    let mut sorted = scores.to_vec();
    let (_, least, _) = sorted.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
    let least = *least;
    remove(scores, |_, score| score < least);
}

/// Removes the least likely tokens, as many as have a share of no more than 1 - `top_p`.
fn keep_share(scores: &mut [f32], top_p: f64) {
    let shares = softmax(scores);
    let total: f64 = shares.iter().sum();
    let mut ascending: Vec<usize> = (0..scores.len()).collect();
    ascending.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    ascending.pop();
    let mut sum = 0.0;
    for token in ascending {
        sum += shares[token] / total;
        if sum > 1.0 - top_p {
            return;
        }
        scores[token] = f32::NEG_INFINITY;
    }
}

fn remove(scores: &mut [f32], is_removed: impl Fn(usize, f32) -> bool) {
    for (token, score) in scores.iter_mut().enumerate() {
        if is_removed(token, *score) {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// The shares of a softmax before they are divided by their sum.
fn softmax(scores: &[f32]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter().map(|score| f64::from(score - largest).exp()).collect()
}

impl Draw {
    /// A number from 0 to 1, exclusive.
    fn uniform(self) -> f64 {
        let bits = mix(mix(mix(self.seed) ^ self.row) ^ self.position);
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The finalizer of `SplitMix64` (Steele et al., 2014).
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Sampling = Sampling { temperature: 1.0, top_k: 0, top_p: 1.0 };

    fn kept(sampling: Sampling, scores: &[f32]) -> Vec<usize> {
        let mut scores = scores.to_vec();
        warp(&sampling, &mut scores);
        (0..scores.len()).filter(|&token| scores[token].is_finite()).collect()
    }

    #[test]
    fn warpers_remove_what_those_of_transformers_do() {
        let scores = [0.5_f32.ln(), 0.05_f32.ln(), 0.3_f32.ln(), 0.15_f32.ln()];
        assert_eq!(kept(ALL, &scores), [0, 1, 2, 3]);
        assert_eq!(kept(Sampling { top_k: 2, ..ALL }, &scores), [0, 2]);
        assert_eq!(kept(Sampling { top_k: 1, ..ALL }, &[1.0, 2.0, 2.0]), [1, 2], "ties stay");
        assert_eq!(kept(Sampling { top_p: 0.9, ..ALL }, &scores), [0, 2, 3]);
        assert_eq!(kept(Sampling { top_p: 0.6, ..ALL }, &scores), [0, 2]);
        assert_eq!(kept(Sampling { top_p: 0.0, ..ALL }, &scores), [0], "one stays");
    }

    #[test]
    fn draws_follow_the_shares_and_depend_on_their_place_alone() {
        let scores = [0.5_f32.ln(), 0.2_f32.ln(), f32::NEG_INFINITY, 0.3_f32.ln()];
        let draws = |seed| -> Vec<u32> {
            let places = (0..20_000).map(|place| Draw { seed, row: place % 7, position: place });
            places.map(|at| draw(&ALL, &mut scores.clone(), at)).collect()
        };
        let drawn = draws(3);
        for (token, share) in [0.5, 0.2, 0.0, 0.3].iter().enumerate() {
            let found = drawn.iter().filter(|&&it| it == token as u32).count() as f64 / 20_000.0;
            assert!((found - share).abs() < 0.015, "{token}: {found}, expected {share}");
        }
        assert_eq!(draws(3), drawn);
        assert_ne!(draws(4), drawn);
    }
}
