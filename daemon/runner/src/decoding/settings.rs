//! Settings of generation: transformers' `generation_config.json`, or the same keys of a
//! `config.json` from before there was one, and what a job or a command sets above them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use traind_durable::read_description;
use traind_job_file::nearest_key;
use traind_models::ModelConfig;

use crate::error::{RunError, RunResult};

const FILE_NAME: &str = "generation_config.json";
/// The tokens that are written where nothing sets a limit.
const NEW_TOKENS: usize = 20;
/// The default of `top_k`.
const TOP_K: usize = 50;

/// Resolved settings: transformers' defaults where nothing is set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GenerationSettings {
    max_length: Option<usize>,
    max_new_tokens: Option<usize>,
    pub min_length: usize,
    pub min_new_tokens: usize,
    pub num_beams: usize,
    pub early_stopping: EarlyStopping,
    pub length_penalty: f64,
    pub repetition_penalty: f64,
    pub no_repeat_ngram_size: usize,
    pub forced_bos_token_id: Option<u32>,
    pub forced_eos_token_ids: Vec<u32>,
    pub suppress_tokens: Vec<u32>,
    pub begin_suppress_tokens: Vec<u32>,
    pub eos_token_ids: Vec<u32>,
    decoder_start_token_id: Option<u32>,
    /// Present where tokens are drawn rather than chosen (`do_sample`).
    pub sampling: Option<Sampling>,
    path: PathBuf,
    /// The keys that are set above those of the model.
    given: Vec<String>,
}

/// A text whose least length is beyond its greatest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unfeasible {
    /// The setting of the least length.
    key: &'static str,
    problem: String,
    /// Whether that setting is one above those of the model.
    is_given: bool,
}

/// When a beam search ends (`early_stopping`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlyStopping {
    /// When no better text is likely (`false`).
    Likely,
    /// When there are as many texts as beams (`true`).
    Full,
    /// When no better text is possible (`never`).
    Never,
}

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    pub temperature: f64,
    /// The number of tokens to draw from; 0 for all.
    pub top_k: usize,
    pub top_p: f64,
}

impl GenerationSettings {
    /// Reads the settings of a model folder and replaces those in `overrides`. Adapters without settings of their own
    /// have those of their base model, whose folder has the config.
    pub(crate) fn of_model(
        config: &ModelConfig,
        folder: &Path,
        overrides: &Map<String, Value>,
    ) -> RunResult<GenerationSettings> {
        let of_base = config.path().with_file_name(FILE_NAME);
        let found = match Self::read(folder.join(FILE_NAME))? {
            Some(found) => Some(found),
            None => Self::read(of_base)?,
        };
        let of_config = || (config.path().to_owned(), config.keys().clone());
        let (path, mut keys) = found.unwrap_or_else(of_config);
        overrides.keys().try_for_each(|key| refuse_unknown(key))?;
        keys.extend(overrides.clone());
        let given = overrides.keys().cloned().collect();
        Ok(GenerationSettings { given, ..Keys { path, keys }.resolve()? })
    }

    /// The keys of a file, with its path; None where there is none.
    fn read(path: PathBuf) -> RunResult<Option<(PathBuf, Map<String, Value>)>> {
        match read_description(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(keys) => Ok(Some((path, keys))),
                Err(source) => Err(traind_models::Error::Json { path, source }.into()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RunError::Output { action: "read", path, source }),
        }
    }

    /// The most tokens that a text of the decoder may have, its `prompt` tokens among them. The
    /// default is cut to the `positions` of the model.
    pub(crate) fn max_length(&self, prompt: usize, positions: usize) -> usize {
        match (self.max_new_tokens, self.max_length) {
            (Some(tokens), _) => prompt + tokens,
            (None, Some(length)) => length,
            (None, None) => (prompt + NEW_TOKENS).min(positions),
        }
    }

