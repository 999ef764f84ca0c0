//! Vectors of sixteen floats, or of sixteen pairs of bfloat16 numbers, a pair in 32 bits: what AVX-512
//! computes with. All pointers of these products are here.
#![allow(unsafe_code, reason = "vectors are read and written through pointers")]

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_cvtne2ps_pbh,
    _mm512_mask_storeu_epi32, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_epi32,
};
use std::mem::transmute;

/// The numbers of a vector.
pub(super) const LANES: usize = 16;

/// The first lanes, as many as a slice has elements.
fn lanes(len: usize) -> u16 {
    if len >= LANES { u16::MAX } else { (1 << len) - 1 }
}

/// The first floats of a slice, and zeros where it has fewer than a vector.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(from: &[f32]) -> __m512 {
    // SAFETY: lanes behind the slice are not read.
    unsafe { _mm512_maskz_loadu_ps(lanes(from.len()), from.as_ptr()) }
}

/// Writes as many floats as `to` can hold.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(to: &mut [f32], vector: __m512) {
    // SAFETY: lanes behind the slice are not written.
    unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), lanes(to.len()), vector) }
}

/// Writes as many pairs as `to` can hold.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_pairs(to: &mut [u32], vector: __m512i) {
    // SAFETY: lanes behind the slice are not written.
    unsafe { _mm512_mask_storeu_epi32(to.as_mut_ptr().cast(), lanes(to.len()), vector) }
}

/// Asks for the cache lines of two vectors from `place` on, which may lie behind the slice.
#[inline]
pub(super) fn prefetch(from: &[f32], place: usize) {
    let start = from.as_ptr().wrapping_add(place);
    for start in [start, start.wrapping_add(LANES)] {
        // SAFETY: this reads nothing, and ignores addresses that are not mapped.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.cast()) }
    }
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
