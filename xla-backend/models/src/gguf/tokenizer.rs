//! The tokenizer of a GGUF file, as transformers' `convert_gguf_tokenizer` makes it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::merges::merges;
use super::reader::{GgufFile, Value};
use crate::error::{Error, Result};
use crate::weights;

/// Types of tokens in `tokenizer.ggml.token_type`.
const CONTROL: f64 = 3.0;
const USER_DEFINED: f64 = 4.0;
const SPACE: &str = "▁";

/// Special tokens by the keys of their ids.
const SPECIAL: [(&str, &str); 4] = [
    ("bos_token", "tokenizer.ggml.bos_token_id"),
    ("eos_token", "tokenizer.ggml.eos_token_id"),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
];

const OF_LLAMA_3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const OF_QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const OF_TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Expressions that split texts into words, by `tokenizer.ggml.pre`; others split as GPT-2 does.
const SPLITS: &[(&str, &str)] = &[
    ("llama3", OF_LLAMA_3),
    ("llama-v3", OF_LLAMA_3),
    ("llama-bpe", OF_LLAMA_3),
    ("falcon3", OF_LLAMA_3),
    ("pixtral", OF_LLAMA_3),
    ("dbrx", OF_LLAMA_3),
    ("smaug-bpe", OF_LLAMA_3),
    ("tekken", OF_TEKKEN),
    ("qwen2", OF_QWEN2),
    ("deepseek-r1-qwen", OF_QWEN2),
    ("megrez", OF_QWEN2),
];

/// Writes `tokenizer.json`, `tokenizer_config.json` and the chat template. Returns the number of tokens.
pub(super) fn write(file: &GgufFile, out: &Path) -> Result<usize> {
    let tokens = file.texts("tokenizer.ggml.tokens");
    let tokens = tokens.ok_or_else(|| file.error("it has no tokenizer.ggml.tokens"))?;
    let kind = file.text("tokenizer.ggml.model").unwrap_or_default();
    let mut tokenizer = match kind {
        "gpt2" => byte_level(file, &tokens)?,
        "llama" => sentence_piece(file, &tokens)?,
        _ => {
            let problem = format!("tokenizer.ggml.model is {kind:?}; gpt2 and llama are converted");
            return Err(file.error(problem));
        }
    };
    let special = special_tokens(file, &tokens)?;
    let spelled = |token: &str| if kind == "gpt2" { spell(token) } else { token.to_owned() };
    tokenizer.insert("added_tokens".to_owned(), added_tokens(file, &tokens, &special, kind));
    tokenizer.insert("post_processor".to_owned(), marks(file, &special, kind == "llama"));
    let mut config: Map<String, Json> = special
        .iter()
        .map(|(name, id)| ((*name).to_owned(), json!(spelled(tokens[*id]))))
        .collect();
    config.insert("tokenizer_class".to_owned(), "TokenizersBackend".into());
    config.insert("model_max_length".to_owned(), json!(1e30));
    weights::save_json(&out.join("tokenizer.json"), &tokenizer)?;
    weights::save_json(&out.join("tokenizer_config.json"), &config)?;
    if let Some(template) = file.text("tokenizer.chat_template") {
        let path = out.join("chat_template.jinja");
        let io = |source| Error::Io { action: "write", path: path.clone(), source };
        std::fs::write(&path, template).map_err(io)?;
    }
    Ok(tokens.len())
}

/// A vocabulary of GPT-2's kind.
fn byte_level(file: &GgufFile, tokens: &[&str]) -> Result<Map<String, Json>> {
    let merges = file.texts("tokenizer.ggml.merges");
    let merges = merges.ok_or_else(|| file.error("it has no tokenizer.ggml.merges"))?;
    let merges: Vec<_> = merges.iter().map(|merge| merge.split_once(' ')).collect();
    let bytes = |prefix: bool, regex: bool| json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex});
    let pre = file.text("tokenizer.ggml.pre").unwrap_or_default();
    let words = match SPLITS.iter().find(|(name, _)| *name == pre) {
        None => bytes(false, true),
        Some((_, expression)) => {
            let split = json!({"type": "Split", "pattern": {"Regex": expression},
                "behavior": "Isolated", "invert": false});
            json!({"type": "Sequence", "pretokenizers": [split, bytes(false, false)]})
        }
    };
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
        "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
        "vocab": vocabulary(tokens.iter().map(|token| spell(token))), "merges": merges,
    });
    Ok(pipeline(words, bytes(true, true), model))
}

/// A vocabulary of Llama's kind.
fn sentence_piece(file: &GgufFile, tokens: &[&str]) -> Result<Map<String, Json>> {
    let scores = match file.metadata.get("tokenizer.ggml.scores") {
        Some(Value::Array(scores)) if scores.len() == tokens.len() => scores,
        _ => return Err(file.error("it has no tokenizer.ggml.scores of its tokens")),
    };
    let scores: Vec<f64> =
        scores.iter().map(|score| score.as_number().unwrap_or_default()).collect();
    let given = file.texts("tokenizer.ggml.merges");
    let merges = match given {
        Some(merges) => json!(merges.iter().map(|merge| merge.split_once(' ')).collect::<Vec<_>>()),
        None => json!(merges(tokens, &scores)),
    };
    let words = json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": false});
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]});
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
        "vocab": vocabulary(tokens.iter().map(|token| (*token).to_owned())), "merges": merges,
    });
    Ok(pipeline(words, decoder, model))
}

