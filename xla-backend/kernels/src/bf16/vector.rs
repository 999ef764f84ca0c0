//! Vectors of sixteen pairs of bfloat16 numbers, a pair in 32 bits.
#![allow(unsafe_code, reason = "vectors are read and written through pointers")]

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_mask_storeu_epi32,
    _mm512_permutexvar_epi16, _mm512_set_epi64, _mm512_set1_epi32,
};
use std::mem::transmute;

use crate::vector::{LANES, lanes};

/// Writes as many pairs as `to` can hold.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_pairs(to: &mut [u32], vector: __m512i) {
    // SAFETY: lanes behind the slice are not written.
    unsafe { _mm512_mask_storeu_epi32(to.as_mut_ptr().cast(), lanes(to.len()), vector) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn load_pairs(from: &[u32; LANES]) -> __m512bh {
    // SAFETY: the array has the size of the vector, and any bits are numbers.
    unsafe { from.as_ptr().cast::<__m512bh>().read_unaligned() }
}

/// The same pair in every lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn splat_pair(pair: u32) -> __m512bh {
    // SAFETY: both are 64 bytes, and any bits are numbers.
    unsafe { transmute::<__m512i, __m512bh>(_mm512_set1_epi32(pair as i32)) }
}

/// The floats as bfloat16 numbers, those of `low` in the lower half. Ties round to even.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn round(low: __m512, high: __m512) -> __m512i {
    // SAFETY: both are 64 bytes, and any bits are integers.
    unsafe { transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
}

/// The floats of two depths as pairs of bfloat16 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) fn round_pairs(even: __m512, odd: __m512) -> __m512i {
    _mm512_permutexvar_epi16(interleaving(), round(even, odd))
}

/// The order 0, 16, 1, 17, ... of 32 words.
#[inline]
#[target_feature(enable = "avx512f")]
fn interleaving() -> __m512i {
    let words = |n: i64| n | (n + 16) << 16 | (n + 1) << 32 | (n + 17) << 48;
    let [a, b, c, d] = [words(14), words(12), words(10), words(8)];
    _mm512_set_epi64(a, b, c, d, words(6), words(4), words(2), words(0))
}
