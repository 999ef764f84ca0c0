//! `config.json`, kept whole: keys that no family reads go through unchanged
//! into the config that is saved beside the trained weights.

mod generator;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use traind_durable::read_description;

use crate::config_aliases;
use crate::error::{Error, Result};
use crate::sentence::SentenceModules;
pub(crate) use generator::GENERATOR;
pub use generator::TokenGenerator;

const FILE_NAME: &str = "config.json";
/// The default of transformers for a config without labels.
const DEFAULT_NUM_LABELS: usize = 2;

/// The keys of a model's `config.json`, with the file that messages name.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    path: PathBuf,
    keys: Map<String, Value>,
    overridden: Vec<String>,
    /// The tokenizer's padding token.
    padding_token: Option<usize>,
    pixel_normalization: PixelNormalization,
    sentence_modules: SentenceModules,
    /// The rows of the stored embeddings, where the model has more.
    stored_vocab_size: Option<usize>,
    token_generator: Option<TokenGenerator>,
    /// The positions of the longest row that is asked for; 0 where none is.
    longest_row: usize,
}

/// How pixels from 0 to 255 become numbers near zero, by the keys of `preprocessor_config.json`:
/// (pixel `rescale_factor` - mean) / deviation.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelNormalization {
    /// The factor of a pixel's byte.
    pub rescale_factor: f64,
    /// One for each channel, or one for all.
    pub image_mean: Vec<f64>,
    /// One for each channel, or one for all.
    pub image_std: Vec<f64>,
}

/// The model that the adapters in a folder belong to; none where it has no adapters.
fn base_of_adapters(folder: &Path) -> Option<String> {
    let text = read_description(&folder.join("adapter_config.json")).ok()?;
    let keys: Map<String, Value> = serde_json::from_slice(&text).ok()?;
    let base = keys.get("base_model_name_or_path").and_then(Value::as_str);
    Some(base.unwrap_or("their base model").to_owned())
}

/// Pixels from -1 to 1, as ViT's image processor has them.
impl Default for PixelNormalization {
    fn default() -> Self {
        let (image_mean, image_std) = (vec![0.5], vec![0.5]);
        PixelNormalization { rescale_factor: 1.0 / 255.0, image_mean, image_std }
    }
}

impl ModelConfig {
    /// Reads `config.json` of a model folder and lays `overrides` over it.
    pub fn load(folder: &Path, overrides: &Map<String, Value>) -> Result<ModelConfig> {
        let path = folder.join(FILE_NAME);
        let text = read_description(&path).map_err(|source| match base_of_adapters(folder) {
            Some(base) if source.kind() == ErrorKind::NotFound => {
                Error::OnlyAdapters { folder: folder.to_owned(), base }
            }
            _ => Error::Io { action: "read", path: path.clone(), source },
        })?;
        let keys = serde_json::from_slice(&text)
            .map_err(|source| Error::Json { path: path.clone(), source })?;
        Ok(ModelConfig::new(path, keys).with_overrides(overrides))
    }

    /// A config from memory; `path` is what errors call it.
    pub fn new(path: impl Into<PathBuf>, keys: Map<String, Value>) -> ModelConfig {
        ModelConfig {
            path: path.into(),
            keys,
            overridden: Vec::new(),
            padding_token: None,
            pixel_normalization: PixelNormalization::default(),
            sentence_modules: SentenceModules::default(),
            stored_vocab_size: None,
            token_generator: None,
            longest_row: 0,
        }
    }

    /// Replaces the values of some of its keys, and gives all keys the names that their type has for them.
    pub fn with_overrides(mut self, overrides: &Map<String, Value>) -> ModelConfig {
        for (key, value) in overrides {
            if key == "num_labels" {
                self.keys.remove("id2label");
                self.keys.remove("label2id");
            }
            if !self.keys.contains_key(key) {
                self.overridden.push(key.clone());
            }
            self.keys.insert(key.clone(), value.clone());
        }
        config_aliases::resolve(&mut self.keys, &mut self.overridden);
        self
    }

    /// The file or folder that errors name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every key, as it is saved.
    pub fn keys(&self) -> &Map<String, Value> {
        &self.keys
    }

