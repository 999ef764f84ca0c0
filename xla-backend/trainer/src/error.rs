//! The error of the trainer.

use std::error::Error as StdError;
use std::path::PathBuf;

use traind_models::Error as ModelError;
use traind_pjrt::Error as PjrtError;
use traind_xla::{DType, Error as XlaError};

use crate::state::Fsdp;

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
    TooManyParts { layers: usize, stages: usize, interleave: usize },

    /// The optimizer reads whole parameters, which cores would have in parts.
    #[error("{optimizer} reads whole parameters, and {division}")]
    WholeParameters { optimizer: String, division: Division },

    /// The plugin has lost devices, or has fewer than the mesh.
    #[error("the plugin has too few devices for the job: {found} of {cores}")]
    MissingDevices { found: usize, cores: usize },

    /// Random numbers would differ from those of other platforms.
    #[error("{platform} computes 32-bit integers inexactly, on which random numbers depend")]
    InexactIntegers { platform: String },

    /// The plugin reads older programs alone.
    #[error(
        "has a plugin that reads StableHLO up to {}.{}.{}, and programs are of 1.0.0: install a newer plugin",
        newest[0], newest[1], newest[2]
    )]
    OldStablehlo { platform: String, newest: [i64; 3] },

    /// Work was given up, since its caller has to stop.
    #[error("given up, since the run has to stop")]
    Abandoned,

    /// A batch has no array for an input of the model.
    #[error("the model needs the input {name} ({dtype}), and the data have none")]
    NoSuchInput { name: String, dtype: DType },

    /// A pass of generation was recorded before its cache was declared.
    #[error("no cache of keys and values was declared")]
    NoCache,

    /// The slots of a checkpoint are not those of the optimizer.
    #[error("the slots in {} do not fit the optimizer: {problem}", folder.display())]
    OtherSlots { folder: PathBuf, problem: String },

    #[error("start a thread: {0}")]
    Thread(std::io::Error),

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
    Tensor { cores: usize },
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
