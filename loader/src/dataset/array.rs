//! One array of a tokenized set on disk: written from front to back, then read in pieces.
//!
//! Pieces are read, not mapped: a file that shrinks or a disk that fails is then an error, and not
//! the end of the process. The byte order is the host's (little-endian on all supported ones).

mod text_vectors;

use std::fs::File;
use std::io::Write;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
pub use text_vectors::{TextVectors, TextVectorsWriter, VectorSizes};

/// Bytes gathered before they are hashed and written, and read at a time to be checked.
const CHUNK_BYTES: usize = 1 << 20;

/// An array that is complete. Clones share the open file, which need not have a name any more.
#[derive(Clone, Debug)]
pub(super) struct Array<T> {
    file: Arc<File>,
    path: PathBuf,
    len: u64,
    items: PhantomData<T>,
}

/// The length and checksum of an array file, to detect damage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Seal {
    pub(super) name: String,
    bytes: u64,
    blake3: String,
}

impl Seal {
    /// Seals a file that is complete.
    pub(super) fn of_file(folder: &Path, name: &str) -> std::io::Result<Self> {
        let file = File::open(folder.join(name))?;
        let (bytes, mut hasher) = (file.metadata()?.len(), blake3::Hasher::new());
        hasher.update_reader(&file)?;
        let blake3 = hasher.finalize().to_hex().to_string();
        Ok(Self { name: name.to_owned(), bytes, blake3 })
    }
}

/// Why an array file is not the one that was sealed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArrayProblem {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{found} bytes, expected {expected}")]
    Length { found: u64, expected: u64 },
    #[error("the checksum differs")]
    Checksum,
    #[error("missing")]
    Missing,
}

impl<T: Pod> Array<T> {
    /// Opens the array of `seal` in `folder` and reads it once to see that it is sound.
    pub(super) fn open(folder: &Path, seal: &Seal) -> Result<Self, ArrayProblem> {
        let path = folder.join(&seal.name);
        let file = File::open(&path)?;
        let found = file.metadata()?.len();
        if found != seal.bytes || found % size_of::<T>() as u64 != 0 {
            return Err(ArrayProblem::Length { found, expected: seal.bytes });
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&file)?;
        if hasher.finalize().to_hex().as_str() != seal.blake3 {
            return Err(ArrayProblem::Checksum);
        }
        Ok(Self::of_file(file, path, found))
    }

    fn of_file(file: File, path: PathBuf, bytes: u64) -> Self {
        let len = bytes / size_of::<T>() as u64;
        Self { file: Arc::new(file), path, len, items: PhantomData }
    }

    /// How many items.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The items of a range that lies inside.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Vec<T>> {
        let mut items = vec![T::zeroed(); (range.end - range.start) as usize];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut items);
        let read = self.file.read_exact_at(bytes, range.start * size_of::<T>() as u64);
        read.map_err(Error::io(&self.path, "read the tokenized rows in"))?;
        Ok(items)
    }

    /// All items, a bounded number at a time.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Result<Vec<T>>> + '_ {
        let items = (CHUNK_BYTES / size_of::<T>()) as u64;
        (0..self.len)
            .step_by(items as usize)
            .map(move |start| self.read(start..(start + items).min(self.len)))
    }
}

/// An array that is being written.
pub(super) struct ArrayWriter<T> {
    file: File,
    path: PathBuf,
    name: &'static str,
    waiting: Vec<u8>,
    bytes: u64,
    hasher: blake3::Hasher,
    items: PhantomData<T>,
}

impl<T: Pod> ArrayWriter<T> {
    pub(super) fn create(folder: &Path, name: &'static str) -> Result<Self> {
        let path = folder.join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        Ok(Self {
            file: file.map_err(Error::store(folder))?,
            path,
            name,
            waiting: Vec::new(),
            bytes: 0,
            hasher: blake3::Hasher::new(),
            items: PhantomData,
        })
    }

