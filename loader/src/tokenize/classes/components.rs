//! The pipelines that classes make themselves, in the form of `tokenizer.json`.

use serde_json::{Value as Json, json};
use tokenizers::{PreTokenizerWrapper, Tokenizer};

use super::Class;
use crate::tokenize::settings::Settings;

/// `PRETOKENIZE_REGEX` of `Qwen2Tokenizer`.
const QWEN2_WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// The mark of a space in vocabularies of SentencePiece.
const SPACE: &str = "▁";

const ADD_PREFIX_SPACE: &str = "add_prefix_space";

/// The content of `tokenizer.json` as the class makes it anew; as it is where the class takes it so, or where
/// its model is of another kind than the class's.
pub(super) fn rebuilt(class: Class, content: Json, settings: &Settings) -> Json {
    let Some(model) = model(class, &content["model"], settings) else { return content };
    let table = precompiled(&content["normalizer"]);
    json!({
        "version": "1.0",
        "truncation": content["truncation"],
        "padding": content["padding"],
        "added_tokens": [],
        "normalizer": normalizer(class, table, settings),
        "pre_tokenizer": pre_tokenizer(class, settings),
        "post_processor": null,
        "decoder": decoder(class, settings),
        "model": model,
    })
}

/// The pre-tokenizer of a class with `add_prefix_space`, where the tokenizer has the class's own and that makes it
/// another one.
pub(super) fn with_prefix_space(
    class: Class,
    tokenizer: &Tokenizer,
    settings: &Settings,
) -> Option<PreTokenizerWrapper> {
    let read = |part: Json| serde_json::from_value::<PreTokenizerWrapper>(part).ok();
    let own = read(pre_tokenizer(class, settings))?;
    let spaced = read(pre_tokenizer(class, &settings.with_flag(ADD_PREFIX_SPACE, true)))?;
    (tokenizer.get_pre_tokenizer() == Some(&own) && spaced != own).then_some(spaced)
}

fn model(class: Class, of_file: &Json, settings: &Settings) -> Option<Json> {
    match class {
        Class::Backend => None,
        Class::Bert | Class::MpNet => Some(json!({
            "type": "WordPiece",
            "unk_token": unknown(class, settings),
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": dictionary(of_file)?,
        })),
        Class::Roberta | Class::Gpt2 | Class::Qwen2 => Some(bpe(of_file, Json::Null, false)?),
        Class::Llama => Some(bpe(of_file, Json::Null, true)?),
        Class::Gemma => Some(bpe(of_file, unknown(class, settings), true)?),
        Class::Albert => unigram(of_file, 1),
        Class::DebertaV2 => unigram(of_file, deberta_unknown(of_file, settings)),
        Class::T5 => unigram(of_file, 2),
        Class::MBart | Class::MBart50 | Class::XlmRoberta => unigram(of_file, 3),
    }
}

/// Makes a BPE model; with `bytes`, it takes bytes for unknown characters, and joins unknown ones.
fn bpe(of_file: &Json, unk_token: Json, bytes: bool) -> Option<Json> {
    let affix = if bytes { Json::Null } else { json!("") };
    Some(json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": unk_token,
        "continuing_subword_prefix": affix,
        "end_of_word_suffix": affix,
        "fuse_unk": bytes,
        "byte_fallback": bytes,
        "ignore_merges": false,
        "vocab": dictionary(of_file)?,
        "merges": of_file.get("merges")?,
    }))
}

fn unigram(of_file: &Json, unk_id: usize) -> Option<Json> {
    let vocabulary = of_file.get("vocab")?.as_array()?;
    Some(json!({
        "type": "Unigram", "unk_id": unk_id, "byte_fallback": false, "vocab": vocabulary,
    }))
}

/// The id of the unknown token, if it has the score 0.
fn deberta_unknown(of_file: &Json, settings: &Settings) -> usize {
    const DEFAULT: usize = 1;
    let unknown = unknown(Class::DebertaV2, settings);
    let is_unknown = |piece: &Json| piece[0] == unknown && piece[1].as_f64() == Some(0.0);
    let pieces = of_file.get("vocab").and_then(Json::as_array);
    pieces.and_then(|pieces| pieces.iter().position(is_unknown)).unwrap_or(DEFAULT)
}

/// Ids by token, also from a list of tokens with scores.
fn dictionary(of_file: &Json) -> Option<Json> {
    match of_file.get("vocab")? {
        Json::Object(ids) => Some(Json::Object(ids.clone())),
        Json::Array(pieces) => {
            let token =
                |piece: &Json| piece.as_str().or_else(|| piece.get(0)?.as_str()).map(str::to_owned);
            let ids = pieces.iter().zip(0..).map(|(piece, id)| Some((token(piece)?, json!(id))));
            ids.collect::<Option<_>>().map(Json::Object)
        }
        _ => None,
    }
}

fn unknown(class: Class, settings: &Settings) -> Json {
    let stated = settings.token("unk_token").map(|token| token.content);
    stated.or_else(|| class.default_token("unk_token").map(str::to_owned)).into()
}

/// The normalization table that SentencePiece compiled, if the file has one.
fn precompiled(normalizer: &Json) -> Option<Json> {
    let is_table = |part: &&Json| part.get("precompiled_charsmap").is_some();
    let parts = normalizer.get("normalizers").and_then(Json::as_array);
    parts.into_iter().flatten().chain([normalizer]).find(is_table).cloned()
}

