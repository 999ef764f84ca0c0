//! The keys from which kernels make the random bits of dropout.

use super::{Random, RowsOfKeys};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::{flag, integer};
use crate::kernels::{DropoutKeys as DropoutKeysKernel, KernelUse};
use crate::ops::composite::Composite;
use crate::ops::{Backward, Problem, ResultStorage};
use crate::tensor::Tensor;

/// The keys of a site, u32 `[2, rows, blocks]`, from the two keys of seed and step and the offset of the first row, u32
/// scalars. Then follow the rows and positions of tokens, u32 `[rows]` each, and the number of the first block, a u32
/// scalar, where there are any.
#[derive(Debug)]
pub(super) struct DropoutKeys {
    pub(super) site: u32,
    pub(super) rows: RowsOfKeys,
    pub(super) has_tokens: bool,
    pub(super) has_first_block: bool,
}

impl DropoutKeys {
    fn result(&self) -> Shape {
        Shape::new(DType::U32, [2, self.rows.rows, self.rows.blocks])
    }
}

impl Composite for DropoutKeys {
    fn name(&self) -> &'static str {
        "dropout_keys"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let scalar = || Shape::scalar(DType::U32);
        let mut expected = vec![scalar(); 3];
        if self.has_tokens {
            expected.extend(vec![Shape::new(DType::U32, [self.rows.rows]); 2]);
        }
        if self.has_first_block {
            expected.push(scalar());
        }
        if inputs != expected {
            return Err("takes keys, an offset, and the places of tokens and blocks in u32".into());
        }
        Ok(self.result())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Random::of_operands(self, inputs).keys_of_rows(self.site, self.rows)
    }

    fn kernel(&self, _inputs: &[Shape]) -> Option<KernelUse> {
        let attributes = format!(
            "site = {}, numbers_blocks = {}, has_tokens = {}",
            integer(self.site as usize),
            flag(self.rows.blocks_of_row > 1),
            flag(self.has_tokens),
        );
        Some(KernelUse::of::<DropoutKeysKernel>(attributes))
    }

    /// Nothing flows to the keys.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None; at.inputs.len()])
    }
}
