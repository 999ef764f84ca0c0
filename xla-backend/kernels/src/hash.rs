//! The random bits of dropout, as `traind-xla`'s `ops::random` defines them: a hash of the
//! place within a block of two axes, under two keys that stand for all else.

use crate::dispatch::vectorized;

/// The multipliers of the hash.
pub const MULTIPLIERS: [u32; 2] = [0x21f0_aaad, 0xd35a_2d97];
/// The shifts of the hash.
pub const SHIFTS: [u32; 3] = [16, 15, 15];
/// The distance between the numbers of neighbours on the first axis of a block: more than the second is long.
pub const PLACE_STRIDE: u32 = 1 << 16;

/// 2³² divided by the golden ratio: consecutive numbers times it lie far apart.
pub const GOLDEN: u32 = 0x9e37_79b9;

/// The key of number `n` among those that follow from `key`.
pub fn next_key(key: u32, n: u32) -> u32 {
    bits(n.wrapping_mul(GOLDEN).wrapping_add(key), [0; 2])
}

/// Which elements dropout keeps: those whose bits are below `threshold`; they are
/// multiplied with `scale`.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    pub threshold: u32,
    pub scale: f32,
}

impl Dropout {
    /// Dropout with probability `rate`.
    pub fn new(rate: f64) -> Dropout {
        let kept = 1.0 - rate;
        let threshold = (kept * 2f64.powi(32)).round().min(f64::from(u32::MAX));
        Dropout { threshold: threshold as u32, scale: (1.0 / kept) as f32 }
    }

    /// The factor of the element with these bits: 0, or the scale.
    #[inline(always)]
    pub(crate) fn factor(self, bits: u32) -> f32 {
        if bits < self.threshold { self.scale } else { 0.0 }
    }
}

/// The bits of the place numbered `place`.
#[inline(always)]
pub(crate) fn bits(place: u32, keys: [u32; 2]) -> u32 {
    let mut x = place.wrapping_add(keys[0]);
    x = (x ^ (x >> SHIFTS[0])).wrapping_mul(MULTIPLIERS[0]);
    x = x.wrapping_add(keys[1]);
    x = (x ^ (x >> SHIFTS[1])).wrapping_mul(MULTIPLIERS[1]);
    x ^ (x >> SHIFTS[2])
}

vectorized! {
    /// The bits of a block, row-major, `columns` places on its last axis.
    pub fn fill_bits(to: &mut [u32], columns: usize, keys: [u32; 2]) {
        for (row, bits_of_row) in to.chunks_exact_mut(columns).enumerate() {
            let first = (row as u32).wrapping_mul(PLACE_STRIDE);
            for (column, to) in bits_of_row.iter_mut().enumerate() {
                *to = bits(first.wrapping_add(column as u32), keys);
            }
        }
    }
}
