//! `adapter_config.json` and `adapter_model.safetensors`, which `PeftModel.from_pretrained` loads.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};
use traind_choices::PeftBias;
use traind_xla::runtime::HostArray;

use super::adapter_keys;
use super::adapters::Adapters;
use super::lora_config::{Lora, TargetModules};
use super::targets::is_suffix;
use super::token_rows::TokenIndices;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::parameters::{ParameterSpec, Role};
use crate::tasks::Task;
use crate::weights::{self, SafetensorsFile};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
/// The file that older versions of PEFT wrote.
const PICKLED: &str = "adapter_model.bin";
const ALL_LINEAR: &str = "all-linear";

/// Writes a model's adapters into an existing folder; `arrays` are those of the saved parameters,
/// in the model's order. `base_model` is where the model itself is. Returns the names of the files.
pub fn save_adapter(
    folder: &Path,
    model: &Model,
    task: Task,
    base_model: &str,
    arrays: &[HostArray],
) -> Result<Vec<String>> {
    // PEFT saves a module that it trains as a tied one under both names.
    let ties = model.adapters().lora().is_some_and(|lora| lora.ensure_weight_tying);
    let names = |spec: &ParameterSpec| -> Vec<String> {
        let aliases = spec.tied.iter().filter(|_| ties);
        let names = std::iter::once(&spec.name).chain(aliases);
        names.map(|name| model.adapters().saved_name(name)).collect()
    };
    let tensors: Vec<(String, &HostArray)> = saved(model)
        .zip(arrays)
        .flat_map(|(spec, array)| names(spec).into_iter().map(move |name| (name, array)))
        .collect();
    let tensors = tensors.iter().map(|(name, array)| (name.as_str(), *array));
    weights::save_tensors(&folder.join(WEIGHTS), tensors)?;
    if let Value::Object(config) = config_of(model, task, base_model) {
        weights::save_json(&folder.join(CONFIG), &config)?;
    }
    Ok([CONFIG, WEIGHTS].map(str::to_owned).to_vec())
}

/// Loads the saved parameters of a model's adapters, all of which must be in the folder, in the
/// model's order.
pub fn load_adapter(folder: &Path, model: &Model) -> Result<Vec<HostArray>> {
    each_saved(folder, model, weights::read_tensor)
}

/// Refuses a folder that the adapters of a model cannot be loaded from, by its file's header alone.
pub fn check_adapter(folder: &Path, model: &Model) -> Result<()> {
    each_saved(folder, model, weights::check_tensor).map(drop)
}

/// Applies `visit` to the file, the tensor's name and each saved parameter.
fn each_saved<T>(
    folder: &Path,
    model: &Model,
    visit: impl Fn(&SafetensorsFile, &str, &ParameterSpec) -> Result<T>,
) -> Result<Vec<T>> {
    let file = SafetensorsFile::open(&folder.join(WEIGHTS))?;
    let known: BTreeSet<String> = file.names().into_iter().collect();
    let visit = |spec: &ParameterSpec| {
        let (adapters, name) = (model.adapters(), &spec.name);
        let mut names = [adapters.saved_name(name), adapters.former_name(name)].into_iter();
        match names.find(|name| known.contains(name)) {
            Some(name) => visit(&file, &name, spec),
            None => {
                let name = adapters.saved_name(name);
                Err(Error::MissingTensor { path: file.path().to_owned(), name })
            }
        }
    };
    saved(model).map(visit).collect()
}

/// Replaces the saved parameters among all `arrays` of a model by `loaded`.
pub fn put_adapter(model: &Model, arrays: &mut [HostArray], loaded: Vec<HostArray>) {
    let pairs = model.parameters().iter().zip(arrays);
    let places = pairs.filter(|(spec, _)| model.adapters().saves(spec));
    places.zip(loaded).for_each(|((_, place), array)| *place = array);
}

/// The parameters that an adapter's folder has.
fn saved(model: &Model) -> impl Iterator<Item = &ParameterSpec> {
    model.parameters().iter().filter(|spec| model.adapters().saves(spec))
}

