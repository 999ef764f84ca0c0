//! The files in which sentence-transformers describes a model that scores pairs of texts.
//!
//! `modules.json` names the one module that the model has, `sentence_bert_config.json` the length of pairs, and
//! `config_sentence_transformers.json` the function that scores pass through. Versions before 6 read the latter in
//! `config.json`.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::config::ModelConfig;
use crate::error::Result;
use crate::sentence::{MODULES, ModelFiles, SETTINGS, TRANSFORMER, json_files, problem_in, read};

/// The keys of a config, of versions 4 and 5 and of older ones.
const OF_CONFIG: &str = "sentence_transformers";
const OF_OLD_CONFIG: &str = "sbert_ce_default_activation_function";
const ACTIVATION: &str = "activation_fn";
/// The keys of a transformer's settings.
const MODALITIES: &str = "modality_config";
const MESSAGE: &str = "message";
const PROCESSING: &str = "processing_kwargs";
const GENERATION_PROMPT: &str = "add_generation_prompt";
const RESTORE_SUFFIX: &str = "restore_suffix";

/// The function that logits pass through where they are used. The loss is of the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreActivation {
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// x.
    Identity,
}

impl ScoreActivation {
    /// The function of a model folder with `config`, and where it names none, that of so many labels.
    pub fn of_model(config: &ModelConfig, num_labels: usize) -> Result<ScoreActivation> {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        let settings = read(&folder.join(SETTINGS))?.unwrap_or_default();
        let of_settings = (settings["model_type"] == "CrossEncoder").then(|| &settings[ACTIVATION]);
        let of_config = config.keys().get(OF_CONFIG).map(|settings| &settings[ACTIVATION]);
        let named = [of_settings, of_config, config.keys().get(OF_OLD_CONFIG)];
        match named.into_iter().flatten().find_map(Value::as_str) {
            Some(name) => ScoreActivation::from_name(name).ok_or_else(|| {
                let problem = format!("{name} is not supported: Sigmoid and Identity are");
                problem_in(config.path(), ACTIVATION, problem)
            }),
            None if num_labels == 1 => Ok(ScoreActivation::Sigmoid),
            None => Ok(ScoreActivation::Identity),
        }
    }

    fn from_name(name: &str) -> Option<ScoreActivation> {
        let all = [ScoreActivation::Sigmoid, ScoreActivation::Identity];
        let class = |it: &ScoreActivation| name.rsplit('.').next() == it.name().rsplit('.').next();
        all.into_iter().find(class)
    }

    fn name(self) -> &'static str {
        match self {
            ScoreActivation::Sigmoid => "torch.nn.modules.activation.Sigmoid",
            ScoreActivation::Identity => "torch.nn.modules.linear.Identity",
        }
    }

    /// The score of a logit.
    pub fn of(self, logit: f32) -> f32 {
        match self {
            ScoreActivation::Sigmoid => 1.0 / (1.0 + (-logit).exp()),
            ScoreActivation::Identity => logit,
        }
    }

    /// Sets it in a config.
    pub fn set(self, config: &mut ModelConfig) {
        config.remove(OF_OLD_CONFIG);
        let settings = config.keys().get(OF_CONFIG).and_then(Value::as_object).cloned();
        let mut settings: Map<String, Value> = settings.unwrap_or_default();
        settings.insert(ACTIVATION.to_owned(), self.name().into());
        config.set(OF_CONFIG, settings);
    }

    /// The files of a model whose pairs are cut to `max_seq_length` tokens, by their names. With `messages`, a chat
    /// template renders them.
    pub fn files(self, max_seq_length: u32, messages: Option<&MessageSettings>) -> ModelFiles {
        let modules = json!([{
            "idx": 0,
            "name": "0",
            "path": "",
            "type": "sentence_transformers.base.modules.transformer.Transformer",
        }]);
        let mut transformer = json!({
            "transformer_task": "sequence-classification",
            "max_seq_length": max_seq_length,
            MODALITIES: {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
        });
        if let Some(messages) = messages {
            messages.write(&mut transformer);
        }
        let settings = json!({
            "model_type": "CrossEncoder",
            ACTIVATION: self.name(),
            "default_prompt_name": null,
            "prompts": {},
        });
        json_files([(MODULES, modules), (TRANSFORMER, transformer), (SETTINGS, settings)])
    }
}