    /// Overridden keys that the file itself does not have.
    pub(crate) fn new_keys(&self) -> &[String] {
        &self.overridden
    }

    /// Sets a key, or replaces its value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.insert(key.to_owned(), value.into());
    }

    /// Takes the tokenizer's padding token for rows and for the saved `pad_token_id`, as the Trainer
    /// does. Embeddings are built before that, and keep the config's.
    pub fn align_padding_token(&mut self, id: u32) {
        self.padding_token = Some(id as usize);
    }

    /// Gives the embeddings rows for `tokens`, rounded up to a multiple of `multiple_of`, unless they
    /// have as many. The stored weights keep theirs: see [`crate::weights`].
    pub fn grow_vocabulary(&mut self, tokens: usize, multiple_of: Option<usize>) -> Result<()> {
        const KEY: &str = "vocab_size";
        let stored = self.size(KEY)?;
        let rows = stored.max(tokens).next_multiple_of(multiple_of.unwrap_or(1).max(1));
        if rows > stored {
            self.set(KEY, rows);
            self.stored_vocab_size = Some(stored);
        }
        Ok(())
    }

    /// The rows of the stored embeddings, where the model has more.
    pub fn stored_vocab_size(&self) -> Option<usize> {
        self.stored_vocab_size
    }

    /// Sets how the image processor normalizes pixels.
    pub fn set_pixel_normalization(&mut self, normalization: PixelNormalization) {
        self.pixel_normalization = normalization;
    }

    /// Sets what follows the last layer of a model that embeds texts.
    pub fn set_sentence_modules(&mut self, modules: SentenceModules) {
        self.sentence_modules = modules;
    }

    /// The modules behind the last layer of a model that embeds texts.
    pub fn sentence_modules(&self) -> &SentenceModules {
        &self.sentence_modules
    }

    /// Asks for rows of `positions` positions, to which a model without a table of positions has no limit.
    pub fn ask_for_row(&mut self, positions: usize) {
        self.longest_row = positions;
    }

    /// `max_position_embeddings` of a model that computes positions, or more where longer rows are asked for: as in
    /// transformers, nothing depends on it. Dynamic rotary embeddings do.
    pub(crate) fn computed_positions_or(&self, default: usize) -> Result<usize> {
        let positions = self.size_or("max_position_embeddings", default)?;
        let rope = ["rope_scaling", "rope_parameters"].iter().filter_map(|key| self.keys.get(*key));
        let is_dynamic = rope.into_iter().any(has_dynamic);
        Ok(if is_dynamic { positions } else { positions.max(self.longest_row) })
    }

    /// Sets the generator of a model that detects the tokens which it replaces.
    pub fn set_token_generator(&mut self, generator: TokenGenerator) {
        self.token_generator = Some(generator);
    }

    /// The generator of the tokens that the model detects; `None` of other models.
    pub fn token_generator(&self) -> Option<&TokenGenerator> {
        self.token_generator.as_ref()
    }

    /// The config of the generator of the tokens that the model detects.
    pub(crate) fn generator_config(&self) -> Option<&ModelConfig> {
        self.token_generator.as_ref()?.config.as_deref()
    }

    pub(crate) fn pixel_normalization(&self) -> PixelNormalization {
        self.pixel_normalization.clone()
    }

    /// The token that pads rows: the tokenizer's, else `of_config`.
    pub(crate) fn padding_token_or(&self, of_config: Option<usize>) -> Option<usize> {
        self.padding_token.or(of_config)
    }

    /// Every key, as a model that was trained is saved.
    pub(crate) fn saved_keys(&self) -> Map<String, Value> {
        let mut keys = self.keys.clone();
        keys.remove("transformers_version");
        keys.insert("torch_dtype".to_owned(), "float32".into());
        keys.insert("dtype".to_owned(), "float32".into());
        if let Some(id) = self.padding_token {
            keys.insert("pad_token_id".to_owned(), id.into());
        }
        keys
    }

    /// Removes a key, if it is there.
    pub fn remove(&mut self, key: &str) {
        self.keys.remove(key);
    }

    /// `model_type`, which names the family.
    pub fn model_type(&self) -> Result<&str> {
        self.string("model_type")
    }

    /// The class in transformers, the first of `architectures`.
    pub fn architecture(&self) -> Option<&str> {
        self.keys.get("architectures")?.get(0)?.as_str()
    }

    /// An error about `key` of this file.
    pub fn error(&self, key: &str, problem: impl Into<String>) -> Error {
        Error::Config { path: self.path.clone(), key: key.to_owned(), problem: problem.into() }
    }
}

