//! `tokenizer_config.json`, as far as we need it; tokenization proper lies in `tokenizer.json`.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use tokenizers::{PaddingDirection, Tokenizer, TruncationDirection};

use super::{ModelInputs, PaddingSide};
use crate::{Error, Result};

/// Tokenizer classes of transformers that give segment ids unless `model_input_names` says
/// otherwise; the others give none.
const CLASSES_WITH_SEGMENTS: &[&str] = &[
    "BertTokenizer",
    "CanineTokenizer",
    "DebertaTokenizer",
    "DebertaV2Tokenizer",
    "FNetTokenizer",
    "LayoutLMv2Tokenizer",
    "MarkupLMTokenizer",
    "TapasTokenizer",
];

/// Tokenizer classes of transformers that make their normalizer from the settings.
const CLASSES_WITH_NORMALIZER: &[&str] = &["BertTokenizer", "DistilBertTokenizer"];

/// transformers writes 1e30 for "no limit"; no position table is this long.
const MODEL_MAX_LENGTH_LIMIT: f64 = 1e6;

/// A special token is written as text or as an object with `content`.
#[derive(Default, Deserialize)]
pub(super) struct TokenizerConfig {
    model_max_length: Option<f64>,
    pad_token: Option<Json>,
    cls_token: Option<Json>,
    bos_token: Option<Json>,
    mask_token: Option<Json>,
    pub(super) truncation_side: Option<String>,
    padding_side: Option<PaddingSide>,
    pad_token_type_id: Option<u8>,
    model_input_names: Option<Vec<String>>,
    tokenizer_class: Option<String>,
    do_lower_case: Option<bool>,
    strip_accents: Option<bool>,
    tokenize_chinese_chars: Option<bool>,
    pub(super) clean_up_tokenization_spaces: Option<bool>,
}

/// The settings in `config.json` that concern the tokenizer.
#[derive(Default, Deserialize)]
pub(super) struct ModelSettings {
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default)]
    tokenizer_class: Option<String>,
}

impl ModelSettings {
    pub(super) fn read(file: &Path) -> Result<Self> {
        read_settings(file)
    }
}

impl TokenizerConfig {
    pub(super) fn read(file: &Path) -> Result<Self> {
        read_settings(file)
    }

    pub(super) fn max_length(&self) -> Option<u32> {
        let length =
            self.model_max_length.filter(|length| (1.0..MODEL_MAX_LENGTH_LIMIT).contains(length));
        length.map(|length| length as u32)
    }

    pub(super) fn truncation_direction(&self) -> TruncationDirection {
        match self.truncation_side.as_deref() {
            Some("left") => TruncationDirection::Left,
            _ => TruncationDirection::Right,
        }
    }

    pub(super) fn pad_token_id(&self, tokenizer: &Tokenizer) -> Option<u32> {
        let padding = tokenizer.get_padding().map(|padding| padding.pad_id);
        id(tokenizer, &self.pad_token, &[]).or(padding)
    }

    /// The side that padding stands on; `tokenizer.json` says it where the settings do not.
    pub(super) fn padding_side(&self, tokenizer: &Tokenizer) -> PaddingSide {
        let direction = tokenizer.get_padding().map(|padding| match padding.direction {
            PaddingDirection::Left => PaddingSide::Left,
            PaddingDirection::Right => PaddingSide::Right,
        });
        self.padding_side.or(direction).unwrap_or_default()
    }

    /// The segment of padding.
    pub(super) fn pad_token_type_id(&self, tokenizer: &Tokenizer) -> u8 {
        let padding = tokenizer.get_padding().map(|padding| padding.pad_type_id as u8);
        self.pad_token_type_id.or(padding).unwrap_or_default()
    }

    /// `model_input_names`, else those of the tokenizer's class.
    pub(super) fn model_inputs(&self, model: &ModelSettings) -> ModelInputs {
        if let Some(names) = &self.model_input_names {
            let has = |name: &str| names.iter().any(|known| known == name);
            return ModelInputs {
                token_type_ids: has("token_type_ids"),
                attention_mask: has("attention_mask"),
                position_ids: false,
            };
        }
        let token_type_ids = CLASSES_WITH_SEGMENTS.contains(&self.class(model));
        ModelInputs { token_type_ids, attention_mask: true, position_ids: false }
    }

    /// The tokenizer's class, which `AutoTokenizer` takes from the settings or from the type of the
    /// model.
    fn class<'a>(&'a self, model: &'a ModelSettings) -> &'a str {
        let of_type = match model.model_type.as_deref() {
            Some("bert" | "distilbert") | None => "BertTokenizer",
            Some(_) => "",
        };
        let class = self.tokenizer_class.as_deref().or(model.tokenizer_class.as_deref());
        let class = class.unwrap_or(of_type);
        class.strip_suffix("Fast").unwrap_or(class)
    }

    /// Puts what the settings say of the normalizer into the content of a `tokenizer.json`.
    pub(super) fn with_normalizer(&self, model: &ModelSettings, bytes: Vec<u8>) -> Vec<u8> {
        let stated = [
            ("lowercase", self.do_lower_case),
            ("strip_accents", self.strip_accents),
            ("handle_chinese_chars", self.tokenize_chinese_chars),
        ];
        let stated =
            stated.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
        if !CLASSES_WITH_NORMALIZER.contains(&self.class(model)) {
            return bytes;
        }
        // What is not JSON is an error of the tokenizer, later.
        let mut tokenizer: Json = serde_json::from_slice(&bytes).unwrap_or_default();
        let normalizer = tokenizer.get_mut("normalizer").and_then(Json::as_object_mut);
        let of_bert =
            |it: &&mut Map<String, Json>| it.get("type") == Some(&"BertNormalizer".into());
        let Some(normalizer) = normalizer.filter(of_bert) else { return bytes };
        let before = normalizer.clone();
        normalizer.extend(stated);
        if *normalizer == before { bytes } else { tokenizer.to_string().into_bytes() }
    }

    /// The token that stands for "no answer": where there is none, what begins a text.
    pub(super) fn cls_token_id(&self, tokenizer: &Tokenizer) -> Option<u32> {
        let cls = id(tokenizer, &self.cls_token, &[]);
        cls.or_else(|| id(tokenizer, &self.bos_token, &["[CLS]", "<s>"]))
    }

    pub(super) fn mask_token_id(&self, tokenizer: &Tokenizer) -> Option<u32> {
        id(tokenizer, &self.mask_token, &["[MASK]", "<mask>"])
    }
}

/// The content of a JSON file; the default if there is no such file.
pub(crate) fn read_settings<T: DeserializeOwned + Default>(file: &Path) -> Result<T> {
    match std::fs::read(file) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|error| Error::bad_tokenizer(file, error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(Error::io(file, "read the tokenizer's settings")(error)),
    }
}

/// The text of a special token, however it is written.
pub(crate) fn token_content(token: &Json) -> Option<String> {
    token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned)
}

/// The id of a token, or where the settings do not name it, of its usual spellings: settings of
/// old tokenizers leave out what was their class's default.
fn id(tokenizer: &Tokenizer, named: &Option<Json>, usual: &[&str]) -> Option<u32> {
    match named.as_ref().and_then(token_content) {
        Some(token) => tokenizer.token_to_id(&token),
        None => usual.iter().find_map(|token| tokenizer.token_to_id(token)),
    }
}
