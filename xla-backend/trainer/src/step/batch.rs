//! The loader's arrays as inputs of a step: names, order and shapes are the model's, values the
//! loader's.

use std::ops::Range;

use traind_loader::{ArrayValues, BatchAxis, BatchSizes, CoreBatch, ModelInputs};
use traind_models::{
    Batch, InputDim, InputSpec, Model, PACKED_TOKENS, PADDED_TOKENS, PREDICTED_SLOTS,
    PREDICTED_TOKENS,
};
use traind_xla::runtime::{HostArray, Recording, StepInput};
use traind_xla::{DType, Shape};

use crate::error::{Error, Result};

/// The batch inputs of one model, in a fixed order.
#[derive(Clone, Debug)]
pub struct BatchLayout {
    specs: Vec<InputSpec>,
    /// The rows of the model's batch for each row of the data.
    sequences: usize,
}

impl BatchLayout {
    /// Selects the inputs of `model` that the tokenizer provides, and the targets, for rows of
    /// `sequences` sequences.
    pub fn of(model: &Model, given: ModelInputs, sequences: usize) -> BatchLayout {
        let specs = model.inputs().into_iter().filter(|spec| given.gives(spec.name));
        BatchLayout { specs: specs.collect(), sequences }
    }

    /// Adds an input, if one is given.
    pub(crate) fn with(mut self, input: Option<InputSpec>) -> BatchLayout {
        self.specs.extend(input);
        self
    }

    /// A layout of these inputs with other targets.
    pub(crate) fn with_targets(&self, targets: impl IntoIterator<Item = InputSpec>) -> BatchLayout {
        let mut layout = self.without_targets();
        layout.specs.extend(targets);
        layout
    }

    /// The inputs in their order.
    pub fn specs(&self) -> &[InputSpec] {
        &self.specs
    }

    /// The rows of the model's batch for each row of the data.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// Changes the layout to that of the set of a batch of `sizes`, where sets have different numbers of sequences.
    pub(crate) fn of_set(mut self, sizes: &BatchSizes) -> BatchLayout {
        self.sequences = self.sequences_of(sizes);
        self
    }

    /// The rows of the model's batch for each row of the data of a batch of `sizes`.
    pub(super) fn sequences_of(&self, sizes: &BatchSizes) -> usize {
        match sizes.get(BatchAxis::Sequences) {
            0 => self.sequences,
            sequences => sequences,
        }
    }

    /// The rows of the model's batch that rows of the data take in a batch of `sizes`.
    pub(crate) fn model_rows(&self, rows: Range<usize>, sizes: &BatchSizes) -> Range<usize> {
        let sequences = self.sequences_of(sizes);
        rows.start * sequences..rows.end * sequences
    }

    /// Returns the layout without the targets, which rows to predict lack.
    pub(crate) fn without_targets(&self) -> BatchLayout {
        let specs = self.specs.iter().filter(|spec| !spec.is_target()).cloned();
        BatchLayout { specs: specs.collect(), ..*self }
    }

    /// The step's inputs for a batch of `sizes` on each core.
    pub(crate) fn step_inputs(&self, sizes: &BatchSizes) -> Vec<StepInput> {
        let rows = sizes.rows() * self.sequences_of(sizes);
        let sizes = sizes.with(BatchAxis::Rows, rows as u32);
        let inputs =
            self.specs.iter().map(|spec| StepInput::new(spec.name, input_shape(spec, &sizes)));
        let packed = packed_widths(&sizes).into_iter();
        let packed = packed.map(|(name, width)| {
            StepInput::new(name, Shape::new(DType::S32, [sizes.rows(), width]))
        });
        inputs.chain(packed).collect()
    }

    /// The arrays of one core, in the order of the inputs of a step.
    pub fn arrays(&self, batch: &CoreBatch) -> Result<Vec<HostArray>> {
        let inputs = self.specs.iter().map(|spec| (spec.name, spec.dtype));
        let packed = packed_widths(&batch.sizes).into_iter().map(|(name, _)| (name, DType::S32));
        inputs.chain(packed).map(|(name, dtype)| host_array(name, dtype, batch)).collect()
    }

    /// The recorded inputs, as the model's forward pass takes them.
    pub fn bind(&self, recording: &Recording<'_>) -> Batch {
        let mut batch = Batch::new();
        let names = self.specs.iter().map(|spec| spec.name);
        for name in names.chain([PACKED_TOKENS, PADDED_TOKENS, PREDICTED_TOKENS, PREDICTED_SLOTS]) {
            if let Some(tensor) = recording.input(name) {
                batch.insert(name, tensor.clone());
            }
        }
        batch
    }
}

/// The names of the places of packed and of padded tokens, and of predicted ones, with their number for each row; none
/// of packed ones in a batch of which layers compute padding, and none of predicted ones where all tokens are.
fn packed_widths(sizes: &BatchSizes) -> Vec<(&'static str, usize)> {
    let positions = sizes.get(BatchAxis::Positions);
    let of_axis = |axis, of_tokens, of_places| match sizes.get(axis) {
        0 => Vec::new(),
        width => vec![(of_tokens, width), (of_places, positions)],
    };
    let packed = of_axis(BatchAxis::PackedPositions, PACKED_TOKENS, PADDED_TOKENS);
    [packed, of_axis(BatchAxis::PredictedPositions, PREDICTED_TOKENS, PREDICTED_SLOTS)].concat()
}

/// The shape of an input in a batch of `sizes`.
fn input_shape(spec: &InputSpec, sizes: &BatchSizes) -> Shape {
    let dims = spec.dims.iter().map(|dim| match dim {
        InputDim::Rows => sizes.rows(),
        InputDim::Positions => sizes.get(BatchAxis::Positions),
        InputDim::TargetPositions => sizes.get(BatchAxis::TargetPositions),
        InputDim::Size(size) => *size,
    });
    Shape::new(spec.dtype, dims.collect::<Vec<_>>())
}

/// The array on the host that the loader made for an input.
fn host_array(name: &str, dtype: DType, batch: &CoreBatch) -> Result<HostArray> {
    let missing = || Error::NoSuchInput { name: name.to_owned(), dtype };
    let array = batch.array(name).ok_or_else(missing)?;
    let (found, host) = match &array.values {
        ArrayValues::U8(values) => {
            let shape = Shape::new(DType::U8, &array.dims[..]);
            (DType::U8, HostArray::from_bytes(shape, values.clone())?)
        }
        ArrayValues::S32(values) => (DType::S32, HostArray::from_s32(&array.dims, values)?),
        ArrayValues::F32(values) => (DType::F32, HostArray::from_f32(&array.dims, values)?),
    };
    match found == dtype {
        true => Ok(host),
        false => Err(Error::InputType { name: name.to_owned(), expected: dtype, found }),
    }
}
