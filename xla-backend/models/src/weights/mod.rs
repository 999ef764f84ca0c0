//! Parameters as host arrays: read from Hugging Face's safetensors files, drawn
//! where a checkpoint has none, and saved under the same names. On this side they
//! are float32, or what the parameter is stored in, whatever the file holds.

mod check;
mod checkpoint;
mod dtype;
mod file;
mod init;
mod modules;
mod names;
mod parts;
mod save;
mod shards;
mod vocabulary;

use std::borrow::Cow;
use std::path::Path;

use traind_xla::runtime::HostArray;

pub(crate) use check::check_tensor;
pub use check::{check, is_of_head};
pub use checkpoint::{Checkpoint, exist};
pub(crate) use dtype::as_f32;
pub use file::SafetensorsFile;
pub use init::{initial, initialize};
pub use parts::{ArrayPart, ArrayParts, PartFiles, StoredArrays, part_file, save_parts};
pub(crate) use save::write_json as save_json;
pub use save::{save_config, save_tensors, save_weights};
pub use shards::{ArrayOf, save_modules, save_shards};

use crate::config::{GENERATOR, ModelConfig};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::parameters::ParameterSpec;
use crate::tuning::initialize_adapters;

/// The parameters of a model and where each came from.
#[derive(Debug)]
pub struct Loaded {
    /// The arrays in the order of [`Model::parameters`].
    pub arrays: Vec<HostArray>,
    /// The source of each.
    pub report: LoadReport,
}

/// Names of tensors, each in exactly one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Parameters that the checkpoint has.
    pub loaded: Vec<String>,
    /// Parameters of the head that the checkpoint lacks: drawn, as is usual
    /// when a pretrained encoder gets a new task.
    pub initialized: Vec<String>,
    /// Other parameters that the checkpoint lacks: drawn too, and suspicious.
    pub missing: Vec<String>,
    /// Parameters that the checkpoint has in another shape: drawn.
    pub mismatched: Vec<String>,
    /// Tensors of the checkpoint that the model has no parameter for.
    pub unexpected: Vec<String>,
}

/// Draws all parameters of a model.
pub fn draw(model: &Model, seed: u64) -> Result<Loaded> {
    let mut arrays = initialize(model.parameters(), seed)?;
    initialize_adapters(model, &mut arrays)?;
    Ok(Loaded { arrays, report: LoadReport::default() })
}

/// Loads a model's parameters from its folder; `seed` draws the missing ones.
pub fn load(folder: &Path, model: &Model, seed: u64) -> Result<Loaded> {
    load_by(folder, model, seed, |checkpoint, stored, spec| {
        read(checkpoint, stored, spec, model.config())
    })
}

/// Loads a model's parameters as [`load`] does, but draws those that the checkpoint has in another shape, as with
/// transformers' `ignore_mismatched_sizes`.
pub fn load_fitting(folder: &Path, model: &Model, seed: u64) -> Result<Loaded> {
    load_by(folder, model, seed, |checkpoint, stored, spec| {
        match read(checkpoint, stored, spec, model.config()) {
            Err(Error::WeightShape { .. }) => Ok(None),
            read => read,
        }
    })
}

/// `read` returns nothing for a tensor that is not to be taken.
fn load_by(
    folder: &Path,
    model: &Model,
    seed: u64,
    read: impl Fn(&Checkpoint, &str, &ParameterSpec) -> Result<Option<HostArray>>,
) -> Result<Loaded> {
    let checkpoint = Checkpoint::open(folder)?.with_modules(folder, model)?;
    let prefix = model.base_model_prefix();
    let matched = names::match_names(model.parameters(), &checkpoint.names(), prefix);
    let mut report = LoadReport { unexpected: matched.unexpected, ..LoadReport::default() };
    let mut arrays = Vec::with_capacity(model.parameters().len());
    for (spec, stored) in model.parameters().iter().zip(&matched.stored) {
        let found = match stored {
            Some(stored) => read(&checkpoint, stored, spec)?,
            None => None,
        };
        let is_mismatched = stored.is_some() && found.is_none();
        // Adapters are new by their nature.
        if !model.adapters().owns(&spec.name) {
            let of_base = names::is_of_base(model, &spec.name);
            report.add(&spec.name, found.is_some(), is_mismatched, of_base);
        }
        arrays.push(found.map_or_else(|| initial(spec, seed), Ok)?);
    }
    initialize_adapters(model, &mut arrays)?;
    Ok(Loaded { arrays, report })
}

/// Saves a model into an existing folder; `arrays` are in the order of `specs`,
/// and files have at most `max_shard_bytes`. Returns the names of the files.
pub fn save(
    folder: &Path,
    config: &ModelConfig,
    specs: &[ParameterSpec],
    arrays: &[HostArray],
    max_shard_bytes: u64,
) -> Result<Vec<String>> {
    save_from(folder, config, specs, &|place| Ok(Cow::Borrowed(&arrays[place])), max_shard_bytes)
}

/// Saves a model with each module's parameters in its own folder, as transformers and sentence-transformers read them.
pub fn save_with_modules(
    folder: &Path,
    config: &ModelConfig,
    specs: &[ParameterSpec],
    arrays: &ArrayOf<'_>,
    max_shard_bytes: u64,
) -> Result<Vec<String>> {
    let mut files = save_modules(folder, specs, arrays, max_shard_bytes)?;
    files.push(save_config(folder, config)?);
    if let Some(config) = config.generator_config() {
        files.push(format!("{GENERATOR}/{}", save_config(&folder.join(GENERATOR), config)?));
    }
    Ok(files)
}

/// Saves a model whose arrays are asked for one at a time, so that they need not be in memory together.
pub fn save_from(
    folder: &Path,
    config: &ModelConfig,
    specs: &[ParameterSpec],
    arrays: &ArrayOf<'_>,
    max_shard_bytes: u64,
) -> Result<Vec<String>> {
    let mut files = save_shards(folder, specs, arrays, max_shard_bytes)?;
    files.push(save_config(folder, config)?);
    Ok(files)
}

fn read(
    checkpoint: &Checkpoint,
    stored: &str,
    spec: &ParameterSpec,
    config: &ModelConfig,
) -> Result<Option<HostArray>> {
    let file = checkpoint.file(stored)?;
    let stored_spec = vocabulary::stored(config, spec, file.shape(stored)?);
    let array = read_tensor(file, stored, &stored_spec)?;
    vocabulary::grown(array, spec).map(Some)
}

/// Reads the tensor `name` of a file, which must have the shape of `spec`.
pub(crate) fn read_tensor(
    file: &SafetensorsFile,
    name: &str,
    spec: &ParameterSpec,
) -> Result<HostArray> {
    check_tensor(file, name, spec)?;
    dtype::stored(file.read_f32(name)?, spec.shape.dtype)
}

impl LoadReport {
    fn add(&mut self, name: &str, loaded: bool, is_mismatched: bool, of_base: bool) {
        if is_mismatched {
            return self.mismatched.push(name.to_owned());
        }
        let list = match (loaded, of_base) {
            (true, _) => &mut self.loaded,
            (false, false) => &mut self.initialized,
            (false, true) => &mut self.missing,
        };
        list.push(name.to_owned());
    }
}