fn normalizer(class: Class, table: Option<Json>, settings: &Settings) -> Json {
    let flag = |name: &str, default: bool| settings.flag(name).unwrap_or(default);
    match class {
        Class::Bert | Class::MpNet => json!({
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": flag("tokenize_chinese_chars", true),
            "strip_accents": settings.flag("strip_accents"),
            "lowercase": flag("do_lower_case", true),
        }),
        Class::Qwen2 => json!({"type": "NFC"}),
        Class::Albert => albert_normalizer(table, settings),
        Class::DebertaV2 => deberta_normalizer(settings),
        Class::Gemma => {
            json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
        }
        Class::T5 | Class::XlmRoberta => table.unwrap_or_default(),
        Class::MBart50 => {
            let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
            let parts: Vec<Json> = table.into_iter().chain([spaces]).collect();
            json!({"type": "Sequence", "normalizers": parts})
        }
        _ => Json::Null,
    }
}

fn albert_normalizer(table: Option<Json>, settings: &Settings) -> Json {
    let quote =
        |marks: &str| json!({"type": "Replace", "pattern": {"String": marks}, "content": "\""});
    let mut parts = vec![quote("``"), quote("''")];
    if !settings.flag("keep_accents").unwrap_or(false) {
        parts.extend([json!({"type": "NFKD"}), json!({"type": "StripAccents"})]);
    }
    if settings.flag("do_lower_case").unwrap_or(true) {
        parts.push(json!({"type": "Lowercase"}));
    }
    parts.extend(table);
    json!({"type": "Sequence", "normalizers": parts})
}

/// The class leaves the table of the file out.
fn deberta_normalizer(settings: &Settings) -> Json {
    let lower = settings.flag("do_lower_case").unwrap_or(false);
    let lower = lower.then(|| json!({"type": "Lowercase"}));
    let spaces =
        json!({"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "});
    let strip = json!({"type": "Strip", "strip_left": false, "strip_right": true});
    let parts: Vec<Json> =
        lower.into_iter().chain([spaces, json!({"type": "NFC"}), strip]).collect();
    json!({"type": "Sequence", "normalizers": parts})
}

fn pre_tokenizer(class: Class, settings: &Settings) -> Json {
    let prefix_space = |default: bool| settings.flag(ADD_PREFIX_SPACE).unwrap_or(default);
    let sequence = |parts: [Json; 2]| json!({"type": "Sequence", "pretokenizers": parts});
    let words = || json!({"type": "WhitespaceSplit"});
    match class {
        Class::Backend => Json::Null,
        Class::Bert | Class::MpNet => json!({"type": "BertPreTokenizer"}),
        Class::Roberta | Class::Gpt2 => byte_level(prefix_space(false), true),
        Class::Qwen2 => {
            let split = json!({"type": "Split", "pattern": {"Regex": QWEN2_WORDS},
                "behavior": "Isolated", "invert": false});
            sequence([split, byte_level(prefix_space(false), false)])
        }
        Class::Llama => metaspace(llama_scheme(settings), false),
        Class::Gemma => json!({"type": "Split", "pattern": {"String": " "},
            "behavior": "MergedWithPrevious", "invert": false}),
        Class::MBart50 => metaspace("always", true),
        Class::T5 | Class::MBart => sequence([words(), metaspace("always", true)]),
        Class::XlmRoberta | Class::Albert => {
            sequence([words(), metaspace(space_scheme(settings), true)])
        }
        Class::DebertaV2 => {
            let splits = settings.flag("split_by_punct").unwrap_or(false);
            let punctuation = json!({"type": "Punctuation", "behavior": "Isolated"});
            let parts: Vec<Json> = splits
                .then_some(punctuation)
                .into_iter()
                .chain([metaspace(deberta_scheme(settings), true)])
                .collect();
            json!({"type": "Sequence", "pretokenizers": parts})
        }
    }
}

/// `legacy` puts a space also behind each special token.
fn llama_scheme(settings: &Settings) -> &'static str {
    let adds = settings.flag(ADD_PREFIX_SPACE).unwrap_or(true);
    match (adds, settings.flag("legacy").unwrap_or(false)) {
        (false, _) => "never",
        (true, true) => "always",
        (true, false) => "first",
    }
}

fn space_scheme(settings: &Settings) -> &'static str {
    if settings.flag(ADD_PREFIX_SPACE).unwrap_or(true) { "always" } else { "never" }
}

fn deberta_scheme(settings: &Settings) -> &'static str {
    if settings.flag(ADD_PREFIX_SPACE).unwrap_or(true) { "always" } else { "first" }
}

fn byte_level(add_prefix_space: bool, use_regex: bool) -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true,
        "use_regex": use_regex})
}

fn metaspace(prepend_scheme: &str, split: bool) -> Json {
    json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": prepend_scheme,
        "split": split})
}

fn decoder(class: Class, settings: &Settings) -> Json {
    match class {
        Class::Backend => Json::Null,
        Class::Bert | Class::MpNet => json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        Class::Roberta | Class::Gpt2 | Class::Qwen2 => byte_level(true, true),
        Class::Llama => pieces(settings.flag(ADD_PREFIX_SPACE).unwrap_or(true)),
        Class::Gemma => pieces(false),
        Class::T5 | Class::MBart | Class::MBart50 => metaspace("always", true),
        Class::XlmRoberta | Class::Albert => metaspace(space_scheme(settings), true),
        Class::DebertaV2 => metaspace(deberta_scheme(settings), true),
    }
}

/// Pieces joined, without the first space if `strips`.
fn pieces(strips: bool) -> Json {
    let replace = json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "});
    let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
    let parts = [replace, json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    let parts: Vec<Json> = parts.into_iter().chain(strips.then_some(strip)).collect();
    json!({"type": "Sequence", "decoders": parts})
}
