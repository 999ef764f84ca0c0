//! `adapter_config.json` and `adapter_model.safetensors`, which `PeftModel.from_pretrained` loads.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};
use traind_choices::PeftBias;
use traind_durable::read_description;
use traind_xla::runtime::HostArray;

use super::adapter_keys;
use super::beginnings;
use super::lora_config::{Lora, TargetModules};
use super::targets::is_suffix;
use super::token_rows::TokenIndices;
use crate::config::{GENERATOR, ModelConfig};
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
/// The beginning of the names of all tensors.
const MODULES: &str = "base_model.model.";

/// The models whose adapters a folder has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The model, with the generator that may be trained with it.
    All,
    /// The model without its generator.
    Model,
    Generator,
}

impl Part {
    /// Whether the parameter or module `name` is one of the part's.
    fn has(self, name: &str) -> bool {
        match self {
            Part::All => true,
            Part::Model => below_generator(name).is_none(),
            Part::Generator => below_generator(name).is_some(),
        }
    }

    /// The name in the part's own model.
    fn own(self, name: &str) -> &str {
        match self {
            Part::Generator => below_generator(name).unwrap_or(name),
            Part::All | Part::Model => name,
        }
    }

    /// The name `saved` in a file of adapters in that of the part.
    fn in_file(self, saved: &str) -> String {
        match saved.strip_prefix(MODULES) {
            Some(name) => format!("{MODULES}{}", self.own(name)),
            None => saved.to_owned(),
        }
    }
}

/// The rest of a name below the generator's module.
fn below_generator(name: &str) -> Option<&str> {
    name.strip_prefix(GENERATOR)?.strip_prefix('.')
}

/// Writes a model's adapters into an existing folder; `arrays` are those of the saved parameters,
/// in the model's order. `base_model` is where the model itself is. Returns the names of the files.
pub fn save_adapter(
    folder: &Path,
    model: &Model,
    task: Task,
    base_model: &str,
    arrays: &[HostArray],
) -> Result<Vec<String>> {
    save_part(Part::All, folder, model, task, base_model, arrays)
}

/// Writes the adapters of a model and those of the generator that is trained with it, the latter into its folder below,
/// as PEFT loads them for either model. `base_models` are where the model and the generator are.
pub fn save_adapter_with_generator(
    folder: &Path,
    model: &Model,
    task: Task,
    base_models: [&str; 2],
    arrays: &[HostArray],
) -> Result<Vec<String>> {
    let [base_model, base_generator] = base_models;
    // The settings of a model alone are as they were given, whatever its layers are called.
    let has_generator = model.parameters().iter().any(|spec| Part::Generator.has(&spec.name));
    let part = if has_generator { Part::Model } else { Part::All };
    let mut files = save_part(part, folder, model, task, base_model, arrays)?;
    if saved(model).any(|spec| Part::Generator.has(&spec.name)) {
        let own = folder.join(GENERATOR);
        let failed = |source| Error::Io { action: "create", path: own.clone(), source };
        std::fs::create_dir_all(&own).map_err(failed)?;
        let written = save_part(Part::Generator, &own, model, task, base_generator, arrays)?;
        files.extend(written.into_iter().map(|file| format!("{GENERATOR}/{file}")));
    }
    Ok(files)
}

