//! Tokenizers as `AutoTokenizer` of transformers 5 makes them. Classes with a pipeline of their own take only
//! vocabulary, merges, normalization table and post-processor from `tokenizer.json`, and make the rest from
//! `tokenizer_config.json`; all others take the file as it is. Each of them then adds the tokens that the
//! settings name.

mod auto;
mod components;
mod languages;
mod post_processors;
mod tokens;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;
use tokenizers::Tokenizer;

use super::PaddingSide;
use super::growth;
use super::settings::Settings;
use crate::error::{Error, Result};

pub(super) use post_processors::of_language as language_processor;

/// Types of models for which `run_ner` of transformers' examples opens the tokenizer with `add_prefix_space`.
const TYPES_WITH_SPACED_WORDS: [&str; 4] = ["bloom", "deberta", "gpt2", "roberta"];

/// The classes of transformers that differ from the plain reading of `tokenizer.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// `TokenizersBackend`, which reads `tokenizer.json` as it is.
    Backend,
    Bert,
    MpNet,
    Albert,
    DebertaV2,
    Roberta,
    Gpt2,
    Llama,
    Gemma,
    Qwen2,
    T5,
    MBart,
    MBart50,
    XlmRoberta,
}

/// A class by its name in transformers.
#[derive(Debug)]
pub(super) struct NamedClass {
    pub name: String,
    pub class: Class,
}

impl NamedClass {
    /// The class for a folder with the content of its `tokenizer.json`, if there is one.
    pub(super) fn of(settings: &Settings, file: Option<&Json>) -> NamedClass {
        let stated = settings.text("tokenizer_class");
        let name = auto::class_name(stated, &settings.model, file);
        NamedClass { class: auto::class(&name), name }
    }
}

impl Class {
    /// The side that the class pads on where nothing says it.
    pub(super) fn padding_side(self) -> PaddingSide {
        match self {
            Class::Llama | Class::Gemma => PaddingSide::Left,
            _ => PaddingSide::Right,
        }
    }

    /// Returns whether the padding token that `tokenizer.json` names counts where the settings name none: the other
    /// classes state one, if only null.
    pub(super) fn takes_padding_token(self) -> bool {
        matches!(self, Class::Backend | Class::Llama)
    }

    /// Returns whether texts have a language.
    pub(super) fn has_languages(self) -> bool {
        matches!(self, Class::MBart | Class::MBart50)
    }

    /// The languages that a tokenizer of the class has.
    pub(super) fn languages(self, tokenizer: &Tokenizer) -> Vec<&'static str> {
        languages::codes(self).filter(|code| tokenizer.token_to_id(code).is_some()).collect()
    }

    /// A special token that the class has where the settings do not mention it.
    pub(super) fn default_token(self, name: &str) -> Option<&'static str> {
        tokens::default_token(self, name)
    }
}

/// The tokenizer of words that are given split, as `run_ner` opens it, where it is another one: words follow others,
/// and byte-level vocabularies mark the start of a word by a space. Classes that take `tokenizer.json` as it is pass
/// over `add_prefix_space`, so that their words have the spaces that the file says.
pub(super) fn of_words(
    class: Class,
    tokenizer: &Tokenizer,
    settings: &Settings,
) -> Option<Tokenizer> {
    let model_type = settings.model.model_type.as_deref()?;
    if !TYPES_WITH_SPACED_WORDS.contains(&model_type) {
        return None;
    }
    let spaced = components::with_prefix_space(class, tokenizer, settings)?;
    let mut of_words = tokenizer.clone();
    of_words.with_pre_tokenizer(Some(spaced));
    Some(of_words)
}

/// Makes the tokenizer of a class from the content of `tokenizer.json`, and returns it with `all_special_ids`.
/// `path` is for messages. `has_file` is false where the content is made from a vocabulary.
pub(super) fn make(
    class: Class,
    content: Json,
    settings: &Settings,
    path: &Path,
    has_file: bool,
) -> Result<(Tokenizer, BTreeSet<u32>)> {
    let bad = |error: tokenizers::Error| Error::bad_tokenizer(path, error);
    let of_file = content.get("added_tokens").cloned().unwrap_or_default();
    let post_processor = content.get("post_processor").cloned().unwrap_or_default();
    let rebuilt = components::rebuilt(class, content, settings);
    if let Some(objection) = growth::objection(&rebuilt) {
        return Err(Error::bad_tokenizer(path, objection));
    }
    let mut tokenizer = Tokenizer::from_bytes(rebuilt.to_string()).map_err(&bad)?;
    let special_ids = tokens::add(&mut tokenizer, class, settings, &of_file).map_err(bad)?;
    tokenizer.set_encode_special_tokens(settings.flag("split_special_tokens").unwrap_or(false));
    let post_processor =
        post_processors::of_class(class, &tokenizer, settings, post_processor, has_file);
    post_processors::set(&mut tokenizer, post_processor, path)?;
    Ok((tokenizer, special_ids))
}
