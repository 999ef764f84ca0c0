//! The inputs of a model, and a batch of them.

use std::collections::HashMap;
use std::fmt;

use traind_xla::{DType, Tensor};

use crate::error::{Error, Result};

/// The label of a token that has none.
pub const IGNORED_LABEL: i32 = -100;

/// The padded place that each packed token comes from, s32[B, Q]; B S behind the last token.
pub const PACKED_TOKENS: &str = "packed_tokens";
/// The packed token that stands at each padded place, s32[B, S]; B Q where that is padding.
pub const PADDED_TOKENS: &str = "padded_tokens";
/// The padded place of each predicted token, and B S behind the last one, s32[B, M], where predictions of masked tokens
/// or those that are compared with a label are computed alone.
pub const PREDICTED_TOKENS: &str = "predicted_tokens";
/// The number of the predicted token at each padded place, and B M elsewhere, s32[B, S].
pub const PREDICTED_SLOTS: &str = "predicted_slots";

/// The length that transformers pads each row's batch to, s32`[B]`, where the loss reads padding too: places behind it
/// are no part of the batch.
pub const PADDED_LENGTH: &str = "padded_length";

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

/// The values that the elements of an input may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputValues {
    /// Every finite number.
    Finite,
    /// Whole numbers from 0 up to but not this one.
    Below(usize),
    /// Whole numbers from 0 up to but not this one, and [`IGNORED_LABEL`] where there is none.
    LabelsBelow(usize),
    /// Finite numbers of at least 0.
    NotNegative,
    /// 0 or 1.
    Flags,
    /// Numbers from 0 to 1.
    Shares,
}

impl InputValues {
    /// Returns whether an element may have this value.
    pub fn contains(self, value: f64) -> bool {
        match self {
            InputValues::Finite => value.is_finite(),
            InputValues::Below(end) => value >= 0.0 && value < end as f64,
            InputValues::LabelsBelow(end) => {
                value == f64::from(IGNORED_LABEL) || InputValues::Below(end).contains(value)
            }
            InputValues::NotNegative => value.is_finite() && value >= 0.0,
            InputValues::Flags => value == 0.0 || value == 1.0,
            InputValues::Shares => (0.0..=1.0).contains(&value),
        }
    }
}

impl fmt::Display for InputValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputValues::Finite => formatter.write_str("a finite number"),
            InputValues::Below(end) => write!(formatter, "from 0 to {}", end.saturating_sub(1)),
            InputValues::LabelsBelow(end) => {
                write!(formatter, "{}, or {IGNORED_LABEL} for none", InputValues::Below(*end))
            }
            InputValues::NotNegative => formatter.write_str("a finite number of at least 0"),
            InputValues::Flags => formatter.write_str("0 or 1"),
            InputValues::Shares => formatter.write_str("from 0 to 1"),
        }
    }
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
    /// The values of its elements.
    pub values: InputValues,
}

impl InputSpec {
    /// Describes an input that each batch has.
    pub fn required(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec::of_role(InputRole::Required, name, dtype, dims)
    }

    /// Describes an input that batches may lack.
    pub fn optional(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec::of_role(InputRole::Optional, name, dtype, dims)
    }

    /// Describes an input that only the loss needs.
    pub fn target(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec::of_role(InputRole::Target, name, dtype, dims)
    }

    fn of_role(role: InputRole, name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role, values: InputValues::Finite }
    }

    /// Limits the input's elements to `values`.
    pub fn of_values(self, values: InputValues) -> InputSpec {
        InputSpec { values, ..self }
    }

    /// The required input of that name with a token id below `vocab_size` for each of `dims`.
    pub(crate) fn token_ids(name: &'static str, dims: &[InputDim], vocab_size: usize) -> InputSpec {
        InputSpec::required(name, DType::S32, dims).of_values(InputValues::Below(vocab_size))
    }

    /// `attention_mask` s32[B, S]: 1 for tokens, and 0 for padding.
    pub(crate) fn attention_mask() -> InputSpec {
        let dims = [InputDim::Rows, InputDim::Positions];
        InputSpec::required("attention_mask", DType::S32, &dims).of_values(InputValues::Flags)
    }

    /// `input_ids` below `vocab_size`, `attention_mask` and, where there are several segments, `token_type_ids` (all
    /// zero where absent), each s32[B, S].
    pub(crate) fn of_tokens(vocab_size: usize, segments: Option<usize>) -> Vec<InputSpec> {
        let dims = [InputDim::Rows, InputDim::Positions];
        let ids = InputSpec::token_ids("input_ids", &dims, vocab_size);
        let mut inputs = vec![ids, InputSpec::attention_mask()];
        if let Some(segments) = segments.filter(|segments| *segments > 1) {
            let segment = InputSpec::optional("token_type_ids", DType::S32, &dims);
            inputs.push(segment.of_values(InputValues::Below(segments)));
        }
        inputs
    }

    /// The inputs of [`of_tokens`](Self::of_tokens) for models that keep apart several texts in a row: there,
    /// `position_ids` s32[B, S] begin at 0 with each text, and are below `positions`.
    pub(crate) fn of_texts(
        vocab_size: usize,
        segments: Option<usize>,
        positions: usize,
    ) -> Vec<InputSpec> {
        let dims = [InputDim::Rows, InputDim::Positions];
        let mut inputs = InputSpec::of_tokens(vocab_size, segments);
        let position = InputSpec::optional("position_ids", DType::S32, &dims);
        inputs.push(position.of_values(InputValues::Below(positions)));
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

    /// A copy of the inputs without the one called `name`.
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
