//! Tiles of a product: sums of lines times vectors, which stay in registers.
#![allow(unsafe_code, reason = "operands are read through pointers")]

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use crate::vector::{LANES, load, prefetch, store, transposed_floats};

/// The most lines of a tile, and the numbers of its vectors. With two vectors for each line, 28 of the 32 registers
/// hold sums.
pub(super) const TILE: [usize; 2] = [14, 2 * LANES];

/// The most rows of a block of tiles, which stay in the second-level cache while they meet all columns.
pub(super) const BLOCK_ROWS: usize = 256;

/// Lines that are a multiple of so many numbers apart share few sets of the first-level cache.
const FAR: usize = 1024;

/// The size of the fewest equal parts of `count` that are at most `most` each.
pub(crate) fn equal_parts(count: usize, most: usize) -> usize {
    count.div_ceil(count.div_ceil(most).max(1)).max(1)
}

/// The distance of copied lines: an odd number of cache lines.
fn near_stride(depth: usize) -> usize {
    (depth.div_ceil(LANES) | 1) * LANES
}

/// An operand, with the distances from a line to the next one, and from a depth to the next one.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) elements: &'a [f32],
    pub(super) strides: [usize; 2],
}

/// The rows of a result, the first of which begins with the first element.
pub(super) struct Target<'a> {
    pub(super) elements: &'a mut [f32],
    pub(super) stride: usize,
    /// Whether the product is added to what is there.
    pub(super) adds: bool,
}

impl<'a> Operand<'a> {
    /// The operand from a line and a depth on, which may lie behind its end.
    pub(super) fn from(self, at: [usize; 2]) -> Operand<'a> {
        let start = self.place(at).min(self.elements.len());
        Operand { elements: &self.elements[start..], ..self }
    }

    /// Asks for the cache lines of two vectors.
    pub(super) fn prefetch(self, at: [usize; 2]) {
        prefetch(self.elements, self.place(at));
    }

    /// Asks for lines, of which the numbers or the lines are contiguous.
    pub(super) fn prefetch_lines(self, [lines, depth]: [usize; 2]) {
        let steps = self.strides.map(|stride| if stride == 1 { 2 * LANES } else { 1 });
        for depth in (0..depth).step_by(steps[1]) {
            (0..lines).step_by(steps[0]).for_each(|line| self.prefetch([line, depth]));
        }
    }

    /// The floats of scratch memory that [`near`](Operand::near) takes for so many lines.
    pub(super) fn near_len(self, [lines, depth]: [usize; 2]) -> usize {
        if self.is_far() { lines * near_stride(depth) } else { 0 }
    }

    /// The lines, copied to where they share no sets of the first-level cache if they share few where they are.
    pub(super) fn near<'to>(
        self,
        scratch: &'to mut [f32],
        [lines, depth]: [usize; 2],
    ) -> Operand<'to>
    where
        'a: 'to,
    {
        if !self.is_far() {
            return self;
        }
        let stride = near_stride(depth);
        for (line, to) in scratch.chunks_exact_mut(stride).take(lines).enumerate() {
            to[..depth].copy_from_slice(&self.from([line, 0]).elements[..depth]);
        }
        Operand { elements: scratch, strides: [stride, 1] }
    }

    /// Whether the lines of a tile displace each other from the first-level cache.
    fn is_far(self) -> bool {
        self.strides[1] == 1 && self.strides[0].is_multiple_of(FAR)
    }

    fn place(self, [line, depth]: [usize; 2]) -> usize {
        line * self.strides[0] + depth * self.strides[1]
    }

    /// Whether the slice has all of so many lines and depths.
    fn has(self, [lines, depth]: [usize; 2]) -> bool {
        lines == 0 || depth == 0 || self.place([lines - 1, depth - 1]) < self.elements.len()
    }
}

impl Target<'_> {
    /// The result from a row and a column on.
    pub(super) fn at(&mut self, [row, column]: [usize; 2]) -> Target<'_> {
        let elements = &mut self.elements[row * self.stride + column..];
        Target { elements, ..*self }
    }

    /// Asks for the cache lines of a tile of so many rows.
    pub(super) fn prefetch(&self, rows: usize) {
        (0..rows).for_each(|row| prefetch(self.elements, row * self.stride));
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn write(&mut self, row: usize, length: usize, vector: __m512) {
        let to = &mut self.elements[row * self.stride..][..length];
        store(to, if self.adds { _mm512_add_ps(load(to), vector) } else { vector });
    }
}

