//! One error for the crate. Every variant names the operation, the shapes or
//! the file that it is about.

use std::path::PathBuf;

use crate::dtype::DType;
use crate::shape::Shape;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation was given inputs that its shape rule refuses.
    #[error("{op}: {problem} (inputs: {})", list(.inputs))]
    Shape { op: String, problem: String, inputs: Vec<Shape> },

    /// An operation without a gradient lies between the loss and a parameter.
    #[error("{op} has no gradient, and a differentiated value depends on it")]
    NotDifferentiable { op: String },

    /// A gradient was asked of something other than a floating-point scalar.
    #[error("a gradient is taken of a floating-point scalar, not of {shape}")]
    NotAScalarLoss { shape: Shape },

    /// Tensors of two different traces met in one operation.
    #[error("{op}: the operands belong to different traces")]
    ForeignTensor { op: String },

    /// The verifier found a malformed graph: a bug in a pass, never in user input.
    #[error("the graph is malformed at node %{node} ({op}): {problem}")]
    Malformed { node: u32, op: String, problem: String },

    /// A mesh that the cores of the job cannot form.
    #[error("mesh {axes}: {problem}")]
    Mesh { axes: String, problem: String },

    /// A placement that is neither a strategy nor an order of the axes.
    #[error(
        "placement {placement:?}: expected cluster, spread, or the letters D, P and T in some order"
    )]
    Placement { placement: String },

    /// Values for a variable or an input do not have its shape or dtype.
    #[error("{name}: expected {expected}, got {got}")]
    Value { name: String, expected: Shape, got: String },

    /// A host buffer was read as another element type than it holds.
    #[error("{name}: holds {holds}, read as {read_as}")]
    WrongDType { name: String, holds: DType, read_as: DType },

    /// A step was asked for the wrong number of inputs or cores.
    #[error("{what}: expected {expected}, got {got}")]
    Count { what: String, expected: usize, got: usize },

    /// A core was asked for that another process drives.
    #[error("replica {replica} runs in another process")]
    NotLocal { replica: usize },

    /// A variable was read before it was set.
    #[error("{variable} has no value")]
    NoValue { variable: String },

    /// A step was run that was not prepared before.
    #[error("step {key} was not prepared")]
    NotPrepared { key: String },

    /// A result was asked for that the step does not fetch.
    #[error("the step does not fetch {name}")]
    NotFetched { name: String },

    /// A cache folder could not be written or read.
    #[error("{action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    /// Programs for a platform cannot reduce across hosts by MPI.
    #[error(
        "jobs of platform {platform} cannot have several hosts: the plugin's programs cannot call MPI"
    )]
    NoHosts { platform: String },

    #[error(transparent)]
    Mpi(#[from] traind_mpi::Error),

    #[error(transparent)]
    Pjrt(#[from] traind_pjrt::Error),
}

fn list(shapes: &[Shape]) -> String {
    shapes.iter().map(Shape::to_string).collect::<Vec<_>>().join(", ")
}