/// Whether settings of rotary embeddings, of all layers or of each kind, are dynamic.
fn has_dynamic(settings: &Value) -> bool {
    match settings {
        Value::String(kind) => kind == "dynamic",
        Value::Object(settings) => settings.values().any(has_dynamic),
        _ => false,
    }
}

/// The largest value of a size. Layers and labels exist one by one from the first look at a model, so that more of
/// them than any model has would fill the memory of the process that looks.
fn size_max(key: &str) -> u64 {
    match key {
        "num_hidden_layers" | "n_layer" | "n_layers" | "num_layers" | "num_decoder_layers"
        | "encoder_layers" | "decoder_layers" | "num_hidden_groups" | "inner_group_num" => 10_000,
        "num_labels" => 1_000_000,
        _ => (1 << 31) - 1,
    }
}

fn expected_size(key: &str) -> String {
    format!("an integer from 1 to {}", size_max(key))
}

/// Typed getters. A key that is `null` counts as absent, as it does in
/// transformers.
impl ModelConfig {
    /// A size: an integer from 1 to 2^31 - 1, or to the bound that the key has.
    pub fn size(&self, key: &str) -> Result<usize> {
        self.need(key, &expected_size(key), self.size_of(key)?)
    }

    /// A size from 1, with a default where the key is missing.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        Ok(self.size_of(key)?.unwrap_or(default))
    }

    /// The id of a token, below `vocab_size`.
    pub fn token_id(&self, key: &str, vocab_size: usize) -> Result<Option<usize>> {
        let expected = format!("a token id below vocab_size ({vocab_size})");
        self.typed(key, &expected, |value| {
            value.as_u64().map(|id| id as usize).filter(|&id| id < vocab_size)
        })
    }

    /// Reads the key with a default where it is missing; `null` is none.
    pub fn token_id_or(
        &self,
        key: &str,
        vocab_size: usize,
        default: usize,
    ) -> Result<Option<usize>> {
        if !self.keys.contains_key(key) && default < vocab_size {
            return Ok(Some(default));
        }
        self.token_id(key, vocab_size)
    }

    /// A finite number above zero.
    pub fn positive_or(&self, key: &str, default: f64) -> Result<f64> {
        let number = self.typed(key, "a number above 0", |value| {
            value.as_f64().filter(|number| number.is_finite() && *number > 0.0)
        })?;
        Ok(number.unwrap_or(default))
    }

    /// A probability of dropping, from 0 up to but not 1.
    pub fn dropout_or(&self, key: &str, default: f64) -> Result<f64> {
        let rate = self.typed(key, "a number from 0 up to but not 1", |value| {
            value.as_f64().filter(|rate| (0.0..1.0).contains(rate))
        })?;
        Ok(rate.unwrap_or(default))
    }

    /// Returns a flag; `default` where the key is absent or null.
    pub fn bool_or(&self, key: &str, default: bool) -> Result<bool> {
        Ok(self.typed(key, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    /// Returns a text. Fails where the key is absent.
    pub fn string(&self, key: &str) -> Result<&str> {
        self.need(key, "a string", self.optional_string(key)?)
    }

    /// Returns a text; `default` where the key is absent or null.
    pub fn string_or<'a>(&'a self, key: &str, default: &'a str) -> Result<&'a str> {
        Ok(self.optional_string(key)?.unwrap_or(default))
    }

    /// Returns a text; `None` where the key is absent or null.
    pub fn optional_string(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a string", Value::as_str)
    }

    /// A size, where there is one.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>> {
        self.size_of(key)
    }

    /// A size; integers below 1 stand for none.
    pub fn size_above_zero(&self, key: &str) -> Result<Option<usize>> {
        let number = self.typed(key, "an integer up to 2147483647", |value| {
            value.as_i64().filter(|number| *number < 1 << 31)
        })?;
        Ok(number.filter(|number| *number > 0).map(|number| number as usize))
    }

    /// Height and width: a pair, or one size for both.
    pub fn size_pair_or(&self, key: &str, default: usize) -> Result<[usize; 2]> {
        if !matches!(self.keys.get(key), Some(Value::Array(_))) {
            return Ok([self.size_or(key, default)?; 2]);
        }
        let is_size = |value: &Value| value.as_u64().filter(|size| (1..1 << 31).contains(size));
        let pair =
            self.typed(key, "an integer or a pair of integers from 1 to 2147483647", |value| {
                let sizes = value.as_array()?.iter().map(is_size).collect::<Option<Vec<_>>>()?;
                Some([*sizes.first()? as usize, *sizes.get(1)? as usize])
                    .filter(|_| sizes.len() == 2)
            })?;
        Ok(pair.unwrap_or([default; 2]))
    }

    /// A count, which may be 0.
    pub fn count_or(&self, key: &str, default: usize) -> Result<usize> {
        let count = self.typed(key, "an integer from 0 to 2147483647", |value| {
            value.as_u64().filter(|count| *count < 1 << 31)
        })?;
        Ok(count.map_or(default, |count| count as usize))
    }

    /// Whether the file has the key and gives it no value.
    pub fn is_null(&self, key: &str) -> bool {
        self.keys.get(key).is_some_and(Value::is_null)
    }

    /// Returns the keys of an object; `None` where the key is absent or null.
    pub fn object(&self, key: &str) -> Result<Option<&Map<String, Value>>> {
        self.typed(key, "an object", Value::as_object)
    }

    /// Returns a list of texts; `None` where the key is absent or null.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&str>>> {
        self.typed(key, "a list of strings", |value| {
            value.as_array()?.iter().map(Value::as_str).collect()
        })
    }

    fn size_of(&self, key: &str) -> Result<Option<usize>> {
        self.typed(key, &expected_size(key), |value| {
            let is_size = |size: &u64| (1..=size_max(key)).contains(size);
            value.as_u64().filter(is_size).map(|size| size as usize)
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.error(key, format!("expected {expected}, found {value}"))),
            },
        }
    }

    fn need<T>(&self, key: &str, expected: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.error(key, format!("expected {expected}, found none")))
    }
}

