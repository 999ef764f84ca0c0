//! Writes what `from_pretrained` loads: `config.json` and weights. Each file appears whole or not at all; for its name
//! to outlive a crash, the caller syncs the folder when all are there.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};
use traind_durable::Replacement;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape};

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::parameters::ParameterSpec;

const CONFIG: &str = "config.json";

/// Writes `config.json`: the loaded one with what training decided. The
/// weights are float32, and no version of transformers has written them. Returns the file's name.
pub fn save_config(folder: &Path, config: &ModelConfig) -> Result<String> {
    write_json(&folder.join(CONFIG), &config.saved_keys())?;
    Ok(CONFIG.to_owned())
}

pub(crate) fn write_json(path: &Path, keys: &Map<String, Value>) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(keys)
        .map_err(|source| Error::Json { path: path.to_owned(), source })?;
    text.push(b'\n');
    write_whole(path, |file| file.write_all(&text))
}

/// Tensors by name, with the shapes in which a file has them.
pub(super) type Tensors = Vec<(String, Shape)>;

/// The bytes of a tensor by its place, in memory or read when they are written.
pub(super) type BytesOf<'a> = dyn Fn(usize) -> Result<Cow<'a, [u8]>> + 'a;

/// Writes one safetensors file of a model's parameters.
pub fn save_weights(path: &Path, specs: &[ParameterSpec], arrays: &[HostArray]) -> Result<()> {
    for (spec, array) in specs.iter().zip(arrays) {
        check_shape(spec, array)?;
    }
    save_tensors(path, specs.iter().map(|spec| spec.name.as_str()).zip(arrays))
}

/// Writes one safetensors file of tensors, in the order of their names.
pub fn save_tensors<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a HostArray)>,
) -> Result<()> {
    let (tensors, arrays): (Tensors, Vec<&HostArray>) = tensors
        .into_iter()
        .map(|(name, array)| ((name.to_owned(), array.shape().clone()), array))
        .unzip();
    write_tensors(path, tensors, &[], &|place| Ok(Cow::Borrowed(arrays[place].bytes())))
}

/// Writes one safetensors file of tensors, in the order of their names, with `metadata` in its header. `bytes` are
/// asked for one tensor at a time.
pub(super) fn write_tensors(
    path: &Path,
    tensors: Tensors,
    metadata: &[(&str, String)],
    bytes: &BytesOf<'_>,
) -> Result<()> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|place| &tensors[*place].0);
    let (mut offset, mut infos) = (0, Vec::with_capacity(tensors.len()));
    for (name, shape) in order.iter().map(|place| &tensors[*place]) {
        let data_offsets = (offset, offset + shape.size_bytes());
        let info = TensorInfo { dtype: file_dtype(shape), shape: shape.dims.clone(), data_offsets };
        infos.push((name.clone(), info));
        offset = data_offsets.1;
    }
    let header = header(path, infos, metadata)?;
    write_whole(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        order.iter().try_for_each(|place| {
            let bytes = bytes(*place).map_err(std::io::Error::other)?;
            file.write_all(&bytes)
        })
    })
}

fn file_dtype(shape: &Shape) -> Dtype {
    match shape.dtype {
        DType::BF16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        _ => Dtype::F32,
    }
}

pub(super) fn check_shape(spec: &ParameterSpec, array: &HostArray) -> Result<()> {
    if *array.shape() == spec.shape {
        return Ok(());
    }
    let (name, found) = (spec.name.clone(), array.shape().clone());
    Err(Error::ArrayShape { name, found, expected: spec.shape.clone() })
}

/// The header, padded with spaces so that the data starts at a multiple of 8.
fn header(
    path: &Path,
    infos: Vec<(String, TensorInfo)>,
    metadata: &[(&str, String)],
) -> Result<Vec<u8>> {
    let mut texts = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    texts.extend(metadata.iter().map(|(key, text)| ((*key).to_owned(), text.clone())));
    let metadata = Metadata::new(Some(texts), infos)
        .map_err(|error| Error::Corrupt { path: path.to_owned(), problem: error.to_string() })?;
    let mut header = serde_json::to_vec(&metadata)
        .map_err(|source| Error::Json { path: path.to_owned(), source })?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let written = Replacement::of(path).without_folder().write(write);
    written.map_err(|source| Error::Io { action: "write", path: path.to_owned(), source })
}
