//! The inputs of a model, and a batch of them.

use std::collections::HashMap;

use traind_xla::{DType, Tensor};

use crate::error::{Error, Result};

/// The padded place that each packed token comes from, s32[B, Q]; B S behind the last token.
pub const PACKED_TOKENS: &str = "packed_tokens";
/// The packed token that stands at each padded place, s32[B, S]; B Q where that is padding.
pub const PADDED_TOKENS: &str = "padded_tokens";

/// One size of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputDim {
    /// The rows of this core's batch.
    Rows,
    /// The padded length of the batch: of its sources, where targets have a length of their own.
    Positions,
    /// The padded length of the targets.
    TargetPositions,
    /// A size that the model fixes.
    Size(usize),
}

/// Whether a batch must have an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    /// An input without which there is no forward pass.
    Required,
    /// An input with a default that the model documents.
    Optional,
    /// An input that the loss compares the logits with. Rows to predict on lack it.
    Target,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    /// The name in a batch.
    pub name: &'static str,
    /// The type of its elements.
    pub dtype: DType,
    /// The dimensions, rows first.
    pub dims: Vec<InputDim>,
    /// The use of the input.
    pub role: InputRole,
}

impl InputSpec {
    /// Describes an input that each batch has.
    pub fn required(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Required }
    }

    /// Describes an input that batches may lack.
    pub fn optional(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Optional }
    }

    /// Describes an input that only the loss needs.
    pub fn target(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Target }
    }

    /// `input_ids`, `attention_mask` and, with segments, `token_type_ids` (all zero where absent), each
    /// s32[B, S].
    pub(crate) fn of_tokens(has_segments: bool) -> Vec<InputSpec> {
        let dims = [InputDim::Rows, InputDim::Positions];
        let required = ["input_ids", "attention_mask"];
        let mut inputs = required.map(|name| InputSpec::required(name, DType::S32, &dims)).to_vec();
        if has_segments {
            inputs.push(InputSpec::optional("token_type_ids", DType::S32, &dims));
        }
        inputs
    }

    /// The same for models that keep apart several texts in a row: there, `position_ids` s32[B, S] begin at 0 with each
    /// text.
    pub(crate) fn of_texts(has_segments: bool) -> Vec<InputSpec> {
        let dims = [InputDim::Rows, InputDim::Positions];
        let mut inputs = InputSpec::of_tokens(has_segments);
        inputs.push(InputSpec::optional("position_ids", DType::S32, &dims));
        inputs
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
    /// Returns a batch without inputs.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds an input, or replaces it.
    pub fn insert(&mut self, name: &str, tensor: Tensor) {
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// The same inputs without the one called `name`.
    pub fn without(&self, name: &str) -> Batch {
        let mut batch = self.clone();
        batch.tensors.remove(name);
        batch
    }

    /// The input called `name`; an error where the batch lacks it.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.optional(name).ok_or_else(|| Error::MissingInput { name: name.to_owned() })
    }

    /// Returns an input, if the batch has it.
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
