//! One safetensors file. The header is read and checked against the file's
//! size when it is opened; tensors are then read one at a time, so that the
//! file is never in memory as a whole.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape};

use crate::error::{Error, Result};

/// The format's own bound, and the reason a broken length cannot exhaust memory.
const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The length of the header, little-endian.
const LENGTH_BYTES: u64 = 8;

/// A safetensors file whose header was read.
#[derive(Debug)]
pub struct SafetensorsFile {
    path: PathBuf,
    metadata: Metadata,
    data_start: u64,
    /// The beginning of the names of its tensors in the model, which the file lacks.
    prefix: String,
}

impl SafetensorsFile {
    /// Reads the header and checks it against the size of the file.
    pub fn open(path: &Path) -> Result<SafetensorsFile> {
        let mut file = open(path)?;
        let size = file.metadata().map_err(|source| io("read", path, source))?.len();
        let mut length = [0; LENGTH_BYTES as usize];
        read(&mut file, path, &mut length)?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > HEADER_BYTES_MAX || header_bytes + LENGTH_BYTES > size {
            return Err(corrupt(path, format!("a header of {header_bytes} bytes in {size}")));
        }
        let mut header = vec![0; header_bytes as usize];
        read(&mut file, path, &mut header)?;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| corrupt(path, error.to_string()))?;
        let data_start = LENGTH_BYTES + header_bytes;
        let expected = data_start.saturating_add(metadata.data_len() as u64);
        if size != expected {
            return Err(corrupt(path, format!("{size} bytes where its header says {expected}")));
        }
        let prefix = String::new();
        Ok(SafetensorsFile { path: path.to_owned(), metadata, data_start, prefix })
    }

    /// The same file of a module, below whose name its tensors stand in the model.
    pub(super) fn of_module(self, name: &str) -> SafetensorsFile {
        SafetensorsFile { prefix: format!("{name}."), ..self }
    }

    /// Returns the path that the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of all tensors.
    pub fn names(&self) -> Vec<String> {
        let names = self.metadata.offset_keys().into_iter();
        names.map(|name| format!("{}{name}", self.prefix)).collect()
    }

    /// Returns the dimensions of a tensor.
    pub fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.info(name)?.shape)
    }

    /// A floating-point tensor as float32.
    pub fn read_f32(&self, name: &str) -> Result<HostArray> {
        let info = self.info(name)?;
        let bytes = to_f32(info.dtype, self.read_bytes(info)?);
        let bytes = bytes.ok_or_else(|| self.no_float(name, info.dtype))?;
        let shape = Shape::new(DType::F32, info.shape.clone());
        Ok(HostArray::from_bytes(shape, bytes)?)
    }

    /// A text of the header's metadata.
    pub(super) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.metadata().as_ref()?.get(key).map(String::as_str)
    }

    /// The type of a floating-point tensor.
    pub(super) fn dtype(&self, name: &str) -> Result<DType> {
        match self.info(name)?.dtype {
            Dtype::F32 => Ok(DType::F32),
            Dtype::F16 => Ok(DType::F16),
            Dtype::BF16 => Ok(DType::BF16),
            other => Err(self.no_float(name, other)),
        }
    }

    /// Refuses a tensor that cannot be read as float32.
    pub(super) fn check_dtype(&self, name: &str) -> Result<()> {
        let dtype = self.info(name)?.dtype;
        let is_float = matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64);
        if is_float { Ok(()) } else { Err(self.no_float(name, dtype)) }
    }

    /// Reads the elements of a tensor from number `first` on, as many as fill `to`.
    pub(super) fn read_elements(&self, name: &str, first: usize, to: &mut [u8]) -> Result<()> {
        let info = self.info(name)?;
        let (start, end) = info.data_offsets;
        let start = start + first * self.dtype(name)?.size_bytes();
        if start + to.len() > end {
            return Err(corrupt(&self.path, format!("its {name} ends early")));
        }
        self.read_at(start, to)
    }

    fn no_float(&self, name: &str, dtype: Dtype) -> Error {
        let (path, tensor) = (self.path.clone(), name.to_owned());
        Error::WeightDType { path, tensor, dtype: format!("{dtype:?}") }
    }

    fn info(&self, name: &str) -> Result<&TensorInfo> {
        let info = name.strip_prefix(&self.prefix).and_then(|name| self.metadata.info(name));
        info.ok_or_else(|| corrupt(&self.path, format!("it has no tensor {name}")))
    }

    fn read_bytes(&self, info: &TensorInfo) -> Result<Vec<u8>> {
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0; end - start];
        self.read_at(start, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads from byte `start` of the data.
    fn read_at(&self, start: usize, to: &mut [u8]) -> Result<()> {
        let mut file = open(&self.path)?;
        file.seek(SeekFrom::Start(self.data_start + start as u64))
            .map_err(|source| io("read", &self.path, source))?;
        read(&mut file, &self.path, to)
    }
}

/// Converts the numbers to f32; `None` where they are no floats.
fn to_f32(dtype: Dtype, bytes: Vec<u8>) -> Option<Vec<u8>> {
    match dtype {
        Dtype::F32 => Some(bytes),
        Dtype::F16 => Some(widen(&bytes, |word| f16::from_le_bytes(word).to_f32())),
        Dtype::BF16 => Some(widen(&bytes, |word| bf16::from_le_bytes(word).to_f32())),
        Dtype::F64 => Some(widen(&bytes, |word| f64::from_le_bytes(word) as f32)),
        _ => None,
    }
}

fn widen<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<u8> {
    bytes.as_chunks().0.iter().flat_map(|word| read(*word).to_le_bytes()).collect()
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| io("open", path, source))
}

fn read(file: &mut File, path: &Path, bytes: &mut [u8]) -> Result<()> {
    file.read_exact(bytes).map_err(|source| match source.kind() {
        std::io::ErrorKind::UnexpectedEof => corrupt(path, "it ends early".to_owned()),
        _ => io("read", path, source),
    })
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { action, path: path.to_owned(), source }
}

fn corrupt(path: &Path, problem: String) -> Error {
    Error::Corrupt { path: path.to_owned(), problem }
}
