//! The inputs of a model, and a batch of them.

use std::collections::HashMap;

use traind_xla::{DType, Tensor};

use crate::error::{Error, Result};

/// One size of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputDim {
    /// The rows of this core's batch.
    Rows,
    /// The padded length of the batch: of its sources, where targets have a length of their own.
    Positions,
    /// The padded length of the targets.
    TargetPositions,
    Size(usize),
}

/// Whether a batch must have an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    Required,
    /// An input with a default that the model documents.
    Optional,
    /// An input that the loss compares the logits with. Rows to predict on lack it.
    Target,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    pub name: &'static str,
    pub dtype: DType,
    pub dims: Vec<InputDim>,
    pub role: InputRole,
}

impl InputSpec {
    pub fn required(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Required }
    }

    pub fn optional(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Optional }
    }

    pub fn target(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Target }
    }

    /// Returns true for an input that only the loss needs.
    pub fn is_target(&self) -> bool {
        self.role == InputRole::Target
    }
}

/// Named tensors of one core's rows.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    tensors: HashMap<String, Tensor>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    pub fn insert(&mut self, name: &str, tensor: Tensor) {
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// The input called `name`; an error where the batch lacks it.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.optional(name).ok_or_else(|| Error::MissingInput { name: name.to_owned() })
    }

    pub fn optional(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The number of rows of this core.
    pub fn rows(&self) -> Result<usize> {
        Ok(self.any_row_input()?.dims().first().copied().unwrap_or_default())
    }

    /// The input that every batch of its kind of model has: images, or else tokens.
    pub(crate) fn any_row_input(&self) -> Result<&Tensor> {
        self.optional("pixel_values").map_or_else(|| self.get("input_ids"), Ok)
    }
}
