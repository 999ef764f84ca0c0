//! The arrays that a caller gives, against the inputs that the programs read: names, types, shapes and values.
//!
//! Batches of a loader pass by this check, since they come from files whose rows it has checked.

use std::fmt;

use traind_loader::{ArrayValues, BatchArray};
use traind_models::tasks::question_answering::ANSWER_WEIGHTS;
use traind_models::tasks::replaced_tokens::BATCH_SUMS;
use traind_models::{InputDim, InputRole, InputSpec, InputValues};
use traind_xla::DType;

use crate::error::{Error, Result};

/// Inputs that follow from others.
const FOLLOWING: [&str; 2] = [ANSWER_WEIGHTS, BATCH_SUMS];

/// How cores share the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowShares {
    /// The rows of a batch for each row of the data.
    pub sequences: usize,
    /// The cores that see different rows.
    pub shards: usize,
    /// The most rows of the data on each of them.
    pub rows_max: usize,
}

/// The sizes of a batch by the arrays that were looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    rows: Option<usize>,
    positions: Option<usize>,
    target_positions: Option<usize>,
}

/// Refuses arrays that are not those of `specs`, or that cores cannot share. Inputs that are optional, or that follow
/// from others, may be absent.
pub(super) fn check(specs: &[InputSpec], arrays: &[BatchArray], shares: RowShares) -> Result<()> {
    check_names(specs, arrays)?;
    let mut sizes = Sizes::default();
    for spec in specs {
        let Some(array) = arrays.iter().find(|array| array.name == spec.name) else {
            if spec.role == InputRole::Optional || FOLLOWING.contains(&spec.name) {
                continue;
            }
            return Err(Error::NoSuchInput { name: spec.name.to_owned(), dtype: spec.dtype });
        };
        check_type(spec, array)?;
        sizes.check(spec, array)?;
        check_values(spec, array)?;
    }
    shares.check(sizes.rows.unwrap_or_default())
}

/// Refuses arrays that no program reads, and second ones of a name.
fn check_names(specs: &[InputSpec], arrays: &[BatchArray]) -> Result<()> {
    for (place, array) in arrays.iter().enumerate() {
        if !specs.iter().any(|spec| spec.name == array.name) {
            let known = specs.iter().map(|spec| spec.name).collect();
            return Err(Error::UnknownInput { name: array.name, known });
        }
        if arrays[..place].iter().any(|other| other.name == array.name) {
            return Err(Error::DuplicateInput { name: array.name });
        }
    }
    Ok(())
}

fn check_type(spec: &InputSpec, array: &BatchArray) -> Result<()> {
    let found = match &array.values {
        ArrayValues::U8(_) => DType::U8,
        ArrayValues::S32(_) => DType::S32,
        ArrayValues::F32(_) => DType::F32,
    };
    let name = || spec.name.to_owned();
    match found == spec.dtype {
        true => Ok(()),
        false => Err(Error::InputType { name: name(), expected: spec.dtype, found }),
    }
}

impl Sizes {
    /// Refuses an array of another shape than that of `spec` with the sizes so far, and takes those that it adds.
    fn check(&mut self, spec: &InputSpec, array: &BatchArray) -> Result<()> {
        let given = match &array.values {
            ArrayValues::U8(values) => values.len(),
            ArrayValues::S32(values) => values.len(),
            ArrayValues::F32(values) => values.len(),
        };
        let elements = array.dims.iter().product::<usize>();
        if given != elements {
            return Err(Error::Elements { array: spec.name, dims: array.dims.clone(), given });
        }
        let expected = Shape { dims: &spec.dims, sizes: *self };
        let fits =
            |(dim, size): (&InputDim, &usize)| expected.size(dim).is_none_or(|it| it == *size);
        let has_rank = spec.dims.len() == array.dims.len();
        if !has_rank || elements == 0 || !spec.dims.iter().zip(&array.dims).all(fits) {
            let (expected, found) = (expected.to_string(), array.dims.clone());
            return Err(Error::ArrayShape { array: spec.name, expected, found });
        }
        for (dim, size) in spec.dims.iter().zip(&array.dims) {
            match dim {
                InputDim::Rows => self.rows = Some(*size),
                InputDim::Positions => self.positions = Some(*size),
                InputDim::TargetPositions => self.target_positions = Some(*size),
                InputDim::Size(_) => {}
            }
        }
        Ok(())
    }
}

/// The shape of an input, with names for sizes that no array has decided.
struct Shape<'a> {
    dims: &'a [InputDim],
    sizes: Sizes,
}

impl Shape<'_> {
    fn size(&self, dim: &InputDim) -> Option<usize> {
        match dim {
            InputDim::Rows => self.sizes.rows,
            InputDim::Positions => self.sizes.positions,
            InputDim::TargetPositions => self.sizes.target_positions,
            InputDim::Size(size) => Some(*size),
        }
    }
}

impl fmt::Display for Shape<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.dims.iter().map(|dim| match (self.size(dim), dim) {
            (Some(size), _) => size.to_string(),
            (None, InputDim::TargetPositions) => "target positions".to_owned(),
            (None, InputDim::Positions) => "positions".to_owned(),
            (None, _) => "rows".to_owned(),
        });
        write!(formatter, "[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

/// Refuses a value that the input cannot have.
fn check_values(spec: &InputSpec, array: &BatchArray) -> Result<()> {
    let found = match &array.values {
        ArrayValues::U8(_) => None,
        ArrayValues::S32(_) if spec.values == InputValues::Finite => None,
        ArrayValues::S32(values) => first_other(spec.values, values),
        ArrayValues::F32(values) => first_other(spec.values, values),
    };
    let Some((element, value)) = found else { return Ok(()) };
    let row = element / (array.dims.iter().skip(1).product::<usize>()).max(1);
    Err(Error::InputValue { array: spec.name, row, value, expected: spec.values })
}

/// The place of the first element that may not have its value.
fn first_other<T: Copy + Into<f64>>(expected: InputValues, values: &[T]) -> Option<(usize, f64)> {
    let mut values = values.iter().map(|value| (*value).into()).enumerate();
    values.find(|(_, value)| !expected.contains(*value))
}

impl RowShares {
    /// Refuses rows of a batch that cores cannot share evenly, or that are more than they have room for.
    fn check(self, rows: usize) -> Result<()> {
        let RowShares { sequences, shards, rows_max } = self;
        if !rows.is_multiple_of(shards * sequences) {
            return Err(Error::Rows { rows, sequences, shards });
        }
        let rows_per_core = rows / sequences / shards;
        match shards > 1 && rows_per_core > rows_max {
            true => Err(Error::RowsPerCore { rows: rows_per_core, rows_max }),
            false => Ok(()),
        }
    }
}
