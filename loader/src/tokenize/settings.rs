//! The settings beside a tokenizer's vocabulary, merged as transformers 5 merges them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use tokenizers::AddedToken;

use super::setting_files::{ModelSettings, read_settings, token_content};
use crate::error::{Error, Result};

/// `PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES`.
pub(super) const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

const ADDED_TOKENS_DECODER: &str = "added_tokens_decoder";
const EXTRA_SPECIAL_TOKENS: &str = "extra_special_tokens";
const ADDITIONAL_SPECIAL_TOKENS: &str = "additional_special_tokens";

/// The content of `tokenizer_config.json` and of the files that older folders have besides.
#[derive(Clone)]
pub(super) struct Settings {
    keys: Map<String, Json>,
    /// The content of `added_tokens.json`: the id of each token.
    added: BTreeMap<String, u32>,
    /// The tokens of `added_tokens.json` that count as special ones.
    special_added: BTreeSet<String>,
    pub(super) model: ModelSettings,
}

/// A token as the settings state it. As in Python, a text is not equal to a token with flags.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stated {
    pub(super) token: AddedToken,
    pub(super) is_text: bool,
}

/// The fields of an added token in a file.
#[derive(Deserialize)]
struct TokenFields {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    normalized: Option<bool>,
    #[serde(default)]
    special: bool,
}

impl Settings {
    pub(super) fn read(folder: &Path) -> Result<Settings> {
        let mut keys: Map<String, Json> = read_settings(&folder.join("tokenizer_config.json"))?;
        let has_decoder = keys.contains_key(ADDED_TOKENS_DECODER);
        let added = match has_decoder {
            true => BTreeMap::new(),
            false => read_settings(&folder.join("added_tokens.json"))?,
        };
        let mut special_added = BTreeSet::new();
        if !has_decoder {
            let map: Map<String, Json> = read_settings(&folder.join("special_tokens_map.json"))?;
            special_added = special_names(&keys, &map);
            keys.extend(map.into_iter().map(|(name, token)| (name, marked_special(token))));
        }
        let model = ModelSettings::read(&folder.join("config.json"))?;
        Ok(Settings { keys, added, special_added, model })
    }

    /// The same settings with the flag `name`.
    pub(super) fn with_flag(&self, name: &str, value: bool) -> Settings {
        let mut changed = self.clone();
        changed.keys.insert(name.to_owned(), value.into());
        changed
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.keys.get(name)?.as_bool()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.keys.get(name)?.as_str()
    }

    /// Returns whether the settings have the key, if only as null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.keys.contains_key(name)
    }

    /// The special token `name`; a plain text is one without flags.
    pub(super) fn token(&self, name: &str) -> Option<AddedToken> {
        self.stated_token(name).map(|stated| stated.token)
    }

    pub(super) fn stated_token(&self, name: &str) -> Option<Stated> {
        special_token(self.keys.get(name)?)
    }

    /// Special tokens without a role of their own; `None` where the settings have no such list.
    pub(super) fn extra_tokens(&self) -> Option<Vec<Stated>> {
        let (extra, older) =
            (self.keys.get(EXTRA_SPECIAL_TOKENS), self.keys.get(ADDITIONAL_SPECIAL_TOKENS));
        let list = extra.filter(|list| !is_empty(list)).or(older).or(extra)?;
        match list {
            Json::Array(tokens) => Some(tokens.iter().filter_map(special_token).collect()),
            // Named ones of multimodal models.
            Json::Object(tokens) => Some(tokens.values().filter_map(special_token).collect()),
            _ => None,
        }
    }

    /// Added tokens by id: those of `added_tokens_decoder`, else those of `added_tokens.json` and then of
    /// the tokenizer's own file.
    pub(super) fn added_tokens(&self, of_file: &Json) -> Result<BTreeMap<u32, AddedToken>> {
        if let Some(decoder) = self.keys.get(ADDED_TOKENS_DECODER).and_then(Json::as_object) {
            let entries = decoder.iter().map(|(id, token)| {
                let id: u32 = id.parse().map_err(|_| bad_decoder(id))?;
                Ok((id, added_token(token).ok_or_else(|| bad_decoder(&id.to_string()))?))
            });
            return entries.collect();
        }
        let mut tokens: BTreeMap<u32, AddedToken> =
            self.added.iter().map(|(token, id)| (*id, self.legacy_token(token))).collect();
        for token in of_file.as_array().into_iter().flatten() {
            let id = token.get("id").and_then(Json::as_u64);
            if let Some((id, token)) = id.zip(added_token(token)) {
                tokens.insert(id as u32, token);
            }
        }
        Ok(tokens)
    }

    /// A text that changes with every setting that may change an encoding.
    pub(super) fn fingerprint(&self) -> String {
        let keys = self.keys.iter().filter(|(key, _)| *key != "chat_template");
        format!("{:?} {:?}", keys.collect::<Vec<_>>(), self.added)
    }

    /// A token of `added_tokens.json`: a special one only where the settings name it.
    fn legacy_token(&self, token: &str) -> AddedToken {
        AddedToken::from(token, self.special_added.contains(token))
    }
}

