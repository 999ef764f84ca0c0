//! Values of cores as bytes in host memory, in which another host takes them over.

use traind_pjrt::Buffer;

use super::HostArray;
use super::cores::{LocalCores, check_count};
use crate::error::Result;
use crate::graph::Shape;

/// The bytes of values `[value][local core]`, one after the other. Waits until they are computed.
pub fn pack(values: &[impl AsRef<[Buffer]>]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    for buffer in values.iter().flat_map(AsRef::as_ref) {
        packed.append(&mut buffer.to_bytes()?);
    }
    Ok(packed)
}

impl LocalCores {
    /// The bytes of values with these shapes, each on every core.
    pub fn packed_bytes<'a>(&self, shapes: impl IntoIterator<Item = &'a Shape>) -> usize {
        shapes.into_iter().map(Shape::size_bytes).sum::<usize>() * self.len()
    }

    /// Copies to the cores the values that [`pack`] has taken from as many cores of another host:
    /// `[value][local core]`.
    pub fn unpack(&self, shapes: &[&Shape], packed: &[u8]) -> Result<Vec<Vec<Buffer>>> {
        let expected = self.packed_bytes(shapes.iter().copied());
        check_count("bytes of values of another host", expected, packed.len())?;
        let mut rest = packed;
        let mut upload = |core: usize, shape: &Shape| {
            let (bytes, behind) = rest.split_at(shape.size_bytes());
            rest = behind;
            self.upload(core, &HostArray::from_bytes(shape.clone(), bytes.to_vec())?)
        };
        let value = |shape: &&Shape| (0..self.len()).map(|core| upload(core, shape)).collect();
        shapes.iter().map(value).collect()
    }
}
