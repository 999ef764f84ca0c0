//! The tokens that classes add: those of `added_tokens_decoder` and the special ones.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use tokenizers::{AddedToken, Tokenizer};

use super::{Class, languages};
use crate::tokenize::settings::{SPECIAL_TOKENS, Settings, Stated};

const OF_BERT: &[(&str, &str)] = &[
    ("unk_token", "[UNK]"),
    ("sep_token", "[SEP]"),
    ("pad_token", "[PAD]"),
    ("cls_token", "[CLS]"),
    ("mask_token", "[MASK]"),
];
const OF_MPNET: &[(&str, &str)] = &[
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("sep_token", "</s>"),
    ("cls_token", "<s>"),
    ("unk_token", "[UNK]"),
    ("pad_token", "<pad>"),
    ("mask_token", "<mask>"),
];
const OF_ALBERT: &[(&str, &str)] = &[
    ("bos_token", "[CLS]"),
    ("eos_token", "[SEP]"),
    ("unk_token", "<unk>"),
    ("sep_token", "[SEP]"),
    ("pad_token", "<pad>"),
    ("cls_token", "[CLS]"),
    ("mask_token", "[MASK]"),
];
const OF_DEBERTA: &[(&str, &str)] = &[
    ("bos_token", "[CLS]"),
    ("eos_token", "[SEP]"),
    ("unk_token", "[UNK]"),
    ("sep_token", "[SEP]"),
    ("pad_token", "[PAD]"),
    ("cls_token", "[CLS]"),
    ("mask_token", "[MASK]"),
];
const OF_ROBERTA: &[(&str, &str)] = &[
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("sep_token", "</s>"),
    ("cls_token", "<s>"),
    ("unk_token", "<unk>"),
    ("pad_token", "<pad>"),
    ("mask_token", "<mask>"),
];
const OF_GPT2: &[(&str, &str)] = &[
    ("unk_token", "<|endoftext|>"),
    ("bos_token", "<|endoftext|>"),
    ("eos_token", "<|endoftext|>"),
];
const OF_QWEN2: &[(&str, &str)] = &[
    ("unk_token", "<|endoftext|>"),
    ("eos_token", "<|endoftext|>"),
    ("pad_token", "<|endoftext|>"),
];
const OF_LLAMA: &[(&str, &str)] =
    &[("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")];
const OF_GEMMA: &[(&str, &str)] = &[
    ("unk_token", "<unk>"),
    ("bos_token", "<bos>"),
    ("eos_token", "<eos>"),
    ("pad_token", "<pad>"),
    ("mask_token", "<mask>"),
];
const OF_T5: &[(&str, &str)] =
    &[("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")];

/// The sentinels of T5, where its settings name no others.
const EXTRA_IDS: usize = 100;

pub(super) fn default_token(class: Class, name: &str) -> Option<&'static str> {
    let tokens = match class {
        Class::Backend => &[],
        Class::Bert => OF_BERT,
        Class::MpNet => OF_MPNET,
        Class::Albert => OF_ALBERT,
        Class::DebertaV2 => OF_DEBERTA,
        // MBart50 has no token for the beginning.
        Class::MBart50 if name == "bos_token" => &[],
        Class::Roberta | Class::MBart | Class::MBart50 | Class::XlmRoberta => OF_ROBERTA,
        Class::Gpt2 => OF_GPT2,
        Class::Qwen2 => OF_QWEN2,
        Class::Llama => OF_LLAMA,
        Class::Gemma => OF_GEMMA,
        Class::T5 => OF_T5,
    };
    tokens.iter().find(|(known, _)| *known == name).map(|(_, token)| *token)
}

/// Adds tokens in the order in which `TokenizersBackend.__init__` adds them, so that new ones get equal ids. Returns
/// `all_special_ids`.
pub(super) fn add(
    tokenizer: &mut Tokenizer,
    class: Class,
    settings: &Settings,
    of_file: &Json,
) -> tokenizers::Result<BTreeSet<u32>> {
    let decoder = settings.added_tokens(of_file).map_err(|error| error.to_string())?;
    let known = tokenizer.get_added_tokens_decoder();
    let mut tokens: Vec<AddedToken> = decoder.into_values().collect();
    let padding = tokenizer.get_padding().map(|padding| padding.pad_token.clone());
    let padding = padding.filter(|_| class.takes_padding_token());
    let named = SPECIAL_TOKENS.iter().filter_map(|name| {
        let of_file = padding.as_deref().filter(|_| *name == "pad_token");
        named_token(class, settings, name, &tokens, of_file)
    });
    let named: Vec<Stated> = named.collect();
    let extra = extra_tokens(class, settings);
    let mut more: Vec<&Stated> = Vec::new();
    for stated in named.iter().chain(&extra) {
        let content = &stated.token.content;
        let is_listed = tokens.iter().chain(known.values()).any(|it| it.content == *content);
        // Where a token is stated twice with different flags, the later one counts.
        if !is_listed && !more.contains(&stated) {
            more.push(stated);
        }
    }
    tokens.extend(more.into_iter().map(|stated| stated.token.clone()));
    let is_named = |token: &AddedToken| named.iter().any(|it| it.token.content == token.content);
    tokens.iter_mut().for_each(|token| token.special |= is_named(token));
    tokenizer.add_tokens(tokens)?;
    let all = named.into_iter().chain(extra).map(|stated| stated.token.content);
    let mut all: Vec<String> = all.collect();
    if class == Class::MBart50 {
        all.extend(languages::codes(class).map(str::to_owned));
    }
    if class == Class::Qwen2 {
        tokenizer.add_tokens(all.iter().map(|token| AddedToken::from(token.as_str(), true)))?;
    }
    Ok(all.iter().filter_map(|token| tokenizer.token_to_id(token)).collect())
}

/// The special token `name`, with the flags that `added` has for it; `of_file` is the one of `tokenizer.json`, if it
/// counts.
fn named_token(
    class: Class,
    settings: &Settings,
    name: &str,
    added: &[AddedToken],
    of_file: Option<&str>,
) -> Option<Stated> {
    let stated = match settings.has(name) {
        true => settings.stated_token(name)?,
        false => text(class.default_token(name).or(of_file)?),
    };
    let stated = with_flags_of(class, name, stated);
    let listed = added.iter().find(|listed| listed.content == stated.token.content);
    if let Some(token) = listed.filter(|_| settings.has(name)) {
        return Some(Stated { token: token.clone(), is_text: false });
    }
    // A mask takes the space before it.
    if stated.is_text && name == "mask_token" && matches!(class, Class::MBart | Class::MBart50) {
        let token = AddedToken { lstrip: true, normalized: true, ..stated.token };
        return Some(Stated { token, is_text: false });
    }
    Some(stated)
}

/// A special token that is stated as a text.
fn text(content: &str) -> Stated {
    Stated { token: AddedToken::from(content, true), is_text: true }
}

/// The mask of MPNet's class takes the space before it.
fn with_flags_of(class: Class, name: &str, stated: Stated) -> Stated {
    if class != Class::MpNet || !stated.is_text || name != "mask_token" {
        return stated;
    }
    Stated { token: AddedToken { lstrip: true, ..stated.token }, is_text: false }
}

fn extra_tokens(class: Class, settings: &Settings) -> Vec<Stated> {
    if let Some(tokens) = settings.extra_tokens() {
        return tokens;
    }
    let names: Vec<String> = match class {
        Class::T5 => (0..EXTRA_IDS).map(|id| format!("<extra_id_{id}>")).collect(),
        Class::MBart | Class::MBart50 => languages::codes(class).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    names.iter().map(|name| text(name)).collect()
}