    /// The setting that says how long texts are.
    pub(crate) fn length_key(&self) -> &'static str {
        match (self.max_new_tokens, self.max_length) {
            (None, Some(_)) => "max_length",
            _ => "max_new_tokens",
        }
    }

    /// Finds that a text cannot be as long as the settings demand. It is written up to its greatest length, as in
    /// transformers, where the demand is the model's own.
    pub(crate) fn unfeasible(&self, prompt: usize, positions: usize) -> Option<Unfeasible> {
        let length = self.max_length(prompt, positions);
        let least = [
            ("min_new_tokens", prompt + self.min_new_tokens, prompt),
            ("min_length", self.min_length, 0),
        ];
        let (key, least, before) = least.into_iter().find(|(_, least, _)| *least > length)?;
        let limit = match (self.max_new_tokens, self.max_length) {
            (None, None) => format!("{NEW_TOKENS} new ones are the default of max_new_tokens"),
            _ => format!("{} ends them at {}", self.length_key(), length - before),
        };
        let problem = format!(
            "texts of at least {} tokens, and {limit}: lower {key}, or set {} to more",
            least - before,
            self.length_key()
        );
        let is_given = self.given.iter().any(|given| given == key);
        Some(Unfeasible { key, problem, is_given })
    }

    /// The token that the decoder of an encoder-decoder model reads first.
    pub(crate) fn decoder_start(&self) -> RunResult<u32> {
        let problem = "expected the token that the decoder reads first, found none";
        self.decoder_start_token_id
            .ok_or_else(|| error(&self.path, "decoder_start_token_id", problem.to_owned()))
    }

    /// An error about `key`.
    pub(crate) fn error(&self, key: &str, problem: String) -> RunError {
        error(&self.path, key, problem)
    }
}

impl Unfeasible {
    /// Refuses what is set above the model's own settings.
    pub(crate) fn refuse(&self, settings: &GenerationSettings) -> RunResult<()> {
        match self.is_given {
            true => Err(settings.error(self.key, self.problem.clone())),
            false => Ok(()),
        }
    }

    /// A warning about the model's own settings.
    pub(crate) fn warning(&self, settings: &GenerationSettings) -> String {
        format!("{}: {}: {}", settings.path.display(), self.key, self.problem)
    }
}

/// The keys of a file with what is set above them.
struct Keys {
    path: PathBuf,
    keys: Map<String, Value>,
}

/// Keys that no setting here stands for, and the values at which they change nothing besides `null`.
const UNSUPPORTED: &[(&str, f64)] = &[
    ("assistant_early_exit", f64::NAN),
    ("bad_words_ids", f64::NAN),
    ("constraints", f64::NAN),
    ("diversity_penalty", 0.0),
    ("dola_layers", f64::NAN),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("exponential_decay_length_penalty", f64::NAN),
    ("force_words_ids", f64::NAN),
    ("guidance_scale", 1.0),
    ("max_time", f64::NAN),
    ("min_p", 0.0),
    ("num_beam_groups", 1.0),
    ("num_return_sequences", 1.0),
    ("penalty_alpha", 0.0),
    ("prompt_lookup_num_tokens", f64::NAN),
    ("remove_invalid_values", 0.0),
    ("renormalize_logits", 0.0),
    ("sequence_bias", f64::NAN),
    ("stop_strings", f64::NAN),
    ("token_healing", 0.0),
    ("top_h", f64::NAN),
    ("typical_p", 1.0),
    ("use_mtp", 0.0),
    ("watermarking_config", f64::NAN),
];

/// Keys that a setting here stands for.
const SUPPORTED: &[&str] = &[
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "do_sample",
    "early_stopping",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beams",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
];

/// Keys of transformers that change nothing here, whatever their values.
const WITHOUT_EFFECT: &[&str] = &[
    "cache_config",
    "cache_implementation",
    "disable_compile",
    "low_memory",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "return_dict_in_generate",
    "use_cache",
];

