//! One error for the crate. Every variant names the operation, the shapes or
//! the file that it is about.

use std::path::PathBuf;

use crate::dtype::DType;
use crate::shape::Shape;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to record, lower, compile or run a program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation was given inputs that its shape rule refuses.
    #[error("{op}: {problem} (inputs: {})", list(.inputs))]
    Shape {
        /// The operation.
        op: String,
        /// The rule that its inputs break.
        problem: String,
        /// The shapes of its inputs.
        inputs: Vec<Shape>,
    },

    /// An operation without a gradient lies between the loss and a parameter.
    #[error("{op} has no gradient, and a differentiated value depends on it")]
    NotDifferentiable {
        /// The operation.
        op: String,
    },

    /// A gradient was asked of something other than a floating-point scalar.
    #[error("a gradient is taken of a floating-point scalar, not of {shape}")]
    NotAScalarLoss {
        /// The shape of the value.
        shape: Shape,
    },

    /// Tensors of two different traces met in one operation.
    #[error("{op}: the operands belong to different traces")]
    ForeignTensor {
        /// The operation.
        op: String,
    },

    /// The verifier found a malformed graph: a bug in a pass, never in user input.
    #[error("the graph is malformed at node %{node} ({op}): {problem}")]
    Malformed {
        /// The number of the node.
        node: u32,
        /// Its operation.
        op: String,
        /// The fault.
        problem: String,
    },

    /// A mesh that the cores of the job cannot form.
    #[error("mesh {axes}: {problem}")]
    Mesh {
        /// The sizes of the axes.
        axes: String,
        /// The contradiction.
        problem: String,
    },

    /// A placement that is neither a strategy nor an order of the axes.
    #[error(
        "placement {placement:?}: expected cluster, spread, or the letters D, P and T in some order"
    )]
    Placement {
        /// The text that was given.
        placement: String,
    },

    /// Values for a variable or an input do not have its shape or dtype.
    #[error("{name}: expected {expected}, got {got}")]
    Value {
        /// The variable or the input.
        name: String,
        /// The shape that it has.
        expected: Shape,
        /// The shape of the values.
        got: String,
    },

    /// A host buffer was read as another element type than it holds.
    #[error("{name}: holds {holds}, read as {read_as}")]
    WrongDType {
        /// The buffer.
        name: String,
        /// The type of its elements.
        holds: DType,
        /// The type that was asked for.
        read_as: DType,
    },

    /// A step was asked for the wrong number of inputs or cores.
    #[error("{what}: expected {expected}, got {got}")]
    Count {
        /// The things that were counted.
        what: String,
        /// The number that is needed.
        expected: usize,
        /// The number that was given.
        got: usize,
    },

    /// A core was asked for that another process drives.
    #[error("replica {replica} runs in another process")]
    NotLocal {
        /// The number of the core in the job.
        replica: usize,
    },

    /// A variable was read before it was set.
    #[error("{variable} has no value")]
    NoValue {
        /// The variable's name.
        variable: String,
    },

    /// A step was run that was not prepared before.
    #[error("step {key} was not prepared")]
    NotPrepared {
        /// The key of the step.
        key: String,
    },

    /// A result was asked for that the step does not fetch.
    #[error("the step does not fetch {name}")]
    NotFetched {
        /// The name of the result.
        name: String,
    },

    /// A cache folder could not be written or read.
    #[error("{action} {}", path.display())]
    Io {
        /// The action, such as `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },

    /// Programs for a platform cannot reduce across hosts by MPI.
    #[error(
        "jobs of platform {platform} cannot have several hosts: the plugin's programs cannot call MPI"
    )]
    NoHosts {
        /// The platform.
        platform: String,
    },

    /// Another host of the job cannot be reached.
    #[error(transparent)]
    Mpi(#[from] traind_mpi::Error),

    /// The plugin reports an error.
    #[error(transparent)]
    Pjrt(#[from] traind_pjrt::Error),
}

fn list(shapes: &[Shape]) -> String {
    shapes.iter().map(Shape::to_string).collect::<Vec<_>>().join(", ")
}