/// Calls a function with the lines and the vectors of a tile as constants.
macro_rules! with_sizes {
    ($sizes:expr, $function:ident $arguments:tt) => {
        with_sizes!($sizes, $function $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    ($sizes:expr, $function:ident $arguments:tt, $($lines:literal)*) => {
        match ($sizes[0], $sizes[1] > LANES) {
            $(
                ($lines, false) => $function::<$lines, 1> $arguments,
                ($lines, true) => $function::<$lines, 2> $arguments,
            )*
            _ => unreachable!("a tile has more lines"),
        }
    };
}

/// Writes a tile whose lines are columns of the result. `sizes`: lines, numbers of the vectors, depth. At each depth
/// there are numbers for both vectors.
#[target_feature(enable = "avx512f")]
pub(super) fn write_columns(
    to: Target<'_>,
    lines: Operand<'_>,
    vectors: Operand<'_>,
    sizes: [usize; 3],
) {
    with_sizes!(sizes, write_columns_of(to, lines, vectors, sizes))
}

#[target_feature(enable = "avx512f")]
fn write_columns_of<const L: usize, const V: usize>(
    mut to: Target<'_>,
    lines: Operand<'_>,
    vectors: Operand<'_>,
    [_, height, depth]: [usize; 3],
) {
    let sums = sums::<L, V>(lines, vectors, depth);
    for index in 0..V {
        let mut columns = [_mm512_setzero_ps(); LANES];
        for (column, sums) in columns.iter_mut().zip(&sums) {
            *column = sums[index];
        }
        let first = index * LANES;
        for (row, vector) in (first..height.min(first + LANES)).zip(transposed_floats(columns)) {
            to.write(row, L, vector);
        }
    }
}

/// Writes a tile whose lines are rows of the result. `sizes`: lines, numbers of the vectors, depth.
#[target_feature(enable = "avx512f")]
pub(super) fn write_rows(
    to: Target<'_>,
    lines: Operand<'_>,
    vectors: Operand<'_>,
    sizes: [usize; 3],
) {
    with_sizes!(sizes, write_rows_of(to, lines, vectors, sizes))
}

#[target_feature(enable = "avx512f")]
fn write_rows_of<const L: usize, const V: usize>(
    mut to: Target<'_>,
    lines: Operand<'_>,
    vectors: Operand<'_>,
    [_, width, depth]: [usize; 3],
) {
    let sums = sums::<L, V>(lines, vectors, depth);
    for index in 0..V {
        let first = index * LANES;
        let mut to = to.at([0, first]);
        for (row, sums) in sums.iter().enumerate() {
            to.write(row, LANES.min(width - first), sums[index]);
        }
    }
}

/// The products of `L` lines with `V` vectors, summed over the depth.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums<const L: usize, const V: usize>(
    lines: Operand<'_>,
    vectors: Operand<'_>,
    depth: usize,
) -> [[__m512; V]; L] {
    assert!(vectors.strides[0] == 1 && vectors.has([V * LANES, depth]));
    assert!(lines.has([L, depth]));
    let mut sums = [[_mm512_setzero_ps(); V]; L];
    let (mut line, mut vector) = (lines.elements.as_ptr(), vectors.elements.as_ptr());
    for _ in 0..depth {
        let mut numbers = [_mm512_setzero_ps(); V];
        for (index, numbers) in numbers.iter_mut().enumerate() {
            // SAFETY: the slice has all numbers of the vectors at this depth.
            *numbers = unsafe { _mm512_loadu_ps(vector.wrapping_add(index * LANES)) };
        }
        for (index, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the slice has all lines at this depth.
            let factor = _mm512_set1_ps(unsafe { *line.wrapping_add(index * lines.strides[0]) });
            for (sum, &numbers) in sums.iter_mut().zip(&numbers) {
                *sum = _mm512_fmadd_ps(factor, numbers, *sum);
            }
        }
        line = line.wrapping_add(lines.strides[1]);
        vector = vector.wrapping_add(vectors.strides[1]);
    }
    sums
}
