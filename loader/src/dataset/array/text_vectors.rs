//! The vectors that another model has of the texts of a set, in a file: they are read row by row, so that memory does
//! not grow with the texts.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Array, Seal};
use crate::error::{Error, Result};

/// The file of the vectors, and that which seals them.
const VECTORS: &str = "vectors.f32";
const MANIFEST: &str = "vectors.json";

/// The vectors of all texts of a set, in the order of its rows.
#[derive(Clone, Debug)]
pub struct TextVectors {
    array: Array<f32>,
    sizes: VectorSizes,
}

/// The number of vectors, and of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorSizes {
    /// The rows of the set.
    pub rows: usize,
    /// The texts of a row.
    pub texts: usize,
    /// The numbers of a vector.
    pub width: usize,
}

/// Writes the vectors of rows that come in any order.
#[derive(Debug)]
pub struct TextVectorsWriter {
    folder: PathBuf,
    file: File,
    sizes: VectorSizes,
}

/// A description of the vectors in a folder.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    /// A description of the texts and of the model, which distinguishes them from vectors of others.
    identity: String,
    sizes: VectorSizes,
    seal: Seal,
}

impl VectorSizes {
    /// The numbers of a row.
    fn row(&self) -> usize {
        self.texts * self.width
    }
}

impl TextVectors {
    /// Opens the vectors in `folder`. None where there are none of `identity` and `sizes`, or where they are damaged.
    pub fn open(folder: &Path, identity: &str, sizes: VectorSizes) -> Option<Self> {
        let manifest: Manifest =
            serde_json::from_slice(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
        if manifest.identity != identity || manifest.sizes != sizes {
            return None;
        }
        let array = Array::open(folder, &manifest.seal).ok()?;
        (array.len() == (sizes.rows * sizes.row()) as u64).then_some(Self { array, sizes })
    }

    /// The numbers of a vector.
    pub fn width(&self) -> usize {
        self.sizes.width
    }

    /// The vector of a text.
    pub(crate) fn of_text(&self, row: usize, text: usize) -> Result<Vec<f32>> {
        let start = (row * self.sizes.row() + text * self.sizes.width) as u64;
        self.array.read(start..start + self.sizes.width as u64)
    }
}

impl TextVectorsWriter {
    /// Begins a file in a folder, which is made where it is missing, in place of an earlier one. Vectors are zeros
    /// until they are put.
    pub fn create(folder: &Path, sizes: VectorSizes) -> Result<Self> {
        let path = folder.join(VECTORS);
        let open = || {
            fs::create_dir_all(folder)?;
            // Nothing takes a file that is not complete for one that is.
            match fs::remove_file(folder.join(MANIFEST)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = File::create(&path)?;
            file.set_len((sizes.rows * sizes.row() * size_of::<f32>()) as u64)?;
            Ok(file)
        };
        let file = open().map_err(Error::store(folder))?;
        Ok(Self { folder: folder.to_owned(), file, sizes })
    }

    /// Puts the vectors of a row, one text behind the other.
    pub fn put(&self, row: usize, vectors: &[f32]) -> Result<()> {
        let (expected, found) = (self.sizes.row(), vectors.len());
        if row >= self.sizes.rows || found != expected {
            let problem = format!("{found} numbers for row {row}, and rows have {expected}");
            let source = std::io::Error::other(problem);
            return Err(Error::store(&self.folder)(source));
        }
        let offset = (row * expected * size_of::<f32>()) as u64;
        let written = self.file.write_all_at(bytemuck::cast_slice(vectors), offset);
        written.map_err(Error::store(&self.folder))
    }

    /// Syncs and seals the vectors of all rows.
    pub fn finish(self, identity: &str) -> Result<TextVectors> {
        let (folder, sizes) = (&self.folder, self.sizes);
        self.file.sync_all().map_err(Error::store(folder))?;
        let seal = Seal::of_file(folder, VECTORS).map_err(Error::store(folder))?;
        let manifest = Manifest { identity: identity.to_owned(), sizes, seal };
        let json = serde_json::to_vec(&manifest)
            .map_err(|error| Error::store(folder)(std::io::Error::other(error)))?;
        traind_durable::replace(&folder.join(MANIFEST), &json).map_err(Error::store(folder))?;
        let lost = || Error::store(folder)(std::io::Error::other("the vectors changed meanwhile"));
        TextVectors::open(folder, identity, sizes).ok_or_else(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: VectorSizes = VectorSizes { rows: 3, texts: 2, width: 2 };

    #[test]
    fn vectors_come_back_in_any_order_and_only_as_those_of_their_model_and_texts() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("guide");
        let writer = TextVectorsWriter::create(&folder, SIZES).unwrap();
        writer.put(2, &[5.0, 6.0, 7.0, 8.0]).unwrap();
        writer.put(0, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!(TextVectors::open(&folder, "a", SIZES).is_none());
        let vectors = writer.finish("a").unwrap();
        for vectors in [vectors, TextVectors::open(&folder, "a", SIZES).unwrap()] {
            assert_eq!(vectors.width(), 2);
            assert_eq!(vectors.of_text(0, 1).unwrap(), [3.0, 4.0]);
            assert_eq!(vectors.of_text(1, 0).unwrap(), [0.0, 0.0]);
            assert_eq!(vectors.of_text(2, 0).unwrap(), [5.0, 6.0]);
        }
        assert!(TextVectors::open(&folder, "b", SIZES).is_none());
        assert!(TextVectors::open(&folder, "a", VectorSizes { rows: 4, ..SIZES }).is_none());
        let mut bytes = fs::read(folder.join(VECTORS)).unwrap();
        bytes[3] ^= 1;
        fs::write(folder.join(VECTORS), bytes).unwrap();
        assert!(TextVectors::open(&folder, "a", SIZES).is_none());
    }

    #[test]
    fn vectors_of_another_length_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let writer = TextVectorsWriter::create(folder.path(), SIZES).unwrap();
        let error = writer.put(1, &[1.0]).unwrap_err().to_string();
        assert!(error.contains("1 numbers for row 1, and rows have 4"), "{error}");
        assert!(writer.put(3, &[1.0; 4]).is_err());
    }
}
