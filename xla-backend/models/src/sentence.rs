//! The files in which sentence-transformers describes what follows the last layer of a model that embeds texts.
//!
//! `modules.json` lists the modules, `1_Pooling/config.json` has the pooling, `sentence_bert_config.json` the length of
//! rows, and `config_sentence_transformers.json` prompts. They are written as every version of sentence-transformers
//! reads them.

mod dense;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value, json};
pub use traind_choices::{DenseActivation, PoolingMode};
use traind_durable::read_description;

use crate::error::{Error, Result};
pub(crate) use dense::module_of;

pub use dense::Dense;

pub(crate) const MODULES: &str = "modules.json";
pub(crate) const TRANSFORMER: &str = "sentence_bert_config.json";
pub(crate) const SETTINGS: &str = "config_sentence_transformers.json";
const POOLING: &str = "1_Pooling/config.json";

/// Contents of files beside their names.
pub type ModelFiles = Vec<(Cow<'static, str>, Vec<u8>)>;

/// The modules behind the last layer.
#[derive(Clone, Debug, PartialEq)]
pub struct SentenceModules {
    /// At least one mode; the results of several are joined.
    pub pooling: Vec<PoolingMode>,
    /// Layers behind the pooling, in their order.
    pub dense: Vec<Dense>,
    /// Whether embeddings have the length 1.
    pub normalize: bool,
    /// Whether the tokens of a prompt are pooled too.
    pub include_prompt: bool,
    /// Tokens that rows are cut to.
    pub max_seq_length: Option<u32>,
    /// Texts before others by their names, such as `query`.
    pub prompts: Map<String, Value>,
    /// The other keys of `config_sentence_transformers.json`.
    pub settings: Map<String, Value>,
}

/// The modules that sentence-transformers gives a model without `modules.json`.
impl Default for SentenceModules {
    fn default() -> SentenceModules {
        SentenceModules {
            pooling: vec![PoolingMode::Mean],
            dense: Vec::new(),
            normalize: false,
            include_prompt: true,
            max_seq_length: None,
            prompts: Map::new(),
            settings: Map::new(),
        }
    }
}

impl SentenceModules {
    /// Reads the files of a model folder, which may lack all of them.
    pub fn load(folder: &Path) -> Result<SentenceModules> {
        let mut modules = SentenceModules::default();
        if let Some(found) = read(&folder.join(MODULES))? {
            modules.read_modules(folder, &found)?;
        }
        if let Some(Value::Object(transformer)) = read(&folder.join(TRANSFORMER))? {
            modules.read_transformer(&folder.join(TRANSFORMER), &transformer)?;
        }
        if let Some(Value::Object(mut settings)) = read(&folder.join(SETTINGS))? {
            if let Some(Value::Object(prompts)) = settings.remove("prompts") {
                modules.prompts = prompts;
            }
            // The versions are those that wrote the file.
            settings.remove("__version__");
            modules.settings = settings;
        }
        Ok(modules)
    }

    fn read_modules(&mut self, folder: &Path, found: &Value) -> Result<()> {
        let path = folder.join(MODULES);
        let refused = |problem: String| problem_in(&path, "type", problem);
        let list =
            found.as_array().ok_or_else(|| refused("expected a list of modules".to_owned()))?;
        for module in list {
            let kind = module["type"].as_str().unwrap_or_default();
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Pooling" => {
                    let place = module["path"].as_str().unwrap_or("1_Pooling");
                    self.read_pooling(&folder.join(place).join("config.json"))?;
                }
                "Dense" if self.normalize => {
                    let problem = "a Dense behind Normalize is not supported".to_owned();
                    return Err(refused(problem));
                }
                "Dense" => {
                    let place = module["path"].as_str().unwrap_or("2_Dense");
                    self.dense.push(Dense::load(folder, place)?);
                }
                "Normalize" => self.normalize = true,
                _ => {
                    return Err(refused(format!(
                        "the module {kind} is not supported: Transformer, Pooling, Dense and Normalize are"
                    )));
                }
            }
        }
        Ok(())
    }

    fn read_pooling(&mut self, path: &Path) -> Result<()> {
        let Some(config) = read(path)? else {
            return Err(problem_in(path, "pooling_mode", "the file is missing".to_owned()));
        };
        let named: Vec<&str> = match &config["pooling_mode"] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => {
                let is_set = |mode: &&PoolingMode| config[older_key(**mode)] == Value::Bool(true);
                PoolingMode::ALL.iter().filter(is_set).map(|it| it.as_str()).collect()
            }
        };
        let modes = named.iter().map(|name| {
            let unknown = || problem_in(path, "pooling_mode", format!("{name} is not known"));
            PoolingMode::from_name(name).ok_or_else(unknown)
        });
        let modes = modes.collect::<Result<Vec<_>>>()?;
        if !modes.is_empty() {
            self.pooling = modes;
        }
        self.include_prompt = config["include_prompt"].as_bool().unwrap_or(true);
        Ok(())
    }

    fn read_transformer(&mut self, path: &Path, config: &Map<String, Value>) -> Result<()> {
        if config.get("do_lower_case") == Some(&Value::Bool(true)) {
            let problem = "texts are lowered by the tokenizer alone; let tokenizer.json do it";
            return Err(problem_in(path, "do_lower_case", problem.to_owned()));
        }
        let length = config.get("max_seq_length").and_then(Value::as_u64);
        self.max_seq_length = length.and_then(|length| u32::try_from(length).ok());
        Ok(())
    }

    /// The numbers of an embedding, of a model whose states have `hidden_size`.
    pub fn width(&self, hidden_size: usize) -> usize {
        let pooled = self.pooling.len() * hidden_size;
        self.dense.last().map_or(pooled, |dense| dense.out_features)
    }

    /// The numbers of states, of a model whose embeddings have `width`.
    pub fn hidden_size(&self, width: usize) -> usize {
        let pooled = self.dense.first().map_or(width, |dense| dense.in_features);
        pooled / self.pooling.len()
    }

    /// Adds a layer behind the pooling of a model that has none, whose embeddings have `width` numbers.
    pub fn add_dense(&mut self, width: usize, out_features: usize, activation: DenseActivation) {
        let (bias, use_residual, folder) = (true, false, "2_Dense".to_owned());
        let in_features = width;
        self.dense =
            vec![Dense { folder, in_features, out_features, bias, activation, use_residual }];
    }

    /// Refuses layers that do not follow each other in a model whose states have `hidden_size` numbers.
    pub(crate) fn check_widths(&self, folder: &Path, hidden_size: usize) -> Result<()> {
        let mut width = self.pooling.len() * hidden_size;
        for dense in &self.dense {
            if dense.in_features != width {
                let path = folder.join(&dense.folder).join("config.json");
                let problem = format!("is {}, and what it reads has {width}", dense.in_features);
                return Err(problem_in(&path, "in_features", problem));
            }
            width = dense.out_features;
        }
        Ok(())
    }

    /// The files by their names, of a model whose states have `hidden_size` numbers and whose rows are cut to
    /// `max_seq_length` tokens.
    pub fn files(&self, hidden_size: usize, max_seq_length: u32) -> ModelFiles {
        let mut settings = self.settings.clone();
        settings.entry("similarity_fn_name").or_insert("cosine".into());
        settings.entry("default_prompt_name").or_insert(Value::Null);
        settings.insert("prompts".to_owned(), Value::Object(self.prompts.clone()));
        let transformer = json!({ "max_seq_length": max_seq_length, "do_lower_case": false });
        let mut files = json_files([
            (MODULES, self.modules()),
            (POOLING, self.pooling_config(hidden_size)),
            (TRANSFORMER, transformer),
            (SETTINGS, Value::Object(settings)),
        ]);
        files.extend(self.dense.iter().map(|dense| {
            let name = format!("{}/config.json", dense.folder);
            (Cow::Owned(name), content(&dense.config()))
        }));
        files
    }

    fn modules(&self) -> Value {
        let own = |path: &str, kind| (path.to_owned(), kind);
        let dense = self.dense.iter().map(|dense| own(&dense.folder, "Dense"));
        let place = 2 + self.dense.len();
        let normalize = self.normalize.then(|| (format!("{place}_Normalize"), "Normalize"));
        let modules = [own("", "Transformer"), own("1_Pooling", "Pooling")];
        let modules = modules.into_iter().chain(dense).chain(normalize);
        let entries = modules.enumerate().map(|(index, (path, kind))| {
            let kind = format!("sentence_transformers.models.{kind}");
            json!({ "idx": index, "name": index.to_string(), "path": path, "type": kind })
        });
        entries.collect()
    }

    fn pooling_config(&self, hidden_size: usize) -> Value {
        let mut config = json!({
            "word_embedding_dimension": hidden_size,
            "include_prompt": self.include_prompt,
        });
        for mode in PoolingMode::ALL {
            config[older_key(*mode)] = self.pooling.contains(mode).into();
        }
        config
    }
}