/// The least similarity of a key that an unknown one may stand for.
const SIMILARITY_MIN: f64 = 0.6;

/// Refuses a key that is given and that no version of transformers reads, such as a misspelled one. Those of a model's
/// own file may be of versions to come.
fn refuse_unknown(key: &str) -> RunResult<()> {
    let unsupported = UNSUPPORTED.iter().map(|(key, _)| *key);
    let mut known = SUPPORTED.iter().chain(WITHOUT_EFFECT).copied().chain(unsupported);
    if known.clone().any(|known| known == key) {
        return Ok(());
    }
    let nearest = nearest_key(key, &mut known, SIMILARITY_MIN);
    let nearest = nearest.map(|key| format!("; did you mean {key}?")).unwrap_or_default();
    let problem = format!("is no setting of generation{nearest}");
    Err(error(Path::new("settings"), key, problem))
}

impl Keys {
    fn resolve(self) -> RunResult<GenerationSettings> {
        self.refuse_unsupported()?;
        let num_beams = self.count("num_beams")?.unwrap_or(1).max(1);
        let sampling = self.sampling()?;
        if num_beams > 1 && sampling.is_some() {
            let problem = "cannot be true with num_beams above 1: beams are chosen, not drawn";
            return Err(self.error("do_sample", problem));
        }
        let eos_token_ids = self.tokens("eos_token_id")?;
        let start = self.token("decoder_start_token_id")?;
        Ok(GenerationSettings {
            max_length: self.count("max_length")?,
            max_new_tokens: self.count("max_new_tokens")?,
            min_length: self.count("min_length")?.unwrap_or(0),
            min_new_tokens: self.count("min_new_tokens")?.unwrap_or(0),
            num_beams,
            early_stopping: self.early_stopping()?,
            length_penalty: self.number("length_penalty")?.unwrap_or(1.0),
            repetition_penalty: self.positive("repetition_penalty")?,
            no_repeat_ngram_size: self.count("no_repeat_ngram_size")?.unwrap_or(0),
            forced_bos_token_id: self.token("forced_bos_token_id")?,
            forced_eos_token_ids: self.tokens("forced_eos_token_id")?,
            suppress_tokens: self.tokens("suppress_tokens")?,
            begin_suppress_tokens: self.tokens("begin_suppress_tokens")?,
            decoder_start_token_id: start.or(self.token("bos_token_id")?),
            eos_token_ids,
            sampling,
            path: self.path,
            given: Vec::new(),
        })
    }

    fn refuse_unsupported(&self) -> RunResult<()> {
        for (key, neutral) in UNSUPPORTED {
            let value = self.keys.get(*key).unwrap_or(&Value::Null);
            let number = value.as_bool().map(|set| f64::from(u8::from(set))).or(value.as_f64());
            if !value.is_null() && number != Some(*neutral) {
                return Err(self.error(key, &format!("{value} is not supported: remove the key")));
            }
        }
        Ok(())
    }

