//! The loader's arrays as inputs of a step: names, order and shapes are the model's, values the
//! loader's.

use std::ops::Range;

use traind_loader::{ArrayValues, BatchAxis, BatchSizes, CoreBatch, ModelInputs};
use traind_models::{Batch, InputDim, InputSpec, Model};
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
    pub fn of(model: &dyn Model, given: ModelInputs, sequences: usize) -> BatchLayout {
        let specs = model.inputs().into_iter().filter(|spec| given.gives(spec.name));
        BatchLayout { specs: specs.collect(), sequences }
    }

    /// The same inputs and another.
    pub(crate) fn with(mut self, input: Option<InputSpec>) -> BatchLayout {
        self.specs.extend(input);
        self
    }

    /// The same inputs with another target, or with none.
    pub(crate) fn with_target(&self, target: Option<InputSpec>) -> BatchLayout {
        let mut layout = self.without_targets();
        layout.specs.extend(target);
        layout
    }

    /// The rows of the model's batch for each row of the data.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// The rows of the model's batch that rows of the data take.
    pub(crate) fn model_rows(&self, rows: Range<usize>) -> Range<usize> {
        rows.start * self.sequences..rows.end * self.sequences
    }

    /// Returns the layout without the targets, which rows to predict lack.
    pub(crate) fn without_targets(&self) -> BatchLayout {
        let specs = self.specs.iter().filter(|spec| !spec.is_target()).cloned();
        BatchLayout { specs: specs.collect(), ..*self }
    }

    /// The step's inputs for a batch of `sizes` on each core.
    pub(crate) fn step_inputs(&self, sizes: &BatchSizes) -> Vec<StepInput> {
        let rows = sizes.rows() * self.sequences;
        let sizes = sizes.with(BatchAxis::Rows, rows as u32);
        let inputs =
            self.specs.iter().map(|spec| StepInput::new(spec.name, input_shape(spec, &sizes)));
        inputs.collect()
    }

    /// The arrays of one core, in the order of [`BatchLayout::step_inputs`].
    pub fn arrays(&self, batch: &CoreBatch) -> Result<Vec<HostArray>> {
        self.specs.iter().map(|spec| host_array(spec, batch)).collect()
    }

    /// The recorded inputs, as the model's forward pass takes them.
    pub fn bind(&self, recording: &Recording<'_>) -> Batch {
        let mut batch = Batch::new();
        for spec in &self.specs {
            if let Some(tensor) = recording.input(spec.name) {
                batch.insert(spec.name, tensor.clone());
            }
        }
        batch
    }
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
fn host_array(spec: &InputSpec, batch: &CoreBatch) -> Result<HostArray> {
    let missing = || Error::NoSuchInput { name: spec.name.to_owned(), dtype: spec.dtype };
    let array = batch.array(spec.name).ok_or_else(missing)?;
    let (dtype, host) = match &array.values {
        ArrayValues::U8(values) => {
            let shape = Shape::new(DType::U8, &array.dims[..]);
            (DType::U8, HostArray::from_bytes(shape, values.clone())?)
        }
        ArrayValues::S32(values) => (DType::S32, HostArray::from_s32(&array.dims, values)?),
        ArrayValues::F32(values) => (DType::F32, HostArray::from_f32(&array.dims, values)?),
    };
    if dtype == spec.dtype { Ok(host) } else { Err(missing()) }
}
