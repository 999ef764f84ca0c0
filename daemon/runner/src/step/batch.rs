//! How the loader's batches become inputs of a step: names, order and shapes
//! are the model's, the arrays are the loader's.

use traind_loader::{CoreBatch, LabelBatch, ModelInputs};
use traind_models::{Batch, InputDim, InputSpec, Model};
use traind_xla::runtime::{HostArray, InputSpec as StepInput, Recording};
use traind_xla::{DType, Shape};

use crate::error::{RunError, RunResult};

/// What rows to predict may lack.
const LABELS: [&str; 4] = ["labels", "start_positions", "end_positions", "padded_length"];

/// The batch inputs of one model, in a fixed order.
#[derive(Clone, Debug)]
pub(crate) struct BatchLayout {
    specs: Vec<InputSpec>,
}

impl BatchLayout {
    /// The inputs of `model` that the tokenizer gives, with the labels.
    pub(crate) fn of(model: &dyn Model, given: ModelInputs) -> BatchLayout {
        let is_given = |spec: &InputSpec| spec.name != "token_type_ids" || given.token_type_ids;
        BatchLayout { specs: model.inputs().into_iter().filter(is_given).collect() }
    }

    /// The same for rows without labels.
    pub(crate) fn unlabelled(&self) -> BatchLayout {
        let is_label = |spec: &&InputSpec| LABELS.contains(&spec.name);
        BatchLayout { specs: self.specs.iter().filter(|spec| !is_label(spec)).cloned().collect() }
    }

    /// The step's inputs for `rows` rows a core, padded to `positions`.
    pub(crate) fn step_inputs(&self, rows: usize, positions: usize) -> Vec<StepInput> {
        let size = |dim: &InputDim| match dim {
            InputDim::Rows => rows,
            InputDim::Positions => positions,
            InputDim::Size(size) => *size,
        };
        let shape = |spec: &InputSpec| -> Shape {
            Shape::new(spec.dtype, spec.dims.iter().map(size).collect::<Vec<_>>())
        };
        self.specs.iter().map(|spec| StepInput::new(spec.name, shape(spec))).collect()
    }

    /// The arrays of one core, in the order of [`BatchLayout::step_inputs`].
    pub(crate) fn arrays(&self, batch: &CoreBatch) -> RunResult<Vec<HostArray>> {
        self.specs.iter().map(|spec| array(spec, batch)).collect()
    }

    /// The recorded inputs, as the model's forward pass takes them.
    pub(crate) fn bind(&self, recording: &Recording<'_>) -> Batch {
        let mut batch = Batch::new();
        for spec in &self.specs {
            if let Some(tensor) = recording.input(spec.name) {
                batch.insert(spec.name, tensor.clone());
            }
        }
        batch
    }
}

fn array(spec: &InputSpec, batch: &CoreBatch) -> RunResult<HostArray> {
    let (rows, positions) = (batch.batch, batch.length);
    let array = match (spec.name, spec.dtype, &batch.labels) {
        ("input_ids", DType::S32, _) => tokens(rows, positions, &batch.input_ids),
        ("attention_mask", DType::S32, _) => tokens(rows, positions, &batch.attention_mask),
        ("token_type_ids", DType::S32, _) => tokens(rows, positions, &batch.token_type_ids),
        ("padded_length", DType::S32, _) => {
            HostArray::from_s32(&[rows], &vec![batch.padded_length as i32; rows])
        }
        ("sample_weights", DType::F32, _) => HostArray::from_f32(&[rows], &batch.sample_weights),
        ("labels", DType::S32, LabelBatch::Class(ids)) => HostArray::from_s32(&[rows], ids),
        ("labels", DType::F32, LabelBatch::Numbers { width: 1, values }) => {
            HostArray::from_f32(&[rows], values)
        }
        ("labels", DType::F32, LabelBatch::Numbers { width, values }) => {
            HostArray::from_f32(&[rows, *width], values)
        }
        ("labels", DType::F32, LabelBatch::MultiLabel { classes, values }) => {
            HostArray::from_f32(&[rows, *classes], values)
        }
        ("labels", DType::S32, LabelBatch::Token(ids)) => tokens(rows, positions, ids),
        ("start_positions", DType::S32, LabelBatch::Span { start_positions, .. }) => {
            HostArray::from_s32(&[rows], start_positions)
        }
        ("end_positions", DType::S32, LabelBatch::Span { end_positions, .. }) => {
            HostArray::from_s32(&[rows], end_positions)
        }
        (name, dtype, _) => return Err(RunError::NoSuchInput { name: name.to_owned(), dtype }),
    };
    Ok(array?)
}

fn tokens(rows: usize, positions: usize, ids: &[i32]) -> traind_xla::Result<HostArray> {
    HostArray::from_s32(&[rows, positions], ids)
}