/// Settings of the messages that pairs are, in the files of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageSettings {
    /// The name of the format of contents; none where it follows from the template.
    pub format: Option<String>,
    /// Whether the beginning of an answer follows the messages.
    pub prompts: bool,
    /// Whether rows that are cut end as the template does.
    pub restores_end: bool,
}

impl MessageSettings {
    /// The settings of the model folder with `config`; none where its files say that it reads texts alone.
    pub fn of_model(config: &ModelConfig) -> Result<Option<MessageSettings>> {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        let path = folder.join(TRANSFORMER);
        let mut settings = MessageSettings { format: None, prompts: false, restores_end: true };
        if !folder.join(MODULES).exists() {
            return Ok(Some(settings));
        }
        // Versions before 6, which named no modalities, had no messages.
        let found = read(&path)?.unwrap_or_default();
        let Some(message) = found[MODALITIES].get(MESSAGE) else { return Ok(None) };
        settings.format = message["format"].as_str().map(str::to_owned);
        let given = found[PROCESSING]["chat_template"].as_object();
        for (key, value) in given.into_iter().flatten() {
            let flag = value.as_bool().ok_or(format!("{value} is not true or false"));
            let problem =
                |problem| problem_in(&path, &format!("{PROCESSING}.chat_template.{key}"), problem);
            match key.as_str() {
                GENERATION_PROMPT => settings.prompts = flag.map_err(problem)?,
                RESTORE_SUFFIX => settings.restores_end = flag.map_err(problem)?,
                _ => return Err(problem("is not supported".to_owned())),
            }
        }
        Ok(Some(settings))
    }

    /// Adds them to the settings of a transformer.
    fn write(&self, transformer: &mut Value) {
        let method = json!({"method": "forward", "method_output_name": "logits"});
        transformer[MODALITIES][MESSAGE] = method;
        transformer[MODALITIES][MESSAGE]["format"] = self.format.clone().into();
        let mut given = Map::new();
        if self.prompts {
            given.insert(GENERATION_PROMPT.to_owned(), true.into());
        }
        if !self.restores_end {
            given.insert(RESTORE_SUFFIX.to_owned(), false.into());
        }
        if !given.is_empty() {
            transformer[PROCESSING] = json!({"chat_template": given});
        }
    }
}

