//! Values of a program.

use crate::shape::Shape;

/// An SSA value of the module being written.
#[derive(Clone, Debug)]
pub struct Value {
    name: String,
    /// The shape of the value.
    pub shape: Shape,
    /// The other results of the same operation.
    parts: Vec<Value>,
}

impl Value {
    /// Refers to a value by its name in the program, which begins with `%`.
    pub fn named(name: String, shape: Shape) -> Value {
        Value { name, shape, parts: Vec::new() }
    }

    /// The first of several results, which gives access to the others.
    pub(crate) fn with_parts(mut results: Vec<Value>) -> Value {
        let first = results.remove(0);
        Value { parts: results, ..first }
    }

    /// Result `index` of the operation whose first one, number 0, this is.
    pub(crate) fn part(&self, index: usize) -> Value {
        match index {
            0 => self.clone(),
            index => self.parts[index - 1].clone(),
        }
    }

    /// The name as the text refers to it, such as `%7`.
    pub fn name(&self) -> &str {
        &self.name
    }
}
