//! The name of a value on the cores.

use crate::graph::Shape;

/// A value that stays on the cores from step to step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variable(u32);

impl Variable {
    pub(super) fn new(index: usize) -> Variable {
        Variable(index as u32)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The name of a variable, and its shape on each core.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub name: String,
    pub shape: Shape,
}