/// Returns true if the model of the folder with `config` scores pairs of texts. The files of sentence-transformers say
/// what a model is; without any, a classifier of one label does.
pub fn scores_pairs(config: &ModelConfig) -> Result<bool> {
    let folder = config.path().parent().unwrap_or(Path::new("."));
    let settings = read(&folder.join(SETTINGS))?.unwrap_or_default();
    if let Some(model_type) = settings["model_type"].as_str() {
        return Ok(model_type == "CrossEncoder");
    }
    let is_classifier =
        config.architecture().is_some_and(|name| name.ends_with("ForSequenceClassification"));
    let has_modules = folder.join(MODULES).exists();
    let is_named = [OF_CONFIG, OF_OLD_CONFIG].iter().any(|key| config.keys().contains_key(*key));
    Ok(is_classifier && !has_modules && (is_named || config.num_labels()? == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rerankers_are_told_from_other_models() {
        let check = |config: Value, files: &[(&str, Value)], expect| {
            let folder = tempfile::tempdir().unwrap();
            for (name, content) in files {
                std::fs::write(folder.path().join(name), content.to_string()).unwrap();
            }
            let keys = config.as_object().unwrap().clone();
            let config = ModelConfig::new(folder.path().join("config.json"), keys);
            assert_eq!(scores_pairs(&config).unwrap(), expect, "{:?}", config.keys());
        };
        let classifier = |more: Value| {
            let mut config = json!({"architectures": ["BertForSequenceClassification"]});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            config
        };
        let one = || classifier(json!({"id2label": {"0": "LABEL_0"}}));
        check(one(), &[], true);
        check(classifier(json!({})), &[], false);
        check(classifier(json!({(OF_CONFIG): {"version": "5"}})), &[], true);
        check(classifier(json!({(OF_OLD_CONFIG): "Identity"})), &[], true);
        check(json!({"architectures": ["BertModel"], (OF_CONFIG): {}}), &[], false);
        check(one(), &[(MODULES, json!([]))], false);
        let of_type = |name: &str| [(SETTINGS, json!({"model_type": name})), (MODULES, json!([]))];
        check(classifier(json!({})), &of_type("CrossEncoder"), true);
        check(one(), &of_type("SentenceTransformer"), false);
    }

    fn check(config: Value, settings: Option<Value>, num_labels: usize, expect: ScoreActivation) {
        let folder = tempfile::tempdir().unwrap();
        if let Some(settings) = settings {
            std::fs::write(folder.path().join(SETTINGS), settings.to_string()).unwrap();
        }
        let keys = config.as_object().unwrap().clone();
        let mut config = ModelConfig::new(folder.path().join("config.json"), keys);
        assert_eq!(ScoreActivation::of_model(&config, num_labels).unwrap(), expect);
        // What is written says the same.
        expect.set(&mut config);
        for (name, content) in expect.files(32, None) {
            std::fs::write(folder.path().join(name.as_ref()), content).unwrap();
        }
        assert_eq!(ScoreActivation::of_model(&config, num_labels).unwrap(), expect);
    }

    #[test]
    fn the_function_is_that_of_the_folder_or_of_its_labels() {
        let (sigmoid, identity) = (ScoreActivation::Sigmoid, ScoreActivation::Identity);
        check(json!({}), None, 1, sigmoid);
        check(json!({}), None, 3, identity);
        let named = json!({"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0"});
        check(json!({"sentence_transformers": named}), None, 1, identity);
        let old =
            json!({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"});
        check(old, None, 1, identity);
        let new = json!({"model_type": "CrossEncoder", "activation_fn": "torch.nn.Identity"});
        check(json!({}), Some(new), 1, identity);
        // The activation of a model of embeddings is none of scores.
        let other = json!({"model_type": "SentenceTransformer", "activation_fn": "torch.nn.Tanh"});
        check(json!({}), Some(other), 1, sigmoid);
    }

    #[test]
    fn other_functions_are_refused() {
        let keys = json!({"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}});
        let config = ModelConfig::new("m/config.json", keys.as_object().unwrap().clone());
        let error = ScoreActivation::of_model(&config, 1).unwrap_err().to_string();
        assert!(error.contains("torch.nn.Tanh is not supported"), "{error}");
    }

    /// Settings of messages are read as they are written.
    #[test]
    fn a_folder_says_whether_pairs_are_messages() {
        let folder = tempfile::tempdir().unwrap();
        let config = ModelConfig::new(folder.path().join("config.json"), Map::new());
        let read = || MessageSettings::of_model(&config);
        let usual = MessageSettings { format: None, prompts: false, restores_end: true };
        assert_eq!(read().unwrap(), Some(usual.clone()));
        let given =
            MessageSettings { format: Some("flat".to_owned()), prompts: true, restores_end: false };
        for settings in [None, Some(usual), Some(given)] {
            for (name, content) in ScoreActivation::Sigmoid.files(32, settings.as_ref()) {
                std::fs::write(folder.path().join(name.as_ref()), content).unwrap();
            }
            assert_eq!(read().unwrap(), settings);
        }
        std::fs::write(folder.path().join(TRANSFORMER), "{}").unwrap();
        assert_eq!(read().unwrap(), None);
        let processing = json!({"chat_template": {"enable_thinking": false}});
        let other = json!({MODALITIES: {MESSAGE: {}}, PROCESSING: processing});
        std::fs::write(folder.path().join(TRANSFORMER), other.to_string()).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(
            error.contains("chat_template.enable_thinking") && error.ends_with("is not supported")
        );
    }
}
