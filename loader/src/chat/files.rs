//! The files of a tokenizer's folder that concern its chat template.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use crate::tokenize::{read_settings, token_content};
use crate::{Error, Result};

/// The token that ends a text.
pub(super) const EOS_TOKEN: &str = "eos_token";
const TEMPLATE: &str = "chat_template";
const SETTINGS: &str = "tokenizer_config.json";
/// The name of the template that is used where there are several.
const DEFAULT: &str = "default";
/// The named special tokens, which templates have as variables.
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", EOS_TOKEN, "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// The longest template.
const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// The template: `chat_template.jinja`, else that of `tokenizer_config.json`.
pub(super) fn template(folder: &Path) -> Result<Option<(PathBuf, String)>> {
    let file = folder.join("chat_template.jinja");
    if let Some(source) = read_limited(&file)? {
        return Ok(Some((file, source)));
    }
    let file = folder.join(SETTINGS);
    let settings: Map<String, Json> = read_settings(&file)?;
    let source = match settings.get(TEMPLATE) {
        Some(Json::String(source)) => Some(source.clone()),
        Some(Json::Array(named)) => Some(default_of(named).ok_or_else(|| {
            Error::bad_template(&file, "none of its chat templates is called \"default\"")
        })?),
        _ => None,
    };
    match source {
        Some(source) if source.len() as u64 > TEMPLATE_BYTES_MAX => Err(too_long(&file)),
        source => Ok(source.map(|source| (file, source))),
    }
}

/// The special tokens that the settings name.
pub(super) fn special_tokens(folder: &Path) -> Result<BTreeMap<String, String>> {
    let settings: Map<String, Json> = read_settings(&folder.join(SETTINGS))?;
    let tokens = SPECIAL_TOKENS.iter().filter_map(|name| {
        let token = settings.get(*name).and_then(token_content)?;
        Some(((*name).to_owned(), token))
    });
    Ok(tokens.collect())
}

/// The default one of several templates.
fn default_of(named: &[Json]) -> Option<String> {
    let field = |entry: &Json, key: &str| entry.get(key)?.as_str().map(str::to_owned);
    let entry = named.iter().find(|entry| field(entry, "name").as_deref() == Some(DEFAULT))?;
    field(entry, "template")
}

/// The text of a file, if there is one.
fn read_limited(file: &Path) -> Result<Option<String>> {
    let failed = |error| Error::io(file, "read the chat template")(error);
    let opened = match std::fs::File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut source = String::new();
    opened.take(TEMPLATE_BYTES_MAX + 1).read_to_string(&mut source).map_err(failed)?;
    match source.len() as u64 > TEMPLATE_BYTES_MAX {
        true => Err(too_long(file)),
        false => Ok(Some(source)),
    }
}

fn too_long(file: &Path) -> Error {
    Error::bad_template(file, format!("it has more than {TEMPLATE_BYTES_MAX} bytes"))
}