    /// How many bytes there are so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.waiting.len() as u64
    }

    /// How many items there are so far.
    pub(super) fn len(&self) -> u64 {
        self.bytes() / size_of::<T>() as u64
    }

    pub(super) fn extend(&mut self, items: &[T]) -> Result<()> {
        self.waiting.extend_from_slice(bytemuck::cast_slice(items));
        match self.waiting.len() >= CHUNK_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Syncs it and opens it to be read.
    pub(super) fn finish(mut self) -> Result<(Array<T>, Seal)> {
        self.flush()?;
        self.file.sync_all().map_err(Error::store(&self.path))?;
        let blake3 = self.hasher.finalize().to_hex().to_string();
        let seal = Seal { name: self.name.to_owned(), bytes: self.bytes, blake3 };
        Ok((Array::of_file(self.file, self.path, self.bytes), seal))
    }

    fn flush(&mut self) -> Result<()> {
        self.hasher.update(&self.waiting);
        self.file.write_all(&self.waiting).map_err(Error::store(&self.path))?;
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

/// Writes items that are all at hand.
pub(super) fn write_whole<T: Pod>(folder: &Path, name: &'static str, items: &[T]) -> Result<Seal> {
    let mut writer = ArrayWriter::create(folder, name)?;
    items.chunks(CHUNK_BYTES / size_of::<T>()).try_for_each(|chunk| writer.extend(chunk))?;
    Ok(writer.finish()?.1)
}

/// An array of small numbers of which most sets have zeros alone: no file is made before another
/// number comes.
pub(super) struct MostlyZeros {
    folder: PathBuf,
    name: &'static str,
    zeros: u64,
    writer: Option<ArrayWriter<u8>>,
}

impl MostlyZeros {
    pub(super) fn new(folder: &Path, name: &'static str) -> Self {
        Self { folder: folder.to_path_buf(), name, zeros: 0, writer: None }
    }

    pub(super) fn extend(&mut self, items: &[u8]) -> Result<()> {
        if self.writer.is_none() && items.iter().all(|&item| item == 0) {
            self.zeros += items.len() as u64;
            return Ok(());
        }
        if self.writer.is_none() {
            self.writer = Some(self.begun()?);
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.extend(items))
    }

    fn begun(&self) -> Result<ArrayWriter<u8>> {
        let mut writer = ArrayWriter::create(&self.folder, self.name)?;
        let mut left = self.zeros as usize;
        while left > 0 {
            let chunk = left.min(CHUNK_BYTES);
            writer.extend(&vec![0; chunk])?;
            left -= chunk;
        }
        Ok(writer)
    }

    /// How many bytes there are so far.
    pub(super) fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, ArrayWriter::bytes)
    }

    /// None where all are zeros.
    pub(super) fn finish(self) -> Result<Option<(Array<u8>, Seal)>> {
        self.writer.map(ArrayWriter::finish).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_from_any_place() {
        let folder = tempfile::tempdir().unwrap();
        let items: Vec<u32> = (0..700_000).collect();
        let mut writer = ArrayWriter::create(folder.path(), "a").unwrap();
        items.chunks(999).for_each(|chunk| writer.extend(chunk).unwrap());
        let (array, seal) = writer.finish().unwrap();
        assert_eq!(array.len(), 700_000);
        let opened = Array::<u32>::open(folder.path(), &seal).unwrap();
        std::fs::remove_file(folder.path().join("a")).unwrap();
        for array in [array, opened] {
            assert_eq!(array.read(262_140..262_150).unwrap(), items[262_140..262_150]);
            let chunks = array.chunks().collect::<Result<Vec<_>>>().unwrap();
            assert!(chunks.len() > 1 && chunks.concat() == items);
        }
    }

    #[test]
    fn a_file_that_was_cut_is_an_error_when_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = ArrayWriter::<u8>::create(folder.path(), "a").unwrap();
        writer.extend(&[1; 100]).unwrap();
        let (array, _) = writer.finish().unwrap();
        File::options().write(true).open(folder.path().join("a")).unwrap().set_len(50).unwrap();
        assert_eq!(array.read(40..50).unwrap(), [1; 10]);
        let error = array.read(45..55).unwrap_err().to_string();
        assert!(error.contains("cannot read the tokenized rows in"), "{error}");
    }

    #[test]
    fn zeros_make_no_file_until_another_number_comes() {
        let folder = tempfile::tempdir().unwrap();
        let mut zeros = MostlyZeros::new(folder.path(), "a");
        zeros.extend(&[0, 0]).unwrap();
        assert!(!folder.path().join("a").exists());
        zeros.extend(&[0, 1]).unwrap();
        zeros.extend(&[0]).unwrap();
        let (array, _) = zeros.finish().unwrap().unwrap();
        assert_eq!(array.read(0..5).unwrap(), [0, 0, 0, 1, 0]);
        assert!(MostlyZeros::new(folder.path(), "b").finish().unwrap().is_none());
    }
}
