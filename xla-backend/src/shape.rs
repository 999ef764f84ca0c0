//! A dtype and its dimensions, always static.

use std::fmt;

use crate::dtype::DType;

/// Dimension sizes, outermost first (row-major).
pub type Dims = Vec<usize>;

/// The element type and the dimensions of a tensor.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions, the outermost first; none for a scalar.
    pub dims: Dims,
}

impl Shape {
    /// Returns the shape of `dims` elements.
    pub fn new(dtype: DType, dims: impl Into<Dims>) -> Shape {
        Shape { dtype, dims: dims.into() }
    }

    /// Returns the shape of one element without dimensions.
    pub fn scalar(dtype: DType) -> Shape {
        Shape::new(dtype, [])
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The product of the dimensions; 1 for a scalar.
    pub fn element_count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Bytes of a dense array.
    pub fn size_bytes(&self) -> usize {
        self.element_count() * self.dtype.size_bytes()
    }

    /// Returns the shape of the same type with other dimensions.
    pub fn with_dims(&self, dims: impl Into<Dims>) -> Shape {
        Shape::new(self.dtype, dims)
    }

    /// Returns the shape of the same dimensions with another type.
    pub fn with_dtype(&self, dtype: DType) -> Shape {
        Shape::new(dtype, self.dims.clone())
    }
}

/// XLA's notation, such as `f32[2,3]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(usize::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(","))
    }
}

/// Writes the same as `Display`, so that operations print short.
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
