//! Calls of a library that the platform's plugin brings.

use crate::graph::Shape;

/// A call, as lowering writes it. Operands are row-major. Behind its results it has a workspace, which the plugin
/// sizes.
#[derive(Debug)]
pub(crate) struct LibraryCall {
    pub(crate) target: &'static str,
    /// The configuration of the library's computation, as JSON.
    pub(crate) config: String,
    /// The shapes of results, and the axes of each from the one that varies fastest.
    pub(crate) results: Vec<(Shape, Vec<usize>)>,
    /// The floating-point operations of its products.
    pub(crate) flops: f64,
}

impl LibraryCall {
    pub(crate) fn new(target: &'static str, config: String) -> LibraryCall {
        LibraryCall { target, config, results: Vec::new(), flops: 0.0 }
    }

    pub(crate) fn with_flops(self, flops: f64) -> LibraryCall {
        LibraryCall { flops, ..self }
    }

    /// One result more, whose axes in memory are `minor_to_major`.
    pub(crate) fn with_result(mut self, shape: Shape, minor_to_major: &[usize]) -> LibraryCall {
        self.results.push((shape, minor_to_major.to_vec()));
        self
    }
}