/// The contents of JSON files beside their names.
pub(crate) fn json_files<const N: usize>(files: [(&'static str, Value); N]) -> ModelFiles {
    files.map(|(name, value)| (Cow::Borrowed(name), content(&value))).to_vec()
}

fn content(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

/// The content of a JSON file; none where there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Value>> {
    let text = match read_description(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { action: "read", path: path.to_owned(), source }),
    };
    let value = serde_json::from_slice(&text);
    value.map(Some).map_err(|source| Error::Json { path: path.to_owned(), source })
}

pub(crate) fn problem_in(path: &Path, key: &str, problem: String) -> Error {
    Error::Config { path: path.to_owned(), key: key.to_owned(), problem }
}

/// The key of a mode in older versions.
fn older_key(mode: PoolingMode) -> &'static str {
    match mode {
        PoolingMode::Cls => "pooling_mode_cls_token",
        PoolingMode::Max => "pooling_mode_max_tokens",
        PoolingMode::Mean => "pooling_mode_mean_tokens",
        PoolingMode::MeanSqrtLenTokens => "pooling_mode_mean_sqrt_len_tokens",
        PoolingMode::WeightedMean => "pooling_mode_weightedmean_tokens",
        PoolingMode::LastToken => "pooling_mode_lasttoken",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    const NEW: &str = r#"[
        {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.base.modules.normalize.Normalize"}]"#;

    #[test]
    fn a_plain_model_has_the_mean_of_its_states() {
        assert_eq!(SentenceModules::load(folder(&[]).path()).unwrap(), SentenceModules::default());
    }

    #[test]
    fn files_of_all_versions_are_read_and_those_that_are_written_say_the_same() {
        let settings = r#"{"__version__": {"a": "1"}, "prompts": {"query": "q: "}, "x": 1}"#;
        for pooling in [
            r#"{"pooling_mode": "lasttoken", "include_prompt": false}"#,
            r#"{"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false, "include_prompt": false}"#,
        ] {
            let source = folder(&[
                (MODULES, NEW),
                (POOLING, pooling),
                (TRANSFORMER, r#"{"max_seq_length": 256, "do_lower_case": false}"#),
                (SETTINGS, settings),
            ]);
            let found = SentenceModules::load(source.path()).unwrap();
            assert_eq!(found.pooling, [PoolingMode::LastToken]);
            let rest = (found.normalize, found.include_prompt, found.max_seq_length);
            assert_eq!(rest, (true, false, Some(256)));
            assert_eq!(found.prompts["query"], "q: ");
            let files = found.files(8, 64);
            assert!(files.iter().map(|(name, _)| name.as_ref()).eq(traind_choices::SENTENCE_FILES));
            let texts: Vec<String> =
                files.iter().map(|(_, text)| String::from_utf8(text.clone()).unwrap()).collect();
            let files =
                files.iter().zip(&texts).map(|((name, _), text)| (name.as_ref(), text.as_str()));
            let written = folder(&files.collect::<Vec<_>>());
            let again = SentenceModules::load(written.path()).unwrap();
            assert_eq!((again.max_seq_length, again.settings["x"].as_u64()), (Some(64), Some(1)));
            let same = SentenceModules {
                max_seq_length: Some(64),
                settings: again.settings.clone(),
                ..found
            };
            assert_eq!(again, same);
        }
    }

    #[test]
    fn layers_behind_the_pooling_are_read_and_written() {
        let modules = r#"[
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"path": "2_Dense", "type": "sentence_transformers.base.modules.dense.Dense"},
            {"path": "3_Dense", "type": "sentence_transformers.models.Dense"},
            {"path": "4_Normalize", "type": "sentence_transformers.models.Normalize"}]"#;
        let source = folder(&[
            (MODULES, modules),
            (POOLING, r#"{"pooling_mode": "mean"}"#),
            ("2_Dense/config.json", r#"{"in_features": 8, "out_features": 4}"#),
            (
                "3_Dense/config.json",
                r#"{"in_features": 4, "out_features": 6, "bias": false, "use_residual": true,
                    "activation_function": "torch.nn.modules.linear.Identity"}"#,
            ),
        ]);
        let found = SentenceModules::load(source.path()).unwrap();
        let second = Dense {
            folder: "3_Dense".to_owned(),
            in_features: 4,
            out_features: 6,
            bias: false,
            activation: DenseActivation::Identity,
            use_residual: true,
        };
        let activation = DenseActivation::Tanh;
        assert_eq!((found.dense[0].bias, found.dense[0].activation), (true, activation));
        assert_eq!((&found.dense[1], found.width(8), found.hidden_size(6)), (&second, 6, 8));
        found.check_widths(source.path(), 8).unwrap();
        let error = found.check_widths(source.path(), 7).unwrap_err().to_string();
        assert!(error.contains("2_Dense/config.json"), "{error}");
        let files = found.files(8, 64);
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (name.as_ref(), std::str::from_utf8(text).unwrap()))
            .collect();
        let again = SentenceModules::load(folder(&files).path()).unwrap();
        assert_eq!((again.dense, again.normalize), (found.dense, true));
    }

    #[track_caller]
    fn check_refused(files: &[(&str, &str)], expect: &str) {
        let error = SentenceModules::load(folder(files).path()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn what_would_change_embeddings_is_refused() {
        let cnn = r#"[{"path": "2_CNN", "type": "sentence_transformers.models.CNN"}]"#;
        check_refused(&[(MODULES, cnn)], "the module sentence_transformers.models.CNN is not");
        let dense = r#"[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
        let check_dense = |config: &str, expect: &str| {
            check_refused(&[(MODULES, dense), ("2_Dense/config.json", config)], expect);
        };
        check_refused(&[(MODULES, dense)], "2_Dense/config.json");
        check_dense(r#"{"in_features": 0, "out_features": 2}"#, "a number of features, found 0");
        let softmax =
            r#"{"in_features": 4, "out_features": 2, "activation_function": "torch.nn.Softmax"}"#;
        check_dense(softmax, "torch.nn.Softmax is not supported: Identity, Tanh, ReLU");
        let tokens =
            r#"{"in_features": 4, "out_features": 2, "module_input_name": "token_embeddings"}"#;
        check_dense(tokens, "token_embeddings is not supported");
        let elsewhere = r#"[{"path": "../x", "type": "sentence_transformers.models.Dense"}]"#;
        check_refused(&[(MODULES, elsewhere)], "is not the name of a folder like 2_Dense");
        check_refused(&[(MODULES, NEW)], "1_Pooling/config.json");
        check_refused(&[(MODULES, NEW), (POOLING, r#"{"pooling_mode": "x"}"#)], "x is not known");
        check_refused(&[(TRANSFORMER, r#"{"do_lower_case": true}"#)], "do_lower_case");
        check_refused(&[(SETTINGS, "{")], "config_sentence_transformers.json");
    }
}