/// The special tokens that transformers finds when it reads `added_tokens.json`: at that time it has made tokens with
/// flags of `special_tokens_map.json` alone, so that of `tokenizer_config.json` only texts count.
fn special_names(config: &Map<String, Json>, map: &Map<String, Json>) -> BTreeSet<String> {
    let stated = |name: &str| match map.get(name) {
        Some(token) => token_content(token),
        None => config.get(name)?.as_str().map(str::to_owned),
    };
    let named = SPECIAL_TOKENS.iter().filter_map(|name| stated(name));
    let extra = |keys: &Map<String, Json>| {
        let list = [EXTRA_SPECIAL_TOKENS, ADDITIONAL_SPECIAL_TOKENS]
            .iter()
            .find_map(|name| keys.get(*name).filter(|list| !is_empty(list)));
        list.and_then(Json::as_array).cloned().unwrap_or_default()
    };
    let texts = |tokens: Vec<Json>| {
        tokens.into_iter().filter_map(|token| token.as_str().map(str::to_owned))
    };
    named.chain(texts(extra(config))).chain(extra(map).iter().filter_map(token_content)).collect()
}

fn bad_decoder(id: &str) -> Error {
    let message = format!("{ADDED_TOKENS_DECODER} has no token for {id}");
    Error::bad_tokenizer(Path::new("tokenizer_config.json"), message)
}

/// A token of `special_tokens_map.json`, all of which are special.
fn marked_special(mut token: Json) -> Json {
    if let Some(fields) = token.as_object_mut().filter(|fields| fields.contains_key("content")) {
        fields.insert("special".to_owned(), true.into());
    }
    token
}

fn special_token(stated: &Json) -> Option<Stated> {
    let token = match stated {
        Json::String(content) => AddedToken::from(content.as_str(), true),
        _ => {
            added_token(stated).or_else(|| Some(AddedToken::from(token_content(stated)?, true)))?
        }
    };
    Some(Stated { token, is_text: stated.is_string() })
}

/// A token with the flags of its fields, under `AddedToken`'s defaults.
fn added_token(token: &Json) -> Option<AddedToken> {
    let fields = TokenFields::deserialize(token).ok()?;
    Some(AddedToken {
        normalized: fields.normalized.unwrap_or(!fields.special),
        content: fields.content,
        single_word: fields.single_word,
        lstrip: fields.lstrip,
        rstrip: fields.rstrip,
        special: fields.special,
    })
}

fn is_empty(list: &Json) -> bool {
    match list {
        Json::Array(items) => items.is_empty(),
        Json::Object(items) => items.is_empty(),
        _ => true,
    }
}