/// The content of `adapter_config.json`; null for a model without adapters.
fn config_of(model: &Model, task: Task, base_model: &str) -> Value {
    let Some(lora) = model.adapters().lora() else { return Value::Null };
    let is_transposed = |spec: &ParameterSpec| spec.role == Role::TransposedProjection;
    let modules_to_save = modules_to_save(model, lora);
    let modules_to_save = (!modules_to_save.is_empty()).then_some(modules_to_save);
    json!({
        "base_model_name_or_path": base_model,
        "ensure_weight_tying": lora.ensure_weight_tying,
        "trainable_token_indices": lora.trainable_token_indices.as_ref().map(token_indices),
        "bias": lora.bias.as_str(),
        "fan_in_fan_out": model.parameters().iter().any(is_transposed),
        "inference_mode": true,
        "init_lora_weights": true,
        "layers_to_transform": lora.layers_to_transform,
        "lora_alpha": lora.lora_alpha,
        "lora_dropout": lora.lora_dropout,
        "modules_to_save": modules_to_save,
        "peft_type": "LORA",
        "r": lora.r,
        "target_modules": target_modules(model.adapters(), lora),
        "task_type": task_type(task),
        "use_dora": lora.use_dora,
        "use_rslora": lora.use_rslora,
    })
}

/// The given names, and those of modules that are trained as they are tied to one: PEFT ties an embedding
/// that is not called `embed_tokens` only if the list has the head.
fn modules_to_save(model: &Model, lora: &Lora) -> Vec<String> {
    let is_trained = |spec: &&ParameterSpec| spec.trainable && lora.ensure_weight_tying;
    let trained = model.parameters().iter().filter(is_trained);
    let tied = trained.flat_map(|spec| &spec.tied).filter_map(|name| name.strip_suffix(".weight"));
    let tied = tied.filter(|path| lora.modules_to_save.iter().all(|name| !path.ends_with(name)));
    // PEFT writes a tied embedding by its path, too.
    let is_path_of_other = |path: &&String| {
        lora.modules_to_save.iter().any(|name| path.ends_with(&format!(".{name}")))
    };
    let named = lora.modules_to_save.iter().filter(|name| !is_path_of_other(name));
    named.cloned().chain(tied.map(str::to_owned)).collect()
}

fn token_indices(tokens: &TokenIndices) -> Value {
    match tokens {
        TokenIndices::OfEmbedding(indices) => json!(indices),
        TokenIndices::OfModules(modules) => json!(modules),
    }
}

/// The given names if PEFT finds all layers with adapters by them, else the paths of these layers.
fn target_modules(adapters: &Adapters, lora: &Lora) -> Vec<String> {
    let modules: Vec<String> = adapters.modules().collect();
    let are_found = |names: &[String]| {
        modules.iter().all(|module| names.iter().any(|name| is_suffix(module, name)))
    };
    match &lora.target_modules {
        TargetModules::Named(names) if are_found(names) => names.clone(),
        _ => modules,
    }
}

/// The name of a task in `peft.TaskType`.
fn task_type(task: Task) -> Option<&'static str> {
    match task {
        Task::SequenceClassification => Some("SEQ_CLS"),
        Task::TokenClassification => Some("TOKEN_CLS"),
        Task::QuestionAnswering => Some("QUESTION_ANS"),
        Task::CausalLm => Some("CAUSAL_LM"),
        Task::Seq2SeqLm => Some("SEQ_2_SEQ_LM"),
        Task::Embedding => Some("FEATURE_EXTRACTION"),
        Task::MaskedLm | Task::ImageClassification | Task::ReplacedTokenDetection => None,
    }
}

