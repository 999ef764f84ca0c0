//! The product by AVX512-BF16, vectors of pairs of bfloat16 numbers: a panel of the right operand meets all panels of a
//! block of the left one, which stays in the second-level cache, before the next panel's turn.
//!
//! M rows and N columns of the result, K depth.

mod pack;

use std::arch::x86_64::{__m512, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_setzero_ps};

use super::Addend;
use super::product::Product;
use super::vector::{load_pairs, splat_pair};
use crate::matrix::MatrixMut;
use crate::scratch::with_words;
use crate::vector::{LANES, load, prefetch, store};
use pack::pack;

/// Rows of the result that are computed together.
const ROWS: usize = 14;
/// Its columns, two vectors: with the sums of a tile, 31 of the 32 registers are in use.
const COLUMNS: usize = 2 * LANES;
/// The rows, the columns and the depth of a block: 448 KiB of the left operand and 2 MiB of the right.
const BLOCK: [usize; 3] = [16 * ROWS, 32 * COLUMNS, 1024];

/// Writes the product plus its addend.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) fn multiply(product: &Product<'_>, to: MatrixMut<'_>) {
    let MatrixMut { elements: to, layout } = to;
    let stride = layout.row_stride;
    let [rows, columns, depth] = product.sizes;
    let [block_rows, block_columns, block_depth] = BLOCK;
    let pairs = pairs_of(block_depth.min(depth));
    let panels =
        |lines: usize, block: usize, width: usize| lines.min(block).div_ceil(width) * width;
    let lens =
        [panels(rows, block_rows, ROWS) * pairs, panels(columns, block_columns, COLUMNS) * pairs];
    with_words(lens, |[lhs, rhs]| {
        let (lhs, _) = lhs.as_chunks_mut::<ROWS>();
        let (rhs, _) = rhs.as_chunks_mut::<COLUMNS>();
        for column in (0..columns).step_by(block_columns) {
            let width = block_columns.min(columns - column);
            for start in (0..depth.max(1)).step_by(block_depth) {
                let part = [start, block_depth.min(depth - start)];
                let pairs = pairs_of(part[1]);
                let rhs = &mut rhs[..width.div_ceil(COLUMNS) * pairs];
                pack(rhs, product.rhs, [column, width], part);
                for row in (0..rows).step_by(block_rows) {
                    let height = block_rows.min(rows - row);
                    let lhs = &mut lhs[..height.div_ceil(ROWS) * pairs];
                    pack(lhs, product.lhs, [row, height], part);
                    let addend = match product.addend {
                        Addend::Bias(bias) if start == 0 => {
                            Addend::Bias(bias.get(column..).unwrap_or(&[]))
                        }
                        _ => Addend::Sum,
                    };
                    let to = Block {
                        elements: &mut to[row * stride + column..],
                        stride,
                        sizes: [height, width],
                        addend,
                    };
                    multiply_block(lhs, rhs, pairs, to);
                }
            }
        }
    });
}

/// The pairs of so many depths. At least one, so that a product without depth is written too: as zeros.
fn pairs_of(depth: usize) -> usize {
    depth.div_ceil(2).max(1)
}

/// A part of the result.
struct Block<'a> {
    elements: &'a mut [f32],
    stride: usize,
    /// Rows and columns.
    sizes: [usize; 2],
    /// A bias for these columns and the ones behind them, or what was written before.
    addend: Addend<'a>,
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn multiply_block(lhs: &[[u32; ROWS]], rhs: &[[u32; COLUMNS]], pairs: usize, to: Block<'_>) {
    let ([rows, columns], addend) = (to.sizes, to.addend);
    for (panel, rhs) in rhs.chunks_exact(pairs).enumerate() {
        let column = panel * COLUMNS;
        let width = COLUMNS.min(columns - column);
        let bias = match addend {
            Addend::Bias(bias) => {
                let bias = bias.get(column..).unwrap_or(&[]);
                Some([load(bias), load(bias.get(LANES..).unwrap_or(&[]))])
            }
            Addend::Sum => None,
        };
        for (panel, lhs) in lhs.chunks_exact(pairs).enumerate() {
            let tile_rows = panel * ROWS..rows.min((panel + 1) * ROWS);
            for row in tile_rows.clone() {
                prefetch(to.elements, row * to.stride + column);
            }
            for (row, [low, high]) in tile_rows.zip(tile(lhs, rhs)) {
                let to = &mut to.elements[row * to.stride + column..][..width];
                let (to_low, to_high) = to.split_at_mut(width.min(LANES));
                let before = match bias {
                    Some(bias) => bias,
                    None => [load(to_low), load(to_high)],
                };
                store(to_low, _mm512_add_ps(low, before[0]));
                store(to_high, _mm512_add_ps(high, before[1]));
            }
        }
    }
}

/// The product of two panels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn tile(lhs: &[[u32; ROWS]], rhs: &[[u32; COLUMNS]]) -> [[__m512; 2]; ROWS] {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for (lhs, rhs) in lhs.iter().zip(rhs) {
        let ([low, high], _) = rhs.as_chunks::<LANES>() else { continue };
        let (low, high) = (load_pairs(low), load_pairs(high));
        for (sums, &pair) in sums.iter_mut().zip(lhs) {
            let pair = splat_pair(pair);
            *sums = [_mm512_dpbf16_ps(sums[0], pair, low), _mm512_dpbf16_ps(sums[1], pair, high)];
        }
    }
    sums
}
