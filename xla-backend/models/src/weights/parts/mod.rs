//! Parts of arrays: what one host holds of a model that several hosts share, and the files in which each host
//! writes its parts. Readers find whole arrays in them, whatever the number of hosts that wrote them.

mod files;
mod stored;

use std::collections::BTreeMap;
use std::ops::Range;

use traind_xla::Shape;
use traind_xla::runtime::HostArray;

use crate::error::{Error, Result};

pub use files::{PartFiles, part_file, save_parts};
pub use stored::StoredArrays;

/// Parts by the names of their arrays.
pub type ArrayParts = BTreeMap<String, ArrayPart>;

/// Elements of an array, which is flattened in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayPart {
    /// The shape of the whole array.
    shape: Shape,
    /// Ascending, with elements between them that the part does not have.
    ranges: Vec<Range<usize>>,
    /// The elements of all ranges, one range behind the other.
    bytes: Vec<u8>,
}

impl From<HostArray> for ArrayPart {
    fn from(array: HostArray) -> ArrayPart {
        let shape = array.shape().clone();
        let ranges = union(std::iter::once(0..shape.element_count()));
        ArrayPart { shape, ranges, bytes: array.into_bytes() }
    }
}

impl ArrayPart {
    /// Zeros for the elements in `ranges` of an array of `shape`.
    pub fn zeros(shape: Shape, ranges: impl IntoIterator<Item = Range<usize>>) -> ArrayPart {
        let ranges = union(ranges);
        let elements = ranges.iter().map(ExactSizeIterator::len).sum::<usize>();
        let bytes = vec![0; elements * shape.dtype.size_bytes()];
        ArrayPart { shape, ranges, bytes }
    }

    /// The shape of the whole array.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the elements that the part has, ascending and apart from each other.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The elements of all ranges, one range behind the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same elements with other values of the same type.
    pub fn with_bytes(&self, bytes: Vec<u8>) -> Result<ArrayPart> {
        match bytes.len() == self.bytes.len() {
            true => Ok(ArrayPart { bytes, ..self.clone_without_bytes() }),
            false => Err(self.not_held(0..bytes.len() / self.shape.dtype.size_bytes())),
        }
    }

    /// The array, where the part is all of it.
    pub fn into_array(self) -> Result<HostArray> {
        let all = 0..self.shape.element_count();
        match self.bytes.len() == self.shape.size_bytes() {
            true => Ok(HostArray::from_bytes(self.shape, self.bytes)?),
            false => Err(self.not_held(all)),
        }
    }

    /// The bytes of some elements, all of which the part has.
    pub fn elements(&self, range: Range<usize>) -> Result<&[u8]> {
        let place = self.place(&range)?;
        Ok(&self.bytes[place])
    }

    /// Returns the bytes of some elements, all of which the part has, to be changed.
    pub fn elements_mut(&mut self, range: Range<usize>) -> Result<&mut [u8]> {
        let place = self.place(&range)?;
        Ok(&mut self.bytes[place])
    }

    /// The place of some elements among the bytes.
    fn place(&self, range: &Range<usize>) -> Result<Range<usize>> {
        if range.is_empty() {
            return Ok(0..0);
        }
        let mut before = 0;
        for held in &self.ranges {
            if held.start <= range.start && range.end <= held.end {
                let size = self.shape.dtype.size_bytes();
                let start = (before + range.start - held.start) * size;
                return Ok(start..start + range.len() * size);
            }
            before += held.len();
        }
        Err(self.not_held(range.clone()))
    }

    fn clone_without_bytes(&self) -> ArrayPart {
        let (shape, ranges) = (self.shape.clone(), self.ranges.clone());
        ArrayPart { shape, ranges, bytes: Vec::new() }
    }

    fn not_held(&self, elements: Range<usize>) -> Error {
        Error::NotHeld { shape: self.shape.clone(), elements, held: self.ranges.clone() }
    }
}

/// The ranges that cover the same elements, ascending and apart from each other.
fn union(ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut sorted: Vec<Range<usize>> = ranges.into_iter().filter(|it| !it.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut union: Vec<Range<usize>> = Vec::new();
    for range in sorted {
        match union.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => union.push(range),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use traind_xla::DType;

    use super::*;

    #[test]
    fn ranges_that_touch_or_overlap_are_one() {
        let check = |ranges: &[Range<usize>], expect: &[Range<usize>]| {
            assert_eq!(union(ranges.iter().cloned()), expect);
        };
        check(&[4..6, 0..2, 2..3], &[0..3, 4..6]);
        check(&[0..5, 1..3, 5..5], std::slice::from_ref(&(0..5)));
        check(std::slice::from_ref(&(2..2)), &[]);
    }

    #[test]
    fn a_part_has_its_elements_alone() {
        let shape = Shape::new(DType::F32, [2, 5]);
        let mut part = ArrayPart::zeros(shape.clone(), [7..9, 1..3, 3..4]);
        assert_eq!(part.ranges(), [1..4, 7..9]);
        part.elements_mut(8..9).unwrap().copy_from_slice(&1.5_f32.to_le_bytes());
        assert_eq!(part.bytes()[16..], 1.5_f32.to_le_bytes());
        assert_eq!(part.elements(1..4).unwrap(), [0; 12]);
        for elements in [0..2, 3..5, 8..10] {
            let error = part.elements(elements).unwrap_err().to_string();
            assert!(error.contains("[1..4, 7..9]"), "{error}");
        }
        assert!(part.into_array().is_err());
        let array = HostArray::zeros(shape);
        assert_eq!(ArrayPart::from(array.clone()).into_array().unwrap(), array);
        let empty = HostArray::zeros(Shape::new(DType::F32, [0]));
        assert_eq!(ArrayPart::from(empty.clone()).into_array().unwrap(), empty);
    }
}
