//! The sum of tables that consist of few rows each, as the gradient of an embedding: replicas exchange these rows
//! instead of tables that are zeros for the most part.

use crate::error::Result;
use crate::graph::DType;
use crate::tensor::Tensor;

/// Tables have at least so many times the rows that all replicas add. Fewer would not save much.
const TABLE_ROWS_MIN: usize = 4;

/// Rows [N, H] that are added to a table of zeros, and their numbers in it, s32[N].
struct AddedRows {
    numbers: Tensor,
    rows: Tensor,
}

impl Tensor {
    /// [`Tensor::all_reduce`] of a table, or `None` if it is more than [rows added](Tensor::scatter_add) to zeros, or
    /// replicas add too many. Rows are added in the order of the replicas.
    pub fn all_reduce_rows(&self, groups: &[Vec<usize>]) -> Result<Option<Tensor>> {
        let Some(added) = self.rows_of_all(groups)? else { return Ok(None) };
        let first = self.trace().scalar(0.0, DType::S32)?;
        let table = added.rows.table_of_rows(&added.numbers, &first, self.dims()[0])?;
        Ok(Some(table.reshape(self.dims())?))
    }

    /// Adds the rows of all replicas in this replica's part of the flattened table, which has the number `part`, a u32
    /// scalar. `None` as for [`Tensor::all_reduce_rows`], and where no number of pieces of a row divides the part.
    pub fn reduce_rows_to_part(
        &self,
        part: &Tensor,
        groups: &[Vec<usize>],
    ) -> Result<Option<Tensor>> {
        let Some(added) = self.rows_of_all(groups)? else { return Ok(None) };
        let (table_rows, parts) = (self.dims()[0], groups.first().map_or(1, Vec::len));
        // The fewest pieces that fill whole parts.
        let pieces = parts / greatest_common_divisor(parts, table_rows);
        if !added.rows.dims()[1].is_multiple_of(pieces) {
            return Ok(None);
        }
        let length = table_rows * pieces / parts;
        let first = part.convert(DType::S32)?.mul_scalar(length as f64)?;
        let AddedRows { numbers, rows } = added.in_pieces(pieces)?;
        let table = rows.table_of_rows(&numbers, &first, length)?;
        Ok(Some(table.reshape(&[table.shape().element_count()])?))
    }

    /// The rows that all replicas of a group add to a table, of which they are few.
    fn rows_of_all(&self, groups: &[Vec<usize>]) -> Result<Option<AddedRows>> {
        let Some(AddedRows { numbers, rows }) = self.added_rows()? else { return Ok(None) };
        let replicas = groups.first().map_or(0, Vec::len);
        if replicas < 2 || rows.dims()[0] * replicas * TABLE_ROWS_MIN > self.dims()[0] {
            return Ok(None);
        }
        let last = (self.dims()[0] - 1) as f64;
        let numbers = numbers.all_gather(0, groups)?.maximum_scalar(0.0)?.minimum_scalar(last)?;
        Ok(Some(AddedRows { numbers, rows: rows.all_gather(0, groups)? }))
    }

    /// The rows of which a table consists.
    fn added_rows(&self) -> Result<Option<AddedRows>> {
        let trace = self.trace();
        let (mut numbers, mut rows) = (Vec::new(), Vec::new());
        let mut table = self.node();
        loop {
            let node = trace.graph().node(table).clone();
            match (node.op.name(), &node.inputs[..]) {
                ("scatter_add", &[before, indices, updates]) => {
                    let (indices, updates) = (trace.tensor(indices), trace.tensor(updates));
                    let count = indices.shape().element_count();
                    let width = updates.shape().element_count() / count.max(1);
                    numbers.insert(0, indices.reshape(&[count])?);
                    rows.insert(0, updates.reshape(&[count, width])?);
                    table = before;
                }
                _ if node.op.is_zero() => break,
                _ => return Ok(None),
            }
        }
        let join = |tensors: &[Tensor]| match tensors {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            several => trace.concatenate(&several.iter().collect::<Vec<_>>(), 0).map(Some),
        };
        let joined = join(&numbers)?.zip(join(&rows)?);
        Ok(joined.map(|(numbers, rows)| AddedRows { numbers, rows }))
    }
}

impl AddedRows {
    /// Each row as so many of a table whose rows are shorter.
    fn in_pieces(&self, pieces: usize) -> Result<AddedRows> {
        let &[count, width] = self.rows.dims() else { unreachable!("rows have two axes") };
        let piece = self.rows.trace().iota(DType::S32, &[count, pieces], 1)?;
        let first = self.numbers.mul_scalar(pieces as f64)?.unsqueeze(1)?;
        Ok(AddedRows {
            numbers: first.add(&piece)?.reshape(&[count * pieces])?,
            rows: self.rows.reshape(&[count * pieces, width / pieces])?,
        })
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
