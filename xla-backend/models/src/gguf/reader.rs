//! The header of a GGUF file: metadata under llama.cpp's names, and where each tensor is. Every length is checked
//! against the rest of the file before anything is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::blocks::BlockType;
use crate::error::{Error, Result};

const MAGIC: &[u8; 4] = b"GGUF";
const VERSIONS: [u32; 2] = [2, 3];
const ALIGNMENT: u64 = 32;
const DIMENSIONS_MAX: u32 = 4;
/// The longest header, and the most items in it. The largest vocabularies have 256 thousand tokens, each with a score
/// and a type, and twice as many merges. Otherwise a sparse file would fill the memory: an item takes more of it than
/// one byte of a file.
const HEADER_BYTES_MAX: u64 = 256 << 20;
const ITEMS_MAX: u64 = 1 << 22;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Array(Vec<Value>),
}

#[derive(Clone, Debug)]
pub(super) struct TensorInfo {
    /// The dimensions in PyTorch's order, the slowest first.
    pub shape: Vec<usize>,
    pub kind: BlockType,
    /// The offset of its data from the beginning of the file.
    start: u64,
}

#[derive(Debug)]
pub(super) struct GgufFile {
    pub path: PathBuf,
    pub metadata: BTreeMap<String, Value>,
    pub tensors: BTreeMap<String, TensorInfo>,
}

impl GgufFile {
    pub(super) fn open(path: &Path) -> Result<GgufFile> {
        let mut cursor = Cursor::open(path)?;
        if cursor.bytes(4)? != MAGIC {
            return Err(cursor.bad("it is no GGUF file".to_owned()));
        }
        let version = cursor.u32()?;
        if !VERSIONS.contains(&version) {
            return Err(
                cursor.bad(format!("it is GGUF of version {version}, and 2 and 3 are read"))
            );
        }
        let (tensor_count, value_count) = (cursor.count(24)?, cursor.count(13)?);
        let mut metadata = BTreeMap::new();
        for _ in 0..value_count {
            let (key, kind) = (cursor.text()?, cursor.u32()?);
            metadata.insert(key, cursor.value(kind)?);
        }
        let infos: Vec<_> = (0..tensor_count).map(|_| cursor.tensor()).collect::<Result<_>>()?;
        let alignment = match metadata.get("general.alignment") {
            Some(Value::Integer(bytes @ 1..=65_536)) => *bytes as u64,
            _ => ALIGNMENT,
        };
        let data_start = cursor.place.next_multiple_of(alignment);
        let mut tensors = BTreeMap::new();
        for (name, info) in infos {
            let start = data_start.saturating_add(info.start);
            let end = start.saturating_add(info.byte_count());
            if end > cursor.size {
                let size = cursor.size;
                return Err(cursor.bad(format!("tensor {name} ends at byte {end} of {size}")));
            }
            tensors.insert(name, TensorInfo { start, ..info });
        }
        Ok(GgufFile { path: path.to_owned(), metadata, tensors })
    }

