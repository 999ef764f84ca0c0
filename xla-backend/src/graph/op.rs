//! The interface between a graph and its operations: all that a graph and its analyses know of an operation. Its
//! lowering is a [`Lower`](crate::stablehlo::Lower), its gradient rule an [`Operation`](crate::tensor::Operation).

use std::fmt;
use std::sync::Arc;

use crate::kernels::Kernels;
use crate::shape::Shape;

/// An operation as a graph holds it: its name, its shape rule and its use of memory and cores. `Debug` prints its name
/// and its attributes, and two operations that print alike are alike.
pub trait Op: fmt::Debug + Send + Sync + 'static {
    /// The name in messages: StableHLO's where the operation is one of its own.
    fn name(&self) -> &'static str;

    /// The shape of the result, or what is wrong with the inputs.
    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem>;

    /// The storage of the result, for a plan of memory.
    fn storage(&self) -> ResultStorage;

    /// Returns whether its operands have to be in memory: no other operation is fused into it, as into no collective.
    fn reads_memory(&self) -> bool {
        self.participants().is_some()
    }

    /// Returns whether an intermediate value of the result's shape, expensive to compute, stays in
    /// memory until the gradient has read it too. `kernels`: those that the program may call.
    fn keeps_intermediate(&self, inputs: &[Shape], kernels: Kernels) -> bool {
        let _ = (inputs, kernels);
        false
    }

    /// The bytes that the operation takes while it runs, besides operands and results. `kernels`: those
    /// that the program may call.
    fn workspace(&self, inputs: &[Shape], kernels: Kernels) -> usize {
        let _ = (inputs, kernels);
        0
    }

    /// The replicas that take part, for a collective.
    fn participants(&self) -> Option<Participants> {
        None
    }

    /// The bytes that each replica contributes to a collective, and the bytes that it gets.
    fn exchanged_bytes(&self, inputs: &[Shape], result: &Shape) -> [usize; 2] {
        [inputs.first().map_or(0, Shape::size_bytes), result.size_bytes()]
    }

    /// Whether all elements of the result are zero.
    fn is_zero(&self) -> bool {
        false
    }

    /// The argument number, for a program parameter.
    fn parameter_index(&self) -> Option<usize> {
        None
    }
}

/// The storage of an operation's result, as a plan of memory assumes it before a compiler
/// has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultStorage {
    /// None: the operations that read it compute it, or it is in memory already.
    Fused,
    /// Memory of its own.
    Written,
    /// The memory of its first operand, which nothing else reads later. Memory of its own if that operand has none.
    InPlace,
    /// Memory of its own, from the time at which its operand is computed.
    WrittenWithOperand,
    /// The memory of its first operand, under another shape.
    View,
}

/// The replicas that exchange data in a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Participants {
    /// Groups of equal size, each of which exchanges among itself.
    Groups(Arc<[Vec<usize>]>),
    /// Pairs of source and target.
    Pairs(Arc<[(usize, usize)]>),
    /// Each replica with the same one of so many hosts.
    Hosts(usize),
}

impl Participants {
    /// The number of replicas that exchange data with each other.
    pub fn group_size(&self) -> usize {
        match self {
            Participants::Groups(groups) => groups.first().map_or(0, Vec::len),
            Participants::Pairs(_) => 2,
            Participants::Hosts(hosts) => *hosts,
        }
    }

    /// The number of groups, or of pairs, among the `replicas` of a host.
    pub fn group_count(&self, replicas: usize) -> usize {
        match self {
            Participants::Groups(groups) => groups.len(),
            Participants::Pairs(pairs) => pairs.len(),
            Participants::Hosts(_) => replicas,
        }
    }

    /// The replicas of the first group, or of the first pair, on this host.
    pub fn first(&self) -> Vec<usize> {
        match self {
            Participants::Groups(groups) => groups.first().cloned().unwrap_or_default(),
            Participants::Pairs(pairs) => {
                pairs.first().map_or_else(Vec::new, |&(source, target)| vec![source, target])
            }
            Participants::Hosts(_) => vec![0],
        }
    }
}

/// Why a shape rule refuses its inputs; the graph adds operation and shapes.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl<T: Into<String>> From<T> for Problem {
    fn from(text: T) -> Problem {
        Problem(text.into())
    }
}
