//! A choice's own settings.

use crate::range::Range;

/// A number that a choice reads by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// The name, which is PyTorch's or transformers'.
    pub name: &'static str,
    /// The numbers that it may be.
    pub range: Range,
    /// The number where none is given.
    pub default: f64,
}

/// A setting's name with the numbers that it may be.
pub(crate) type Named = (&'static str, Range);