    fn sampling(&self) -> RunResult<Option<Sampling>> {
        if !self.typed("do_sample", "true or false", Value::as_bool)?.unwrap_or(false) {
            return Ok(None);
        }
        let top_p = self.number("top_p")?.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&top_p) {
            return Err(
                self.error("top_p", &format!("expected a number from 0 to 1, found {top_p}"))
            );
        }
        let top_k = self.count("top_k")?.unwrap_or(TOP_K);
        Ok(Some(Sampling { temperature: self.positive("temperature")?, top_k, top_p }))
    }

    fn early_stopping(&self) -> RunResult<EarlyStopping> {
        let expected = "true, false or \"never\"";
        let read = |value: &Value| match value {
            Value::Bool(false) => Some(EarlyStopping::Likely),
            Value::Bool(true) => Some(EarlyStopping::Full),
            _ => (value == "never").then_some(EarlyStopping::Never),
        };
        Ok(self.typed("early_stopping", expected, read)?.unwrap_or(EarlyStopping::Likely))
    }

    fn count(&self, key: &str) -> RunResult<Option<usize>> {
        let read = |value: &Value| value.as_u64().filter(|count| *count <= i32::MAX as u64);
        Ok(self.typed(key, "a whole number", read)?.map(|count| count as usize))
    }

    fn number(&self, key: &str) -> RunResult<Option<f64>> {
        self.typed(key, "a number", Value::as_f64)
    }

    /// A number above 0, by default 1.
    fn positive(&self, key: &str) -> RunResult<f64> {
        let read = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        Ok(self.typed(key, "a number above 0", read)?.unwrap_or(1.0))
    }

    fn token(&self, key: &str) -> RunResult<Option<u32>> {
        self.typed(key, "a token id", token)
    }

    /// One token or several.
    fn tokens(&self, key: &str) -> RunResult<Vec<u32>> {
        let read = |value: &Value| match value {
            Value::Array(values) => values.iter().map(token).collect(),
            value => token(value).map(|token| vec![token]),
        };
        Ok(self.typed(key, "a token id, or a list of them", read)?.unwrap_or_default())
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> RunResult<Option<T>> {
        let Some(value) = self.keys.get(key).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.error(key, &format!("expected {expected}, found {value}"))),
        }
    }

    fn error(&self, key: &str, problem: &str) -> RunError {
        error(&self.path, key, problem.to_owned())
    }
}

fn token(value: &Value) -> Option<u32> {
    value.as_u64().filter(|id| *id <= i32::MAX as u64).map(|id| id as u32)
}

