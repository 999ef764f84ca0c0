//! Pixels of an image in memory.

/// The channels of every pixel: red, green and blue.
pub(crate) const CHANNELS: usize = 3;

/// An image, row by row from the top, each pixel as red, green and blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: Vec<u8>,
}

/// A part of an image; it may reach beyond the image's edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) left: isize,
    pub(crate) top: isize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Pixels {
    /// A black image.
    pub(crate) fn black(width: usize, height: usize) -> Self {
        Self { width, height, values: vec![0; width * height * CHANNELS] }
    }

    /// The values of row `y`.
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        let bytes = self.width * CHANNELS;
        &self.values[y * bytes..(y + 1) * bytes]
    }

    /// The pixels of a region, black beyond the image's edges.
    pub(crate) fn crop(&self, region: Region) -> Self {
        let mut cut = Self::black(region.width, region.height);
        let columns = overlap(region.left, region.width, self.width);
        let rows = overlap(region.top, region.height, self.height);
        let bytes = region.width * CHANNELS;
        for y in rows.clone() {
            let from = (region.top + y as isize) as usize;
            let first = (region.left + columns.start as isize) as usize;
            let source = &self.row(from)[first * CHANNELS..(first + columns.len()) * CHANNELS];
            let start = y * bytes + columns.start * CHANNELS;
            cut.values[start..start + source.len()].copy_from_slice(source);
        }
        cut
    }

    /// The image mirrored from left to right.
    pub(crate) fn mirrored(&self) -> Self {
        let mut mirrored = Self::black(self.width, self.height);
        let rows = mirrored.values.chunks_mut((self.width * CHANNELS).max(1));
        for (y, row) in rows.enumerate() {
            let pixels = self.row(y).chunks(CHANNELS).rev();
            row.chunks_mut(CHANNELS).zip(pixels).for_each(|(to, from)| to.copy_from_slice(from));
        }
        mirrored
    }
}

/// The places of a run of `length` from `first` on that lie in `0..size`.
fn overlap(first: isize, length: usize, size: usize) -> std::ops::Range<usize> {
    let start = (-first).clamp(0, length as isize);
    let end = (size as isize - first).clamp(start, length as isize);
    start as usize..end as usize
}