fn pipeline(pre_tokenizer: Json, decoder: Json, model: Json) -> Map<String, Json> {
    let parts = [
        ("version", json!("1.0")),
        ("truncation", Json::Null),
        ("padding", Json::Null),
        ("normalizer", Json::Null),
        ("pre_tokenizer", pre_tokenizer),
        ("decoder", decoder),
        ("model", model),
    ];
    parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect()
}

fn vocabulary(tokens: impl Iterator<Item = String>) -> Map<String, Json> {
    tokens.zip(0..).map(|(token, id)| (token, json!(id))).collect()
}

/// The ids of special tokens by their names.
fn special_tokens(file: &GgufFile, tokens: &[&str]) -> Result<Vec<(&'static str, usize)>> {
    let ids = SPECIAL.iter().filter_map(|(name, key)| Some((*name, *key, file.integer(key)?)));
    ids.map(|(name, key, id)| {
        let within = usize::try_from(id).ok().filter(|id| *id < tokens.len());
        let within = within.ok_or_else(|| file.error(format!("{key} is {id} of {}", tokens.len())));
        Ok((name, within?))
    })
    .collect()
}

/// Control tokens and special ones are matched whole and are special; user-defined ones are only matched whole. A
/// control token of a byte-level vocabulary with other characters than those of bytes is no token of it.
fn added_tokens(file: &GgufFile, tokens: &[&str], special: &[(&str, usize)], kind: &str) -> Json {
    let types: Vec<f64> = match file.metadata.get("tokenizer.ggml.token_type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_number).collect(),
        _ => Vec::new(),
    };
    let is_spelled = |token: &str| kind != "gpt2" || spell(token) == token;
    let mut added = BTreeMap::new();
    for (id, (token, token_type)) in tokens.iter().zip(types).enumerate() {
        if token_type == CONTROL && is_spelled(token) {
            added.insert(id, true);
        } else if token_type == USER_DEFINED && is_spelled(token) {
            added.entry(id).or_insert(false);
        }
    }
    // The classes that transformers builds have some of their own.
    let of_class: &[&str] =
        if kind == "gpt2" { &["<|endoftext|>"] } else { &["<unk>", "<s>", "</s>"] };
    let of_class = of_class.iter().filter_map(|own| tokens.iter().position(|token| token == own));
    added.extend(special.iter().map(|(_, id)| *id).chain(of_class).map(|id| (id, true)));
    let entry = |(id, is_special): (usize, bool)| {
        json!({"id": id, "content": tokens[id], "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": is_special})
    };
    added.into_iter().map(entry).collect()
}

/// The marks around texts. A vocabulary of SentencePiece has one at the beginning unless the file denies it.
fn marks(file: &GgufFile, special: &[(&str, usize)], by_default: bool) -> Json {
    let flag = |key: &str, default| file.flag(key).unwrap_or(default);
    let token = |name: &str, wanted: bool| {
        let id = special.iter().find(|(known, _)| *known == name).map(|(_, id)| *id);
        let tokens = file.texts("tokenizer.ggml.tokens").unwrap_or_default();
        id.filter(|_| wanted).map(|id| (tokens[id].to_owned(), id))
    };
    let bos = token("bos_token", flag("tokenizer.ggml.add_bos_token", by_default));
    let eos = token("eos_token", flag("tokenizer.ggml.add_eos_token", false));
    let around = |text: &str, segment: u8| -> Vec<Json> {
        let mark = |token: &Option<(String, usize)>| {
            token
                .as_ref()
                .map(|(token, _)| json!({"SpecialToken": {"id": token, "type_id": segment}}))
        };
        let text = json!({"Sequence": {"id": text, "type_id": segment}});
        mark(&bos).into_iter().chain([text]).chain(mark(&eos)).collect()
    };
    let tokens: Map<String, Json> = [&bos, &eos]
        .into_iter()
        .flatten()
        .map(|(token, id)| (token.clone(), json!({"id": token, "ids": [id], "tokens": [token]})))
        .collect();
    let pair = [around("A", 0), around("B", 1)].concat();
    json!({
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": pair,
        "special_tokens": tokens,
    })
}

/// A token in the characters that GPT-2 has for bytes, if it has others.
fn spell(token: &str) -> String {
    let is_byte = |letter: char| (0..=255).any(|byte| character(byte) == letter);
    if token.chars().all(is_byte) {
        return token.to_owned();
    }
    token.bytes().map(character).collect()
}

/// GPT-2's character for a byte: itself where it can be seen, otherwise one from 256 on.
fn character(byte: u8) -> char {
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if is_visible(byte) {
        return char::from(byte);
    }
    let hidden = (0..byte).filter(|other| !is_visible(*other)).count();
    char::from_u32(256 + hidden as u32).unwrap_or_default()
}
