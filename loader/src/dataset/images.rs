//! The encoded images of a set on disk: their bytes end to end, and the end of each.

use std::path::Path;

use super::array::{Array, ArrayWriter, Seal};
use crate::error::Result;

pub(super) const IMAGES: &str = "images.u8";
pub(super) const IMAGE_ENDS: &str = "image_ends.u64";

/// The images of a set, one for each token.
#[derive(Clone, Debug)]
pub(super) struct Images {
    pub(super) bytes: Array<u8>,
    pub(super) ends: Array<u64>,
}

impl Images {
    /// The number of images.
    pub(super) fn len(&self) -> u64 {
        self.ends.len()
    }

    /// The encoded image number `image`.
    pub(super) fn read(&self, image: u64) -> Result<Vec<u8>> {
        let start = match image.checked_sub(1) {
            Some(before) => self.ends.read(before..image)?[0],
            None => 0,
        };
        let end = self.ends.read(image..image + 1)?[0].min(self.bytes.len());
        self.bytes.read(start.min(end)..end)
    }
}

/// Writes the images of a set.
pub(super) struct ImagesWriter {
    bytes: ArrayWriter<u8>,
    ends: ArrayWriter<u64>,
}

impl ImagesWriter {
    pub(super) fn create(folder: &Path) -> Result<Self> {
        Ok(Self {
            bytes: ArrayWriter::create(folder, IMAGES)?,
            ends: ArrayWriter::create(folder, IMAGE_ENDS)?,
        })
    }

    /// The size of the images so far, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.bytes() + self.ends.bytes()
    }

    pub(super) fn push(&mut self, image: &[u8]) -> Result<()> {
        self.bytes.extend(image)?;
        self.ends.extend(&[self.bytes.len()])
    }

    pub(super) fn finish(self) -> Result<(Images, [Seal; 2])> {
        let (bytes, of_bytes) = self.bytes.finish()?;
        let (ends, of_ends) = self.ends.finish()?;
        Ok((Images { bytes, ends }, [of_bytes, of_ends]))
    }
}