fn save_part(
    part: Part,
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
        names.map(|name| part.in_file(&model.adapters().saved_name(name))).collect()
    };
    let tensors: Vec<(String, &HostArray)> = saved(model)
        .zip(arrays)
        .filter(|(spec, _)| part.has(&spec.name))
        .flat_map(|(spec, array)| names(spec).into_iter().map(move |name| (name, array)))
        .collect();
    let tensors = tensors.iter().map(|(name, array)| (name.as_str(), *array));
    weights::save_tensors(&folder.join(WEIGHTS), tensors)?;
    if let Value::Object(config) = config_of(part, model, task, base_model) {
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

/// Applies `visit` to the file, the tensor's name and each saved parameter. Those of a generator may be in a file of
/// their own.
fn each_saved<T>(
    folder: &Path,
    model: &Model,
    visit: impl Fn(&SafetensorsFile, &str, &ParameterSpec) -> Result<T>,
) -> Result<Vec<T>> {
    let mut files = vec![(Part::All, SafetensorsFile::open(&folder.join(WEIGHTS))?)];
    let of_generator = folder.join(GENERATOR).join(WEIGHTS);
    if model.generator_folder().is_some() && of_generator.exists() {
        files.push((Part::Generator, SafetensorsFile::open(&of_generator)?));
    }
    let known: Vec<BTreeSet<String>> =
        files.iter().map(|(_, file)| file.names().into_iter().collect()).collect();
    let visit = |spec: &ParameterSpec| {
        let (adapters, name) = (model.adapters(), &spec.name);
        let names = [adapters.saved_name(name), adapters.former_name(name)];
        let mut places = files.iter().zip(&known).filter(|((part, _), _)| part.has(name));
        let found = places.find_map(|((part, file), known)| {
            let mut names = names.iter().map(|name| part.in_file(name));
            Some((file, names.find(|name| known.contains(name))?))
        });
        match found {
            Some((file, name)) => visit(file, &name, spec),
            None => {
                let missing = files.iter().rev().find(|(part, _)| part.has(name));
                let (part, file) = missing.unwrap_or(&files[0]);
                let name = part.in_file(&names[0]);
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
fn config_of(part: Part, model: &Model, task: Task, base_model: &str) -> Value {
    let Some(lora) = model.adapters().lora() else { return Value::Null };
    let is_transposed = |spec: &ParameterSpec| spec.role == Role::TransposedProjection;
    let modules_to_save = modules_to_save(part, model, lora);
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
        "target_modules": target_modules(part, model, lora),
        "task_type": task_type(task),
        "use_dora": lora.use_dora,
        "use_rslora": lora.use_rslora,
    })
}

/// The given names, and those of modules that are trained as they are tied to one: PEFT ties an embedding
/// that is not called `embed_tokens` only if the list has the head.
fn modules_to_save(part: Part, model: &Model, lora: &Lora) -> Vec<String> {
    let is_trained = |spec: &&ParameterSpec| spec.trainable && lora.ensure_weight_tying;
    let trained = model.parameters().iter().filter(is_trained);
    let tied = trained.flat_map(|spec| &spec.tied).filter_map(|name| name.strip_suffix(".weight"));
    let tied = tied.filter(|path| lora.modules_to_save.iter().all(|name| !path.ends_with(name)));
    // PEFT writes a tied embedding by its path, too.
    let is_path_of_other = |path: &&String| {
        lora.modules_to_save.iter().any(|name| path.ends_with(&format!(".{name}")))
    };
    let named = lora.modules_to_save.iter().filter(|name| !is_path_of_other(name));
    let named = named.filter(|name| part == Part::All || trains_module(part, model, name));
    named.cloned().chain(tied.map(str::to_owned)).collect()
}

/// Whether a part has a module with that name.
fn trains_module(part: Part, model: &Model, module: &str) -> bool {
    let own = model.parameters().iter().filter(|spec| spec.trainable && part.has(&spec.name));
    let mut names = own.map(|spec| part.own(&spec.name));
    names.any(|name| beginnings(name).any(|path| path != name && path.ends_with(module)))
}

fn token_indices(tokens: &TokenIndices) -> Value {
    match tokens {
        TokenIndices::OfEmbedding(indices) => json!(indices),
        TokenIndices::OfModules(modules) => json!(modules),
    }
}

/// The given names if PEFT finds all layers with adapters by them, else the paths of these layers.
fn target_modules(part: Part, model: &Model, lora: &Lora) -> Vec<String> {
    let modules = model.adapters().modules().filter(|module| part.has(module));
    let modules: Vec<String> = modules.map(|module| part.own(&module).to_owned()).collect();
    let are_found = |names: &[String]| {
        modules.iter().all(|module| names.iter().any(|name| is_suffix(module, name)))
    };
    match &lora.target_modules {
        TargetModules::Named(names) if are_found(names) => {
            let own = names.iter().filter(|name| part == Part::All || has_layer(part, model, name));
            own.cloned().collect()
        }
        _ => modules,
    }
}

/// Whether a part has a layer with that name.
fn has_layer(part: Part, model: &Model, name: &str) -> bool {
    let own = model.parameters().iter().filter(|spec| part.has(&spec.name));
    let mut paths = own.filter_map(|spec| part.own(&spec.name).strip_suffix(".weight"));
    paths.any(|path| is_suffix(path, name))
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
    let text = read_description(&path).map_err(|source| Error::Io {
        action: "read",
        path: path.clone(),
        source,
    })?;
    let keys: Map<String, Value> = serde_json::from_slice(&text)
        .map_err(|source| Error::Json { path: path.clone(), source })?;
    AdapterConfig { keys: ModelConfig::new(path, keys) }.lora()
}

/// Reads the settings of an adapter's folder for `model`, with the modules that the adapter of its generator has in the
/// folder below.
pub fn load_lora_of(folder: &Path, model: &Model) -> Result<Lora> {
    let mut lora = load_lora(folder)?;
    let of_generator = model.generator_folder().map(|generator| folder.join(generator));
    let Some(folder) = of_generator.filter(|folder| folder.join(CONFIG).exists()) else {
        return Ok(lora);
    };
    let own = load_lora(&folder)?;
    if let (TargetModules::Named(names), TargetModules::Named(own)) =
        (&mut lora.target_modules, own.target_modules)
    {
        add_names(names, own);
    }
    add_names(&mut lora.modules_to_save, own.modules_to_save);
    Ok(lora)
}

/// Adds the names that a list lacks.
fn add_names(names: &mut Vec<String>, more: Vec<String>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
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