/// Labels, which transformers keeps as two maps and no count.
impl ModelConfig {
    /// The number of labels: of `id2label`, else `num_labels`, else 2.
    pub fn num_labels(&self) -> Result<usize> {
        let labels = self.typed("id2label", "an object", Value::as_object)?;
        match labels {
            Some(labels) if !labels.is_empty() => Ok(labels.len()),
            _ => self.size_or("num_labels", DEFAULT_NUM_LABELS),
        }
    }

    /// The names of the labels in the order of their ids; `LABEL_0`… where
    /// the config has none.
    pub fn labels(&self) -> Result<Vec<String>> {
        let Some(names) = self.typed("id2label", "an object", Value::as_object)? else {
            return Ok(default_labels(self.num_labels()?));
        };
        (0..self.num_labels()?)
            .map(|id| {
                let label = names.get(&id.to_string()).and_then(Value::as_str);
                label
                    .map(str::to_owned)
                    .ok_or_else(|| self.error("id2label", format!("has no name for label {id}")))
            })
            .collect()
    }

    /// Names the labels, and thereby counts them.
    pub fn set_labels<S: AsRef<str>>(&mut self, labels: &[S]) {
        let ids = labels.iter().enumerate();
        let names = ids.clone().map(|(id, name)| (id.to_string(), name.as_ref().into()));
        let id2label: Map<String, Value> = names.collect();
        let label2id: Map<String, Value> =
            ids.map(|(id, name)| (name.as_ref().to_owned(), id.into())).collect();
        self.set("id2label", id2label);
        self.set("label2id", label2id);
        self.remove("num_labels");
    }

    /// Counts the labels: names that fit the count are kept.
    pub fn set_num_labels(&mut self, num_labels: usize) {
        if !self.labels().is_ok_and(|labels| labels.len() == num_labels) {
            self.set_labels(&default_labels(num_labels));
        }
    }
}

fn default_labels(count: usize) -> Vec<String> {
    (0..count).map(|id| format!("LABEL_{id}")).collect()
}