/// Reads the settings of an adapter's folder. Refuses those that change the computation and are
/// not supported, and folders whose weights are not read.
pub fn load_lora(folder: &Path) -> Result<Lora> {
    let pickled = folder.join(PICKLED);
    if pickled.exists() && !folder.join(WEIGHTS).exists() {
        return Err(Error::PickledAdapters { path: pickled });
    }
    let path = folder.join(CONFIG);
    let text = std::fs::read(&path).map_err(|source| Error::Io {
        action: "read",
        path: path.clone(),
        source,
    })?;
    let keys: Map<String, Value> = serde_json::from_slice(&text)
        .map_err(|source| Error::Json { path: path.clone(), source })?;
    AdapterConfig { keys: ModelConfig::new(path, keys) }.lora()
}

/// An `adapter_config.json`, read like a model's config.
struct AdapterConfig {
    keys: ModelConfig,
}

impl AdapterConfig {
    fn lora(&self) -> Result<Lora> {
        let config = &self.keys;
        adapter_keys::check(config)?;
        Ok(Lora {
            r: config.size("r")?,
            lora_alpha: config.positive_or("lora_alpha", 8.0)?,
            lora_dropout: config.dropout_or("lora_dropout", 0.0)?,
            target_modules: self.target_modules()?,
            modules_to_save: self.names("modules_to_save")?,
            use_rslora: config.bool_or("use_rslora", false)?,
            use_dora: config.bool_or("use_dora", false)?,
            bias: self.bias()?,
            layers_to_transform: self.layers()?,
            trainable_token_indices: self.token_indices()?,
            ensure_weight_tying: config.bool_or("ensure_weight_tying", false)?,
        })
    }

    fn target_modules(&self) -> Result<TargetModules> {
        match self.keys.keys().get("target_modules") {
            Some(Value::String(name)) if name == ALL_LINEAR => Ok(TargetModules::AllLinear),
            Some(Value::String(pattern)) => {
                let problem = format!(
                    "{pattern:?} is a regular expression: write the names of the layers that it matches as a list"
                );
                Err(self.keys.error("target_modules", problem))
            }
            _ => Ok(TargetModules::Named(self.names("target_modules")?)),
        }
    }

    fn names(&self, key: &str) -> Result<Vec<String>> {
        let problem = || self.keys.error(key, "expected a list of names");
        match self.keys.keys().get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(names)) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                names.collect::<Option<_>>().ok_or_else(problem)
            }
            Some(_) => Err(problem()),
        }
    }

    fn bias(&self) -> Result<PeftBias> {
        let name = self.keys.keys().get("bias").and_then(Value::as_str).unwrap_or("none");
        let problem = || self.keys.error("bias", format!("{name} is none of none, all, lora_only"));
        PeftBias::from_name(name).ok_or_else(problem)
    }

    /// The tokens of the input embedding, or of modules by their names.
    fn token_indices(&self) -> Result<Option<TokenIndices>> {
        const KEY: &str = "trainable_token_indices";
        let problem = || self.keys.error(KEY, "expected a list of numbers, or lists by module");
        let list = |value: &Value| -> Result<Vec<usize>> {
            let numbers = value.as_array().ok_or_else(problem)?.iter();
            let numbers = numbers.map(|number| number.as_u64().map(|number| number as usize));
            numbers.collect::<Option<_>>().ok_or_else(problem)
        };
        match self.keys.keys().get(KEY) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(modules)) => {
                let lists = modules.iter().map(|(name, value)| Ok((name.clone(), list(value)?)));
                Ok(Some(TokenIndices::OfModules(lists.collect::<Result<_>>()?)))
            }
            Some(value) => Ok(Some(TokenIndices::OfEmbedding(list(value)?))),
        }
    }

    /// One layer, or a list of them.
    fn layers(&self) -> Result<Option<Vec<usize>>> {
        const KEY: &str = "layers_to_transform";
        let layers = match self.keys.keys().get(KEY) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(layers)) if layers.is_empty() => return Ok(None),
            Some(Value::Array(layers)) => layers.clone(),
            Some(layer) => vec![layer.clone()],
        };
        let layers = layers.iter().map(|layer| layer.as_u64().map(|layer| layer as usize));
        let problem = || self.keys.error(KEY, "expected numbers of layers");
        Ok(Some(layers.collect::<Option<_>>().ok_or_else(problem)?))
    }
}
