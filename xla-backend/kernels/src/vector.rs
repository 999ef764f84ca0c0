//! Vectors of sixteen 32-bit numbers: what AVX-512 computes with.
#![allow(unsafe_code, reason = "vectors are read and written through pointers")]

use std::arch::x86_64::{
    __m512, __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_setzero_ps, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64,
};

pub(crate) use crate::math::LANES;

/// The first lanes, as many as a slice has elements.
pub(crate) fn lanes(len: usize) -> u16 {
    if len >= LANES { u16::MAX } else { (1 << len) - 1 }
}

/// The first floats of a slice, and zeros where it has fewer than a vector.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load(from: &[f32]) -> __m512 {
    // SAFETY: lanes behind the slice are not read.
    unsafe { _mm512_maskz_loadu_ps(lanes(from.len()), from.as_ptr()) }
}

/// Writes as many floats as `to` can hold.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store(to: &mut [f32], vector: __m512) {
    // SAFETY: lanes behind the slice are not written.
    unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), lanes(to.len()), vector) }
}

/// Asks for the cache lines of two vectors from `place` on, which may lie behind the slice. They come into the
/// second-level cache: in the first level they would displace what is read before them.
#[inline]
pub(crate) fn prefetch(from: &[f32], place: usize) {
    let start = from.as_ptr().wrapping_add(place);
    for start in [start, start.wrapping_add(LANES)] {
        // SAFETY: this reads nothing, and ignores addresses that are not mapped.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.cast()) }
    }
}

/// Transposes 16 x 16 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transposed(x: [__m512i; LANES]) -> [__m512i; LANES] {
    // Within blocks of four by four numbers, then the blocks.
    let mut y = [_mm512_setzero_si512(); LANES];
    for n in (0..LANES).step_by(4) {
        let (a, b) = (_mm512_unpacklo_epi32(x[n], x[n + 1]), _mm512_unpackhi_epi32(x[n], x[n + 1]));
        let (c, d) =
            (_mm512_unpacklo_epi32(x[n + 2], x[n + 3]), _mm512_unpackhi_epi32(x[n + 2], x[n + 3]));
        y[n] = _mm512_unpacklo_epi64(a, c);
        y[n + 1] = _mm512_unpackhi_epi64(a, c);
        y[n + 2] = _mm512_unpacklo_epi64(b, d);
        y[n + 3] = _mm512_unpackhi_epi64(b, d);
    }
    let mut z = y;
    for n in 0..4 {
        let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(y[n], y[n + 4]);
        let odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(y[n], y[n + 4]);
        let even_behind = _mm512_shuffle_i32x4::<0b10_00_10_00>(y[n + 8], y[n + 12]);
        let odd_behind = _mm512_shuffle_i32x4::<0b11_01_11_01>(y[n + 8], y[n + 12]);
        z[n] = _mm512_shuffle_i32x4::<0b10_00_10_00>(even, even_behind);
        z[n + 4] = _mm512_shuffle_i32x4::<0b10_00_10_00>(odd, odd_behind);
        z[n + 8] = _mm512_shuffle_i32x4::<0b11_01_11_01>(even, even_behind);
        z[n + 12] = _mm512_shuffle_i32x4::<0b11_01_11_01>(odd, odd_behind);
    }
    z
}

/// Transposes 16 x 16 floats.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transposed_floats(x: [__m512; LANES]) -> [__m512; LANES] {
    let mut bits = [_mm512_setzero_si512(); LANES];
    for (bits, x) in bits.iter_mut().zip(x) {
        *bits = _mm512_castps_si512(x);
    }
    let mut floats = [_mm512_setzero_ps(); LANES];
    for (float, bits) in floats.iter_mut().zip(transposed(bits)) {
        *float = _mm512_castsi512_ps(bits);
    }
    floats
}