    /// The numbers of a tensor as float32.
    pub(super) fn read(&self, info: &TensorInfo) -> Result<Vec<f32>> {
        let io = |source| Error::Io { action: "read", path: self.path.clone(), source };
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(info.start)).map_err(io)?;
        let mut bytes = vec![0; info.byte_count() as usize];
        file.read_exact(&mut bytes).map_err(io)?;
        Ok(info.kind.dequantize(&bytes))
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn integer(&self, key: &str) -> Option<i64> {
        match self.metadata.get(key)? {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.metadata.get(key)? {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(super) fn texts(&self, key: &str) -> Option<Vec<&str>> {
        match self.metadata.get(key)? {
            Value::Array(values) => values.iter().map(Value::as_text).collect(),
            _ => None,
        }
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> Error {
        Error::Gguf { path: self.path.clone(), problem: problem.into() }
    }
}

impl Value {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }
}

impl TensorInfo {
    fn byte_count(&self) -> u64 {
        let elements: u64 = self.shape.iter().map(|size| *size as u64).product();
        let (block, bytes) = self.kind.layout();
        elements / block as u64 * bytes as u64
    }
}

/// Reads forward through the header.
struct Cursor {
    path: PathBuf,
    file: BufReader<File>,
    place: u64,
    size: u64,
    items_left: u64,
}

impl Cursor {
    fn open(path: &Path) -> Result<Cursor> {
        let io = |source| Error::Io { action: "open", path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let (path, file) = (path.to_owned(), BufReader::new(file));
        Ok(Cursor { path, file, place: 0, size, items_left: ITEMS_MAX })
    }

    fn bad(&self, problem: String) -> Error {
        Error::Gguf { path: self.path.clone(), problem }
    }

    fn bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        if count > self.size - self.place {
            return Err(self.bad(format!("it ends within its header, at byte {}", self.size)));
        }
        if count > HEADER_BYTES_MAX.saturating_sub(self.place) {
            let most = HEADER_BYTES_MAX >> 20;
            return Err(self.bad(format!("its header is longer than {most} MiB")));
        }
        let mut bytes = vec![0; count as usize];
        self.file.read_exact(&mut bytes).map_err(|source| Error::Io {
            action: "read",
            path: self.path.clone(),
            source,
        })?;
        self.place += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes(N as u64)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of items, each of which takes at least `bytes`.
    fn count(&mut self, bytes: u64) -> Result<u64> {
        let count = self.u64()?;
        if count > (self.size - self.place) / bytes {
            return Err(
                self.bad(format!("its header has {count} items, more than it has room for"))
            );
        }
        let Some(left) = self.items_left.checked_sub(count) else {
            return Err(self.bad(format!("its header has more than {ITEMS_MAX} items")));
        };
        self.items_left = left;
        Ok(count)
    }

    fn text(&mut self) -> Result<String> {
        let length = self.u64()?;
        let bytes = self.bytes(length)?;
        String::from_utf8(bytes)
            .map_err(|_| self.bad("a text of its header is not UTF-8".to_owned()))
    }

    fn value(&mut self, kind: u32) -> Result<Value> {
        if kind != ARRAY {
            return self.scalar(kind);
        }
        let element = self.u32()?;
        let count = self.count(if element == STRING { 8 } else { 1 })?;
        (0..count).map(|_| self.scalar(element)).collect::<Result<_>>().map(Value::Array)
    }

    fn scalar(&mut self, kind: u32) -> Result<Value> {
        Ok(match kind {
            0 => Value::Integer(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Integer(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Integer(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Integer(u32::from_le_bytes(self.array()?).into()),
            5 => Value::Integer(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(u8::from_le_bytes(self.array()?) != 0),
            STRING => Value::Text(self.text()?),
            10 => Value::Integer(self.u64()? as i64),
            11 => Value::Integer(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            kind => return Err(self.bad(format!("its header has a value of unknown type {kind}"))),
        })
    }

    fn tensor(&mut self) -> Result<(String, TensorInfo)> {
        let (name, rank) = (self.text()?, self.u32()?);
        if rank > DIMENSIONS_MAX {
            return Err(self.bad(format!("tensor {name} has {rank} dimensions")));
        }
        let sizes: Vec<u64> = (0..rank).map(|_| self.u64()).collect::<Result<_>>()?;
        let elements = sizes.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let (kind, start) = (self.u32()?, self.u64()?);
        let Some(kind) = BlockType::of(kind) else {
            let known = BlockType::names().join(", ");
            return Err(self.bad(format!("tensor {name} has type {kind}; {known} are read")));
        };
        let (block, _) = kind.layout();
        let row = sizes.first().copied().unwrap_or(1);
        if elements.is_none_or(|count| count > 1 << 40) || row % block as u64 != 0 {
            return Err(self.bad(format!("tensor {name} of shape {sizes:?} has no whole blocks")));
        }
        let shape = sizes.iter().rev().map(|size| *size as usize).collect();
        Ok((name, TensorInfo { shape, kind, start }))
    }
}
