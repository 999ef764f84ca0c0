//! GGUF files of llama.cpp as model folders: what `AutoModelForCausalLM.from_pretrained(folder, gguf_file=…)` and
//! `AutoTokenizer` of transformers make of them, saved. Quantized weights become float32.

mod blocks;
mod family;
mod merges;
mod reader;
mod tokenizer;

use std::borrow::Cow;
use std::path::Path;

use serde_json::json;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape};

use crate::config::ModelConfig;
use crate::error::Result;
use crate::parameters::ParameterSpec;
use crate::registry;
use crate::tasks::Task;
use crate::weights;
use family::Layout;
use reader::GgufFile;

/// A converted model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The `model_type` of the family in Hugging Face's configs.
    pub model_type: String,
    /// The number of tensors that were written.
    pub parameters: usize,
    /// The size of the vocabulary.
    pub tokens: usize,
}

/// Writes a model folder of the GGUF file at `path` into the existing, empty folder `out`, with files of weights of at
/// most `max_shard_bytes`.
pub fn convert(path: &Path, out: &Path, max_shard_bytes: u64) -> Result<Converted> {
    let file = GgufFile::open(path)?;
    let keys = family::config(&file)?;
    let model = registry::build(ModelConfig::new(path, keys.clone()), Task::CausalLm)?;
    let specs = model.parameters();
    let array = |place: usize| read(&file, &keys, &specs[place]).map(Cow::Owned);
    // All are found before the first one is written.
    specs.iter().try_for_each(|spec| tensor(&file, spec).map(drop))?;
    weights::save_shards(out, specs, &array, max_shard_bytes)?;
    weights::save_config(out, model.config())?;
    let ids = ["bos_token_id", "eos_token_id", "pad_token_id"];
    let mut generation =
        serde_json::Map::from_iter([("_from_model_config".to_owned(), json!(true))]);
    generation
        .extend(ids.iter().filter_map(|key| Some(((*key).to_owned(), keys.get(*key)?.clone()))));
    weights::save_json(&out.join("generation_config.json"), &generation)?;
    let tokens = tokenizer::write(&file, out)?;
    let parameters = specs.iter().map(|spec| spec.shape.element_count()).sum();
    Ok(Converted { model_type: model.config().model_type()?.to_owned(), parameters, tokens })
}

/// The name in the file and the place of a parameter.
fn tensor<'a>(
    file: &'a GgufFile,
    spec: &ParameterSpec,
) -> Result<(String, &'a reader::TensorInfo)> {
    let name = family::tensor_name(&spec.name);
    let name = name.ok_or_else(|| file.error(format!("no tensor is known for {}", spec.name)))?;
    let info = file.tensors.get(&name);
    let info =
        info.ok_or_else(|| file.error(format!("it has no tensor {name}, for {}", spec.name)))?;
    Ok((name, info))
}

fn read(
    file: &GgufFile,
    config: &serde_json::Map<String, serde_json::Value>,
    spec: &ParameterSpec,
) -> Result<HostArray> {
    let (name, info) = tensor(file, spec)?;
    let layout = family::layout(config, &name);
    let found: Vec<usize> = match layout {
        Layout::Transposed => info.shape.iter().rev().copied().collect(),
        _ => info.shape.clone(),
    };
    if found != spec.shape.dims {
        let expected = &spec.shape.dims;
        return Err(
            file.error(format!("tensor {name} is {found:?}, and its header makes it {expected:?}"))
        );
    }
    let numbers = file.read(info)?;
    let numbers = match layout {
        Layout::AsItIs => numbers,
        Layout::Transposed => transposed(&numbers, info.shape[0], info.shape[1]),
        Layout::Interleaved { heads } => grouped(file, &name, &numbers, info.shape[0], heads)?,
    };
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Ok(HostArray::from_bytes(Shape::new(DType::F32, found), bytes)?)
}

/// Transposes [R, C] to [C, R].
fn transposed(numbers: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..rows * columns).map(|at| numbers[at % rows * columns + at / rows]).collect()
}

/// Puts the halves of rows one behind the other that alternate in each head.
fn grouped(
    file: &GgufFile,
    name: &str,
    numbers: &[f32],
    rows: usize,
    heads: usize,
) -> Result<Vec<f32>> {
    if heads == 0 || !rows.is_multiple_of(2 * heads) {
        return Err(file.error(format!("{rows} rows of {name} do not divide by {heads} heads")));
    }
    let (head, width) = (rows / heads, numbers.len() / rows);
    let row = |row: usize| {
        let (of_head, within) = (row / head * head, row % head);
        let from = of_head + within % (head / 2) * 2 + within / (head / 2);
        &numbers[from * width..(from + 1) * width]
    };
    Ok((0..rows).flat_map(row).copied().collect())
}
