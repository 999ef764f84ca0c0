//! The product by AMX, tiles of bfloat16 numbers: a block of rows is packed, and stays in the second-level cache while
//! each panel of columns is packed and meets it.
//!
//! M rows and N columns of the result, K depth.

mod pack;
mod registers;

pub(super) use registers::is_supported;

use super::Addend;
use super::product::Product;
use crate::matrix::{MatrixMut, equal_parts};
use crate::scratch::with_words;
use crate::vector::prefetch;
use pack::{TILE_DEPTH, TileOf, pack};
use registers::{Registers, SIDE, Tile};

/// The most rows and the most depth of a block: 1 MiB of the left factor, and 64 KiB of the right one's panels.
const BLOCK: [usize; 2] = [512, 1024];

/// Writes the product plus its addend.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) fn multiply(product: &Product<'_>, mut to: MatrixMut<'_>) {
    let [rows, columns, depth] = product.sizes;
    let block_rows = equal_parts(rows, BLOCK[0]).next_multiple_of(SIDE);
    let block_depth = equal_parts(depth, BLOCK[1]).next_multiple_of(TILE_DEPTH);
    let registers = Registers::acquire();
    with_tiles([block_rows / SIDE, 1].map(|sides| len(sides, block_depth)), |[lhs, rhs]| {
        for row in (0..rows).step_by(block_rows) {
            let height = block_rows.min(rows - row);
            for start in (0..depth.max(1)).step_by(block_depth) {
                let part = [start, block_depth.min(depth - start)];
                let lhs = &mut lhs[..len(height.div_ceil(SIDE), part[1])];
                let rhs = &mut rhs[..len(1, part[1])];
                pack(lhs, product.lhs, TileOf::Lines, [row, height], part);
                for column in (0..columns).step_by(SIDE) {
                    let width = SIDE.min(columns - column);
                    pack(rhs, product.rhs, TileOf::Pairs, [column, width], part);
                    let bias = match product.addend {
                        Addend::Bias(bias) if start == 0 => Some(panel_of(bias, column)),
                        _ => None,
                    };
                    let to = to.block([row, column], [height, width]);
                    multiply_panels(&registers, bias.as_ref(), to, lhs, rhs);
                }
            }
        }
    });
}

/// The bias of a panel's columns.
fn panel_of(bias: &[f32], column: usize) -> [f32; SIDE] {
    let mut panel = [0.0; SIDE];
    let bias = bias.get(column..).unwrap_or(&[]);
    panel.iter_mut().zip(bias).for_each(|(to, from)| *to = *from);
    panel
}

/// Adds the products of all rows with a panel of columns to a bias, or to what the result holds.
fn multiply_panels(
    registers: &Registers,
    bias: Option<&[f32; SIDE]>,
    mut to: MatrixMut<'_>,
    lhs: &[Tile],
    rhs: &[Tile],
) {
    let [rows, columns] = to.sizes();
    for (lhs, row) in lhs.chunks_exact(rhs.len()).zip((0..rows).step_by(SIDE)) {
        let height = SIDE.min(rows - row);
        let next = (row + SIDE).min(rows)..(row + 2 * SIDE).min(rows);
        next.for_each(|row| prefetch(to.elements, row * to.layout.row_stride));
        let mut to = to.block([row, 0], [height, columns]);
        if height == SIDE && columns == SIDE {
            registers.add_products(bias, &mut to, lhs, rhs);
        } else {
            add_to_edge(registers, bias, to, [lhs, rhs]);
        }
    }
}

/// Computes fewer rows or columns than [`SIDE`] in a matrix of their own.
fn add_to_edge(
    registers: &Registers,
    bias: Option<&[f32; SIDE]>,
    mut to: MatrixMut<'_>,
    [lhs, rhs]: [&[Tile]; 2],
) {
    let mut edge = [[0.0; SIDE]; SIDE];
    if bias.is_none() {
        to.rows_mut().zip(&mut edge).for_each(|(row, edge)| edge[..row.len()].copy_from_slice(row));
    }
    let mut whole = MatrixMut::new(edge.as_flattened_mut(), [SIDE; 2], SIDE);
    registers.add_products(bias, &mut whole, lhs, rhs);
    to.rows_mut().zip(&edge).for_each(|(row, edge)| row.copy_from_slice(&edge[..row.len()]));
}

/// The tiles of so many pairs of panels. At least one step, so that a product without depth is written too: as its
/// bias.
fn len(sides: usize, depth: usize) -> usize {
    2 * sides * depth.div_ceil(TILE_DEPTH).max(1)
}

fn with_tiles<const N: usize>(lens: [usize; N], work: impl FnOnce([&mut [Tile]; N])) {
    let words = size_of::<Tile>() / size_of::<u32>();
    with_words(lens.map(|len| len * words), |words| {
        work(words.map(|words| words.as_chunks_mut().0.as_chunks_mut().0));
    });
}
