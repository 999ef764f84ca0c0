//! Tokens that are added to the tokenizer of a model folder, as `add_tokens` and
//! `add_special_tokens` of transformers add them.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use tokenizers::{AddedToken, Tokenizer};
use traind_durable::read_description;

use super::setting_files::read_settings;
use crate::error::{Error, Result};
use crate::guard::guard;

const TOKENIZER: &str = "tokenizer.json";
const SETTINGS: &str = "tokenizer_config.json";
/// The file that older folders have besides, which comes before the other.
const ROLES: &str = "special_tokens_map.json";
const DECODER: &str = "added_tokens_decoder";

/// The tokens to add.
#[derive(Clone, Debug, Default)]
pub struct NewTokens {
    /// Tokens that are ordinary words of the vocabulary.
    pub plain: Vec<String>,
    /// Special tokens that have a role, with its name, such as `pad_token`.
    pub roles: Vec<(String, String)>,
    /// Special tokens without a role.
    pub special: Vec<String>,
}

/// A tokenizer with more tokens, by the files of a model folder.
pub struct ExtendedTokenizer {
    /// The number of ids.
    pub vocab_size: u32,
    /// The id of each token that has a role, with the role's name.
    pub roles: Vec<(String, u32)>,
    files: Vec<(&'static str, String)>,
}

impl ExtendedTokenizer {
    /// Adds tokens to the tokenizer of `folder`, which must have a `tokenizer.json`.
    pub fn new(folder: &Path, tokens: &NewTokens) -> Result<Self> {
        let file = folder.join(TOKENIZER);
        let bad = |message: &str| Error::bad_tokenizer(&file, message);
        let bytes = match read_description(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(bad("tokens can be added to a tokenizer.json alone; save the \
                                tokenizer with transformers, which writes one"));
            }
            Err(error) => return Err(Error::io(&file, "read the tokenizer")(error)),
        };
        let tokenizer = guard(&file, "load the tokenizer", || {
            let mut tokenizer = Tokenizer::from_bytes(&bytes)
                .map_err(|error| Error::bad_tokenizer(&file, error))?;
            tokens.add_to(&mut tokenizer).map_err(|error| Error::bad_tokenizer(&file, error))?;
            Ok(tokenizer)
        })?;
        let text = tokenizer.to_string(true);
        let text = text.map_err(|error| Error::bad_tokenizer(&file, error))?;
        let mut files = vec![(TOKENIZER, text)];
        for name in [SETTINGS, ROLES] {
            let keys: Map<String, Json> = read_settings(&folder.join(name))?;
            if name == SETTINGS || !keys.is_empty() {
                let keys = serde_json::to_string_pretty(&tokens.settings(keys, &tokenizer));
                files.push((name, keys.map_err(|error| Error::bad_tokenizer(&file, error))?));
            }
        }
        let ids = tokenizer.get_vocab(true);
        let id = |(role, token): &(String, String)| Some((role.clone(), *ids.get(token)?));
        Ok(Self {
            vocab_size: ids.values().max().map_or(0, |id| id.saturating_add(1)),
            roles: tokens.roles.iter().filter_map(id).collect(),
            files,
        })
    }

    /// The names of its files with their content.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.files.iter().map(|(name, content)| (*name, content.as_str()))
    }
}

impl NewTokens {
    fn all_special(&self) -> impl Iterator<Item = &String> {
        self.roles.iter().map(|(_, token)| token).chain(&self.special)
    }

    fn add_to(&self, tokenizer: &mut Tokenizer) -> tokenizers::Result<()> {
        tokenizer
            .add_tokens(self.plain.iter().map(|token| AddedToken::from(token.as_str(), false)))?;
        let special = self.all_special().map(|token| AddedToken::from(token.as_str(), true));
        tokenizer.add_special_tokens(special)?;
        Ok(())
    }

    /// The settings beside the vocabulary with the roles, and with the new tokens where they list all
    /// added ones: transformers prefers that list to tokenizer.json.
    fn settings(&self, mut keys: Map<String, Json>, tokenizer: &Tokenizer) -> Map<String, Json> {
        for (role, token) in &self.roles {
            keys.insert(role.clone(), token.as_str().into());
        }
        if !self.special.is_empty() {
            let key = match keys.contains_key("extra_special_tokens") {
                true => "extra_special_tokens",
                false => "additional_special_tokens",
            };
            let known = keys.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
            let more = self.special.iter().map(|token| Json::from(token.as_str()));
            let more = more.filter(|token| !known.contains(token)).collect::<Vec<_>>();
            keys.insert(key.to_owned(), [known, more].concat().into());
        }
        let added = tokenizer.get_added_tokens_decoder();
        if let Some(decoder) = keys.get_mut(DECODER).and_then(Json::as_object_mut) {
            for (id, token) in added {
                decoder.entry(id.to_string()).or_insert_with(|| entry(&token));
            }
        }
        keys
    }
}

fn entry(token: &AddedToken) -> Json {
    json!({
        "content": token.content, "single_word": token.single_word, "lstrip": token.lstrip,
        "rstrip": token.rstrip, "normalized": token.normalized, "special": token.special,
    })
}
