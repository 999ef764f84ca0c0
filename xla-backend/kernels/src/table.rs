//! Tables of rows that are zeros but for a few, as the gradients of embeddings.

use crate::sum::add;

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
