//! The files of a tokenizer's folder that concern its chat template.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use crate::error::{Error, Result};
use crate::tokenize::{read_settings, token_content};

/// The token that ends a text.
pub(super) const EOS_TOKEN: &str = "eos_token";
/// The token that a text begins with.
pub(super) const BOS_TOKEN: &str = "bos_token";
const TEMPLATE: &str = "chat_template";
const SETTINGS: &str = "tokenizer_config.json";
/// The name of the template that is used where there are several.
const DEFAULT: &str = "default";
/// The name of the template of rows that have tools.
const TOOL_USE: &str = "tool_use";
/// The folder of further templates, one a file.
const ADDITIONAL: &str = "additional_chat_templates";
/// The named special tokens, which templates have as variables.
const SPECIAL_TOKENS: [&str; 7] =
    [BOS_TOKEN, EOS_TOKEN, "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// The longest template.
const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// A template's text with its file.
type Source = (PathBuf, String);

/// The templates of a tokenizer that are used by themselves.
pub(super) struct Templates {
    pub(super) default: Source,
    pub(super) tool_use: Option<Source>,
}

/// The templates: `chat_template.jinja` with those beside it, else those of `tokenizer_config.json`.
pub(super) fn templates(folder: &Path) -> Result<Option<Templates>> {
    let file = folder.join("chat_template.jinja");
    if let Some(source) = read_limited(&file)? {
        let beside = folder.join(ADDITIONAL).join(TOOL_USE).with_extension("jinja");
        let tool_use = read_limited(&beside)?.map(|source| (beside, source));
        return Ok(Some(Templates { default: (file, source), tool_use }));
    }
    let file = folder.join(SETTINGS);
    let settings: Map<String, Json> = read_settings(&file)?;
    let (default, tool_use) = match settings.get(TEMPLATE) {
        Some(Json::String(source)) => (source.clone(), None),
        Some(Json::Array(templates)) => {
            let default = named(templates, DEFAULT).ok_or_else(|| {
                Error::bad_template(&file, "none of its chat templates is called \"default\"")
            })?;
            (default, named(templates, TOOL_USE))
        }
        _ => return Ok(None),
    };
    let is_long = |source: &String| source.len() as u64 > TEMPLATE_BYTES_MAX;
    if is_long(&default) || tool_use.as_ref().is_some_and(is_long) {
        return Err(too_long(&file));
    }
    let tool_use = tool_use.map(|source| (file.clone(), source));
    Ok(Some(Templates { default: (file, default), tool_use }))
}

/// The template that a job names, has in a file, or gives as text.
pub(super) fn chosen(choice: &str) -> Result<Source> {
    if let Some(source) = super::named::named(choice) {
        return Ok((PathBuf::from(choice), source.to_owned()));
    }
    if choice.contains("{{") || choice.contains("{%") {
        return Ok((PathBuf::from("data.chat_template"), choice.to_owned()));
    }
    let file = PathBuf::from(choice);
    read_limited(&file)?.map(|source| (file, source)).ok_or_else(|| {
        let names: Vec<&str> = super::named_templates().collect();
        let message = format!(
            "there is neither a file nor a template `{choice}`; templates are tokenizer_default, {}",
            names.join(", ")
        );
        Error::BadOption { field: "data.chat_template", message }
    })
}

/// The special tokens that the settings name, with another token that ends texts if one is given.
pub(super) fn special_tokens_with(
    folder: &Path,
    eos_token: Option<&str>,
) -> Result<BTreeMap<String, String>> {
    let mut tokens = special_tokens(folder)?;
    if let Some(token) = eos_token {
        tokens.insert(EOS_TOKEN.to_owned(), token.to_owned());
    }
    Ok(tokens)
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

/// One of several templates.
fn named(templates: &[Json], name: &str) -> Option<String> {
    let field = |entry: &Json, key: &str| entry.get(key)?.as_str().map(str::to_owned);
    let entry = templates.iter().find(|entry| field(entry, "name").as_deref() == Some(name))?;
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