fn error(path: &Path, key: &str, problem: String) -> RunError {
    let (path, key) = (path.to_owned(), key.to_owned());
    traind_models::Error::Config { path, key, problem }.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(keys: Value) -> RunResult<GenerationSettings> {
        let Value::Object(keys) = keys else { panic!("not an object: {keys}") };
        Keys { path: "generation_config.json".into(), keys }.resolve()
    }

    /// Texts once ended only where the base model's `config.json` said so.
    #[test]
    fn adapters_have_the_settings_of_their_base_model() {
        let [base, adapters] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let write = |folder: &tempfile::TempDir, name: &str, keys: Value| {
            std::fs::write(folder.path().join(name), keys.to_string()).unwrap();
        };
        let check = |expect: &[u32]| {
            let config = ModelConfig::load(base.path(), &Map::new()).unwrap();
            let found = GenerationSettings::of_model(&config, adapters.path(), &Map::new());
            assert_eq!(found.unwrap().eos_token_ids, expect);
        };
        write(&base, "config.json", json!({"model_type": "llama", "eos_token_id": 2}));
        check(&[2]);
        write(&base, FILE_NAME, json!({"eos_token_id": [3, 4]}));
        check(&[3, 4]);
        write(&adapters, FILE_NAME, json!({"eos_token_id": 5}));
        check(&[5]);
    }

    #[test]
    fn lengths_count_the_prompt_unless_new_tokens_are_set() {
        let length = |keys, prompt| settings(keys).unwrap().max_length(prompt, 1000);
        assert_eq!(length(json!({}), 5), 25);
        assert_eq!(length(json!({"max_length": 30}), 5), 30);
        assert_eq!(length(json!({"max_length": 30, "max_new_tokens": 4}), 5), 9);
        assert_eq!(settings(json!({})).unwrap().max_length(5, 16), 16);
    }

    #[test]
    fn a_given_length_that_no_text_can_have_is_refused_and_one_of_the_model_is_not() {
        let check = |keys: Value, given: &[&str], expect: Option<Result<(), &str>>| {
            let given = given.iter().map(|key| (*key).to_owned()).collect();
            let settings = GenerationSettings { given, ..settings(keys).unwrap() };
            let found = settings.unfeasible(3, 40);
            let refused = found.as_ref().map(|found| found.refuse(&settings));
            match (refused, expect) {
                (None, None) | (Some(Ok(())), Some(Ok(()))) => {}
                (Some(Err(error)), Some(Err(expect))) => {
                    assert!(error.to_string().ends_with(expect), "{error}");
                }
                other => panic!("{other:?}"),
            }
        };
        check(json!({"min_new_tokens": 4, "max_new_tokens": 4}), &["min_new_tokens"], None);
        check(json!({"min_length": 30, "max_length": 30}), &["min_length"], None);
        let both = json!({"min_new_tokens": 5, "max_new_tokens": 4});
        let expect = "min_new_tokens: texts of at least 5 tokens, and max_new_tokens ends them at 4: lower \
                      min_new_tokens, or set max_new_tokens to more";
        check(both.clone(), &["min_new_tokens"], Some(Err(expect)));
        check(both, &["max_new_tokens"], Some(Ok(())));
        let expect = "min_length: texts of at least 9 tokens, and max_length ends them at 8: lower min_length, or set \
                      max_length to more";
        check(json!({"min_length": 9, "max_length": 8}), &["min_length"], Some(Err(expect)));
        let expect = "texts of at least 21 tokens, and 20 new ones are the default of max_new_tokens: lower \
                      min_new_tokens, or set max_new_tokens to more";
        check(json!({"min_new_tokens": 21}), &["min_new_tokens"], Some(Err(expect)));
    }

    #[test]
    fn keys_that_would_change_the_text_and_are_not_supported_are_refused() {
        let neutral = json!({"typical_p": 1.0, "num_beam_groups": 1, "bad_words_ids": null,
            "renormalize_logits": false, "guidance_scale": 1, "transformers_version": "5.23.0"});
        settings(neutral).unwrap();
        let refused = |keys| settings(keys).unwrap_err().to_string();
        let message = refused(json!({"typical_p": 0.9}));
        assert!(message.ends_with("typical_p: 0.9 is not supported: remove the key"), "{message}");
        assert!(refused(json!({"bad_words_ids": [[1]]})).contains("bad_words_ids"));
        assert!(refused(json!({"do_sample": true, "num_beams": 2})).contains("do_sample"));
        assert!(refused(json!({"eos_token_id": "x"})).contains("found \"x\""));
    }

    /// A misspelled setting generated as if it were not there.
    #[test]
    fn given_keys_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({"model_type": "llama", "max_new_token": 5});
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let config = ModelConfig::load(folder.path(), &Map::new()).unwrap();
        let read = |keys: Value| {
            let found =
                GenerationSettings::of_model(&config, folder.path(), keys.as_object().unwrap());
            found.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(read(json!({"max_new_tokens": 5, "use_cache": true, "min_p": null})), Ok(()));
        let expect =
            "settings: max_new_token: is no setting of generation; did you mean max_new_tokens?";
        assert_eq!(read(json!({"max_new_token": 5})), Err(expect.to_owned()));
        let expect = "settings: voice: is no setting of generation";
        assert_eq!(read(json!({"voice": "low"})), Err(expect.to_owned()));
    }

    #[test]
    fn each_supported_key_is_read() {
        for key in SUPPORTED {
            let keys = json!({"do_sample": true, *key: "no value of any"});
            let error = settings(keys).unwrap_err().to_string();
            assert!(error.contains(&format!("{key}: expected ")), "{error}");
        }
    }

    #[test]
    fn tokens_are_one_or_several() {
        let read = settings(json!({"eos_token_id": [2, 7], "forced_eos_token_id": 2})).unwrap();
        assert_eq!((read.eos_token_ids, read.forced_eos_token_ids), (vec![2, 7], vec![2]));
        let sampling = settings(json!({"do_sample": true, "temperature": 0.5})).unwrap().sampling;
        assert_eq!(sampling, Some(Sampling { temperature: 0.5, top_k: 50, top_p: 1.0 }));
    }
}
