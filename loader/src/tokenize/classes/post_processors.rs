//! The post-processors of classes, which put special tokens around texts.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use tokenizers::{PostProcessorWrapper, Tokenizer};

use super::{Class, languages};
use crate::error::{Error, Result};
use crate::tokenize::settings::Settings;

/// The post-processor of a class, in the form of `tokenizer.json`, where `of_file` is that of the file.
/// Without a file, the settings may ask for marks of the beginning and the end.
pub(super) fn of_class(
    class: Class,
    tokenizer: &Tokenizer,
    settings: &Settings,
    of_file: Json,
    has_file: bool,
) -> Json {
    let token = |name: &str| token(class, settings, name);
    let template = |single: &[(&str, u8)], pair: &[(&str, u8)]| template(tokenizer, single, pair);
    match class {
        // ALBERT takes that of the file.
        Class::Albert if !of_file.is_null() => of_file,
        Class::Bert | Class::Albert | Class::DebertaV2 => {
            let (cls, sep) = (token("cls_token"), token("sep_token"));
            let single = [(cls.as_str(), 0), ("$A", 0), (sep.as_str(), 0)];
            template(&single, &[&single[..], &[("$B", 1), (&sep, 1)]].concat())
        }
        Class::Roberta | Class::MpNet => {
            let flag = |name: &str, default: bool| match class {
                Class::MpNet => default,
                _ => settings.flag(name).unwrap_or(default),
            };
            let mark = |token: &str| json!([token, tokenizer.token_to_id(token)]);
            json!({
                "type": "RobertaProcessing",
                "sep": mark(&token("sep_token")),
                "cls": mark(&token("cls_token")),
                "trim_offsets": flag("trim_offsets", true),
                "add_prefix_space": flag("add_prefix_space", false),
            })
        }
        Class::T5 => {
            let eos = token("eos_token");
            let eos = eos.as_str();
            template(&[("$A", 0), (eos, 0)], &[("$A", 0), (eos, 0), ("$B", 0), (eos, 0)])
        }
        Class::XlmRoberta => {
            let (bos, eos) = (token("bos_token"), token("eos_token"));
            let single = [(bos.as_str(), 0), ("$A", 0), (eos.as_str(), 0)];
            template(&single, &[&single[..], &[(&eos, 0), ("$B", 0), (&eos, 0)]].concat())
        }
        Class::MBart | Class::MBart50 => {
            let source = settings.text("src_lang").unwrap_or(languages::DEFAULT);
            of_language(class, tokenizer, settings, source)
        }
        _ if of_file.is_null() && !has_file => marks(class, tokenizer, settings),
        _ => of_file,
    }
}

/// mBART puts the language behind each text, mBART-50 before it.
pub(in crate::tokenize) fn of_language(
    class: Class,
    tokenizer: &Tokenizer,
    settings: &Settings,
    language: &str,
) -> Json {
    let eos = token(class, settings, "eos_token");
    let (before, behind) = match class {
        Class::MBart => (vec![], vec![(eos.as_str(), 0), (language, 0)]),
        _ => (vec![(language, 0)], vec![(eos.as_str(), 0)]),
    };
    let single = [&before[..], &[("$A", 0)], &behind[..]].concat();
    let pair = [&before[..], &[("$A", 0), ("$B", 0)], &behind[..]].concat();
    template(tokenizer, &single, &pair)
}

/// `add_bos_token` and `add_eos_token`, where there are such tokens.
fn marks(class: Class, tokenizer: &Tokenizer, settings: &Settings) -> Json {
    let mark = |flag: &str, name: &str| {
        let is_null = settings.has(name) && settings.token(name).is_none();
        (settings.flag(flag).unwrap_or(false) && !is_null).then(|| token(class, settings, name))
    };
    let (bos, eos) = (mark("add_bos_token", "bos_token"), mark("add_eos_token", "eos_token"));
    let around = |text, segment| {
        let bos = bos.as_deref().map(|bos| (bos, segment));
        let eos = eos.as_deref().map(|eos| (eos, segment));
        bos.into_iter().chain([(text, segment)]).chain(eos)
    };
    let single: Vec<(&str, u8)> = around("$A", 0).collect();
    let pair: Vec<(&str, u8)> = around("$A", 0).chain(around("$B", 1)).collect();
    template(tokenizer, &single, &pair)
}

fn token(class: Class, settings: &Settings, name: &str) -> String {
    let stated = settings.token(name).map(|token| token.content);
    stated.or_else(|| class.default_token(name).map(str::to_owned)).unwrap_or_default()
}

/// `TemplateProcessing` of tokens and texts with their segments.
fn template(tokenizer: &Tokenizer, single: &[(&str, u8)], pair: &[(&str, u8)]) -> Json {
    let is_text = |name: &str| name.starts_with('$');
    let piece = |(name, segment): &(&str, u8)| match name.strip_prefix('$') {
        Some(text) => json!({"Sequence": {"id": text, "type_id": segment}}),
        None => json!({"SpecialToken": {"id": name, "type_id": segment}}),
    };
    let tokens = single.iter().chain(pair).filter(|(name, _)| !is_text(name));
    let special = tokens.map(|(name, _)| {
        let ids = tokenizer.token_to_id(name).map_or(json!([]), |id| json!([id]));
        ((*name).to_owned(), json!({"id": name, "ids": ids, "tokens": [name]}))
    });
    json!({
        "type": "TemplateProcessing",
        "single": single.iter().map(piece).collect::<Vec<_>>(),
        "pair": pair.iter().map(piece).collect::<Vec<_>>(),
        "special_tokens": special.collect::<Map<_, _>>(),
    })
}

/// Reads a post-processor and gives it to the tokenizer.
pub(super) fn set(tokenizer: &mut Tokenizer, post_processor: Json, path: &Path) -> Result<()> {
    let read = serde_json::from_value::<Option<PostProcessorWrapper>>(post_processor);
    let read = read.map_err(|error| Error::bad_tokenizer(path, error))?;
    tokenizer.with_post_processor(read);
    Ok(())
}
