//! Arrays of a folder by name, in one file or in the parts of several hosts, read one at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape};

use super::{ArrayPart, PartFiles};
use crate::error::{Error, Result};
use crate::weights::SafetensorsFile;

/// Floating-point arrays, read as float32.
#[derive(Debug)]
pub enum StoredArrays {
    /// One file with whole arrays.
    File(SafetensorsFile),
    /// The files of all hosts, which have parts of them.
    Parts(PartFiles),
    /// Arrays that were read.
    Memory(BTreeMap<String, HostArray>),
}

impl StoredArrays {
    /// Opens `stem.safetensors` in a folder, or the parts of `stem` that hosts wrote.
    pub fn open(folder: &Path, stem: &str) -> Result<StoredArrays> {
        match PartFiles::open(folder, stem)? {
            Some(parts) => Ok(StoredArrays::Parts(parts)),
            None => {
                let file = SafetensorsFile::open(&folder.join(format!("{stem}.safetensors")))?;
                Ok(StoredArrays::File(file))
            }
        }
    }

    /// Reads all arrays, so that none can fail to be read later.
    pub fn into_memory(self) -> Result<StoredArrays> {
        let arrays = self.names().into_iter().map(|name| Ok((name.clone(), self.array(&name)?)));
        Ok(StoredArrays::Memory(arrays.collect::<Result<_>>()?))
    }

    /// The names of all arrays.
    pub fn names(&self) -> Vec<String> {
        match self {
            StoredArrays::Parts(parts) => parts.names().map(str::to_owned).collect(),
            StoredArrays::File(file) => file.names(),
            StoredArrays::Memory(arrays) => arrays.keys().cloned().collect(),
        }
    }

    /// The shape of an array, if there is one of this name.
    pub fn shape(&self, name: &str) -> Option<Shape> {
        match self {
            StoredArrays::Memory(arrays) => arrays.get(name).map(|array| array.shape().clone()),
            StoredArrays::Parts(parts) => parts.shape(name).cloned(),
            StoredArrays::File(file) => {
                file.shape(name).ok().map(|dims| Shape::new(DType::F32, dims))
            }
        }
    }

    /// Reads at least the elements in `ranges` of an array: one file has it as a whole.
    pub fn read(&self, name: &str, ranges: &[Range<usize>]) -> Result<ArrayPart> {
        match self {
            StoredArrays::Parts(parts) => parts.read(name, ranges),
            StoredArrays::File(_) | StoredArrays::Memory(_) => {
                self.array(name).map(ArrayPart::from)
            }
        }
    }

    /// Reads a whole array.
    pub fn array(&self, name: &str) -> Result<HostArray> {
        match self {
            StoredArrays::Parts(parts) => parts.array(name),
            StoredArrays::File(file) => file.read_f32(name),
            StoredArrays::Memory(arrays) => {
                let missing = || Error::MissingWeight { name: name.to_owned() };
                arrays.get(name).cloned().ok_or_else(missing)
            }
        }
    }
}
