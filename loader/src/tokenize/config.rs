//! `tokenizer_config.json`, as far as we need it; tokenization proper lies in `tokenizer.json`.

use std::path::Path;

use serde::Deserialize;
use tokenizers::{PaddingDirection, Tokenizer, TruncationDirection};

use super::classes::Class;
use super::setting_files::read_settings;
use super::settings::Settings;
use super::{ModelInputs, PaddingSide};
use crate::error::Result;

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

/// transformers writes 1e30 for "no limit"; no position table is this long.
const MODEL_MAX_LENGTH_LIMIT: f64 = 1e6;

/// The longest row of the tokenizer in a folder, where its settings say it and can be read.
pub fn model_max_length(folder: &Path) -> Option<u32> {
    TokenizerConfig::read(&folder.join("tokenizer_config.json")).ok()?.max_length()
}

/// A special token is written as text or as an object with `content`.
#[derive(Default, Deserialize)]
pub(super) struct TokenizerConfig {
    model_max_length: Option<f64>,
    pub(super) truncation_side: Option<String>,
    padding_side: Option<PaddingSide>,
    pad_token_type_id: Option<u8>,
    model_input_names: Option<Vec<String>>,
    pub(super) clean_up_tokenization_spaces: Option<bool>,
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

    /// The side that long texts are cut on; `tokenizer.json` says it where the settings do not.
    pub(super) fn truncation_direction(&self, tokenizer: &Tokenizer) -> TruncationDirection {
        match self.truncation_side.as_deref() {
            Some("left") => TruncationDirection::Left,
            Some(_) => TruncationDirection::Right,
            None => tokenizer.get_truncation().map(|cut| cut.direction).unwrap_or_default(),
        }
    }

    /// The side that padding stands on; `tokenizer.json` says it where the settings do not, and else the class.
    pub(super) fn padding_side(&self, tokenizer: &Tokenizer, class: Class) -> PaddingSide {
        let direction = tokenizer.get_padding().map(|padding| match padding.direction {
            PaddingDirection::Left => PaddingSide::Left,
            PaddingDirection::Right => PaddingSide::Right,
        });
        self.padding_side.or(direction).unwrap_or_else(|| class.padding_side())
    }

    /// The segment of padding.
    pub(super) fn pad_token_type_id(&self, tokenizer: &Tokenizer) -> u8 {
        let padding = tokenizer.get_padding().map(|padding| padding.pad_type_id as u8);
        self.pad_token_type_id.or(padding).unwrap_or_default()
    }

    /// `model_input_names`, else those of the tokenizer's class.
    pub(super) fn model_inputs(&self, class: &str) -> ModelInputs {
        if let Some(names) = &self.model_input_names {
            let has = |name: &str| names.iter().any(|known| known == name);
            return ModelInputs {
                token_type_ids: has("token_type_ids"),
                attention_mask: has("attention_mask"),
                position_ids: false,
            };
        }
        let token_type_ids = CLASSES_WITH_SEGMENTS.contains(&class);
        ModelInputs { token_type_ids, attention_mask: true, position_ids: false }
    }
}

/// The padding token: that of the settings, else of the class, else of `tokenizer.json` where the class has none.
pub(super) fn pad_token_id(
    tokenizer: &Tokenizer,
    class: Class,
    settings: &Settings,
) -> Option<u32> {
    let of_file = tokenizer.get_padding().map(|padding| padding.pad_token.as_str());
    let of_file = of_file.filter(|_| class.takes_padding_token());
    let usual = class.default_token("pad_token").or(of_file);
    id(tokenizer, settings, "pad_token", usual.as_slice())
}

/// The token that stands for "no answer": where there is none, what begins a text.
pub(super) fn cls_token_id(tokenizer: &Tokenizer, settings: &Settings) -> Option<u32> {
    let cls = id(tokenizer, settings, "cls_token", &[]);
    cls.or_else(|| id(tokenizer, settings, "bos_token", &["[CLS]", "<s>"]))
}

pub(super) fn mask_token_id(tokenizer: &Tokenizer, settings: &Settings) -> Option<u32> {
    id(tokenizer, settings, "mask_token", &["[MASK]", "<mask>"])
}

/// The id of the special token `name`, or where the settings do not mention it, of its usual spellings:
/// settings of old tokenizers leave out what was their class's default. Null is no token.
fn id(tokenizer: &Tokenizer, settings: &Settings, name: &str, usual: &[&str]) -> Option<u32> {
    match settings.has(name) {
        true => tokenizer.token_to_id(&settings.token(name)?.content),
        false => usual.iter().find_map(|token| tokenizer.token_to_id(token)),
    }
}
