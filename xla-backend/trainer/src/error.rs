//! The error of the trainer.

use std::error::Error as StdError;
use std::path::PathBuf;

use traind_choices::Fsdp;
use traind_models::{Error as ModelError, InputValues};
use traind_pjrt::Error as PjrtError;
use traind_xla::{DType, Error as XlaError};

/// The result of the trainer's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to record, compile or run the programs of a training step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model refuses its settings, inputs or weights.
    #[error(transparent)]
    Model(#[from] ModelError),

    /// A program cannot be recorded, compiled or run.
    #[error(transparent)]
    Device(#[from] XlaError),

    /// The model has fewer layers than the pipeline has parts.
    #[error(
        "the model has {layers} layers, and {} parts of it need one each: {stages} stages with \
         {interleave} of them", stages * interleave
    )]
    TooManyParts {
        /// The layers of the model.
        layers: usize,
        /// The stages of all hosts.
        stages: usize,
        /// The parts of the model on each stage.
        interleave: usize,
    },

    /// The optimizer reads whole parameters, which cores would have in parts.
    #[error("{optimizer} reads whole parameters, and {division}")]
    WholeParameters {
        /// The optimizer's name.
        optimizer: String,
        /// The division of the parameters.
        division: Division,
    },

    /// The plugin has lost devices, or has fewer than the mesh.
    #[error("the plugin has too few devices: {found} of {cores}")]
    MissingDevices {
        /// The plugin's devices.
        found: usize,
        /// The cores of the mesh.
        cores: usize,
    },

    /// Random numbers would differ from those of other platforms.
    #[error("{platform} computes 32-bit integers inexactly, on which random numbers depend")]
    InexactIntegers {
        /// The plugin's platform.
        platform: String,
    },

    /// The plugin reads older programs alone.
    #[error(
        "has a plugin that reads StableHLO up to {}.{}.{}, and programs are of 1.0.0: install a newer plugin",
        newest[0], newest[1], newest[2]
    )]
    OldStablehlo {
        /// The plugin's platform.
        platform: String,
        /// The newest version that it reads.
        newest: [i64; 3],
    },

    /// Work was given up, since its caller has to stop.
    #[error("given up, since the run has to stop")]
    Abandoned,

    /// A batch has an array of another type for an input of the model.
    #[error("the array {name} is of {found}, and the model reads {expected}")]
    InputType {
        /// The input.
        name: String,
        /// The type that the model reads.
        expected: DType,
        /// The type of the array.
        found: DType,
    },

    /// A batch has no array for an input of the model.
    #[error("the model needs the input {name} ({dtype}), and the data have none")]
    NoSuchInput {
        /// The input.
        name: String,
        /// The type that the model reads.
        dtype: DType,
    },

    /// A batch has an array that no program reads.
    #[error("the array {name} is not an input of the model, which reads {}", known.join(", "))]
    UnknownInput {
        /// The array's name.
        name: &'static str,
        /// The inputs that there are.
        known: Vec<&'static str>,
    },

    /// A batch has two arrays of the same name.
    #[error("the array {name} was given twice")]
    DuplicateInput {
        /// The arrays' name.
        name: &'static str,
    },

    /// An array has another number of elements than its shape.
    #[error("the array {array} has {given} elements, and its shape is {dims:?}")]
    Elements {
        /// The array's name.
        array: &'static str,
        /// Its shape.
        dims: Vec<usize>,
        /// The elements that were given.
        given: usize,
    },

    /// An array does not have the shape of its input, with the sizes of the arrays before it.
    #[error("the array {array} has the shape {found:?}, expected {expected}")]
    ArrayShape {
        /// The array's name.
        array: &'static str,
        /// The shape that the input has in this batch.
        expected: String,
        /// The shape that was given.
        found: Vec<usize>,
    },

    /// An element of an array has a value that the input cannot have.
    #[error("the array {array} has {value} in row {row}, expected {expected}")]
    InputValue {
        /// The array's name.
        array: &'static str,
        /// The row, counted from 0.
        row: usize,
        /// The value.
        value: f64,
        /// The values that the input may have.
        expected: InputValues,
    },

    /// Cores cannot share the rows of a batch evenly.
    #[error(
        "the batch has {rows} rows{}, which {shards} cores cannot share",
        if *sequences > 1 { format!(", {sequences} of each of the data") } else { String::new() }
    )]
    Rows {
        /// The rows of the batch.
        rows: usize,
        /// The rows of the batch for each row of the data.
        sequences: usize,
        /// The cores that see different rows.
        shards: usize,
    },

    /// Random numbers of rows on different cores would be the same.
    #[error(
        "the batch has {rows} rows on each core, and the config's state.rows_per_core is {rows_max}"
    )]
    RowsPerCore {
        /// The rows of the batch on each core.
        rows: usize,
        /// The most that the config allows.
        rows_max: usize,
    },

    /// An update has no batch whose gradients it could apply.
    #[error("a step needs a batch before its update")]
    NoBatch,

    /// A number of the step is not one that it may be.
    #[error("{name}: expected {expected}, found {found}")]
    Number {
        /// The number's name.
        name: &'static str,
        /// The numbers that it may be.
        expected: &'static str,
        /// The number that was given.
        found: f64,
    },

    /// The number of values differs from that of the things that need one.
    #[error("{what}: given {found}, and {expected} are needed")]
    Count {
        /// The values.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The number that is needed.
        expected: usize,
    },

    /// There is no set of trained values with this number.
    #[error("there is no set {number}: the trainer has {sets}")]
    NoSuchSet {
        /// The number, counted from 0.
        number: usize,
        /// The sets that there are.
        sets: usize,
    },

    /// A folder has no state that the trainer can continue.
    #[error("the state in {} cannot be loaded: {problem}", folder.display())]
    LoadState {
        /// The folder.
        folder: PathBuf,
        /// The contradiction.
        problem: String,
    },

    /// The state of a trainer cannot be written to a folder.
    #[error("the state cannot be saved in {}: {problem}", folder.display())]
    SaveState {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        problem: String,
    },

    /// A setting of the step that [`Trainer`](crate::Trainer) has no values for.
    #[error("the trainer has no values for {setting}")]
    Unsupported {
        /// The field of the config.
        setting: &'static str,
    },

    /// Groups of parameters were given beside an optimizer of the caller's.
    #[error("{groups} groups of parameters beside an own optimizer, which updates all parameters")]
    GroupsBesideOwn {
        /// The number of groups.
        groups: usize,
    },

    /// A pass of generation was recorded before its cache was declared.
    #[error("no cache of keys and values was declared")]
    NoCache,

    /// The slots of a checkpoint are not those of the optimizer.
    #[error("the slots in {} do not fit the optimizer: {problem}", folder.display())]
    OtherSlots {
        /// The checkpoint.
        folder: PathBuf,
        /// The slot that differs.
        problem: String,
    },

    /// The host starts no thread.
    #[error("start a thread: {0}")]
    Thread(std::io::Error),

    /// A defect, with the message of the panic.
    #[error("a thread of the trainer panicked: {0}")]
    Panicked(String),

    /// The error of an observer, or of work that was to be done when all programs are compiled.
    #[error("{0}")]
    Observer(Box<dyn StdError + Send + Sync>),
}

/// The division of parameters among cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Each of the cores that share a layer has a part of its parameters.
    Tensor {
        /// The cores of the `tensor` axis.
        cores: usize,
    },
    /// Each core of the `data` axis has a shard.
    Shards(Fsdp),
}

impl std::fmt::Display for Division {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Division::Tensor { cores } => write!(formatter, "{cores} cores would have parts"),
            Division::Shards(fsdp) => write!(formatter, "each core would have a shard ({fsdp})"),
        }
    }
}

impl Error {
    /// Wraps the error of an observer.
    pub fn of_observer(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::Observer(error.into())
    }
}

impl From<PjrtError> for Error {
    fn from(error: PjrtError) -> Error {
        Error::Device(XlaError::Pjrt(error))
    }
}
