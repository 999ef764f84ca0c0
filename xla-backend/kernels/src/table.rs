//! Tables that are zeros but for a few rows, as the gradients of embeddings.

use std::ops::Range;

use crate::sum::{self, add};

/// Makes `table` zeros, and adds those of `rows` whose `numbers` it has, in their order. `first`: the number of its
/// first row.
pub fn fill(table: &mut [f32], width: usize, rows: &[f32], numbers: &[i32], first: i32) {
    assert!(width > 0 && table.len().is_multiple_of(width), "the table has rows of other widths");
    assert_eq!(rows.len(), numbers.len() * width, "rows have other widths");
    table.fill(0.0);
    for (&number, row) in numbers.iter().zip(rows.chunks_exact(width)) {
        let Ok(place) = usize::try_from(i64::from(number) - i64::from(first)) else { continue };
        if let Some(to) = table.get_mut(place * width..(place + 1) * width) {
            add(to, row);
        }
    }
}

/// A table that is zeros but for a few rows, without the zeros.
#[derive(Debug)]
pub struct FewRows {
    /// The rows of the table.
    length: usize,
    width: usize,
    /// The rows that are there, ascending.
    places: Vec<usize>,
    /// Their elements.
    elements: Vec<f32>,
}

impl FewRows {
    /// The rows that are there of the table of `length` rows that [`fill`] makes of the same arguments.
    pub fn of(length: usize, width: usize, rows: &[f32], numbers: &[i32], first: i32) -> FewRows {
        assert!(width > 0, "the table has no columns");
        assert_eq!(rows.len(), numbers.len() * width, "rows have other widths");
        let place = |number: i32| {
            let place = usize::try_from(i64::from(number) - i64::from(first));
            place.ok().filter(|place| *place < length)
        };
        let numbered = numbers.iter().enumerate();
        let mut found: Vec<(usize, usize)> =
            numbered.filter_map(|(row, number)| Some((place(*number)?, row))).collect();
        found.sort_unstable();
        let mut table = FewRows { length, width, places: Vec::new(), elements: Vec::new() };
        for (place, row) in found {
            if table.places.last() != Some(&place) {
                table.places.push(place);
                table.elements.resize(table.elements.len() + width, 0.0);
            }
            let start = table.elements.len() - width;
            add(&mut table.elements[start..], &rows[row * width..(row + 1) * width]);
        }
        table
    }

    /// The sum of the squares of all elements: that of [`sum::square_sum`] to the bit, since zeros add nothing.
    pub fn square_sum(&self) -> f32 {
        let (mut total, mut block, mut start) = (0.0, [0.0; sum::BLOCK], 0);
        let end = |start: usize| sum::BLOCK.min(self.length * self.width - start);
        for (place, mut row) in self.rows() {
            let mut at = place.start;
            while !row.is_empty() {
                if at >= start + sum::BLOCK {
                    sum::add_squares(&block[..end(start)], &mut total);
                    block.fill(0.0);
                    start = at / sum::BLOCK * sum::BLOCK;
                }
                let (part, rest) = row.split_at(row.len().min(start + sum::BLOCK - at));
                block[at - start..][..part.len()].copy_from_slice(part);
                (at, row) = (at + part.len(), rest);
            }
        }
        sum::add_squares(&block[..end(start)], &mut total);
        total as f32
    }

    /// The places of the rows in the flattened table, ascending, each with its elements.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Range<usize>, &[f32])> {
        let ranges = self.places.iter().map(|place| place * self.width..(place + 1) * self.width);
        ranges.zip(self.elements.chunks_exact(self.width))
    }
}
