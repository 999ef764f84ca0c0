//! Folders of before `tokenizer.json`: a vocabulary and, for byte-level BPE, its merges. They are
//! read as the `tokenizer.json` into which transformers converts them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use super::config::{read_settings, token_content};
use crate::{Error, Result};

/// Special tokens by their names in `special_tokens_map.json`, with those of a class that names
/// none.
const OF_BERT: &[(&str, &str)] = &[
    ("unk_token", "[UNK]"),
    ("sep_token", "[SEP]"),
    ("pad_token", "[PAD]"),
    ("cls_token", "[CLS]"),
    ("mask_token", "[MASK]"),
];
const OF_ROBERTA: &[(&str, &str)] = &[
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("unk_token", "<unk>"),
    ("sep_token", "</s>"),
    ("pad_token", "<pad>"),
    ("cls_token", "<s>"),
    ("mask_token", "<mask>"),
];
const OF_GPT2: &[(&str, &str)] = &[
    ("bos_token", "<|endoftext|>"),
    ("eos_token", "<|endoftext|>"),
    ("unk_token", "<|endoftext|>"),
];

/// The vocabulary file of a folder's tokenizer, and the `tokenizer.json` that it amounts to.
pub(super) fn read(folder: &Path) -> Result<(PathBuf, Vec<u8>)> {
    let files = ["vocab.txt", "vocab.json", "merges.txt"].map(|name| folder.join(name));
    let [words, vocabulary, merges] = &files;
    let file = if words.exists() {
        words
    } else if vocabulary.exists() && merges.exists() {
        vocabulary
    } else {
        let error = std::io::Error::new(ErrorKind::NotFound, missing(folder));
        return Err(Error::io(&folder.join("tokenizer.json"), "read the tokenizer")(error));
    };
    let settings = Settings::read(folder)?;
    let json = if file == words {
        wordpiece(words, &settings)?
    } else {
        byte_level_bpe(vocabulary, merges, &settings)?
    };
    Ok((file.clone(), json.to_string().into_bytes()))
}

fn missing(folder: &Path) -> &'static str {
    let sentence_piece = ["sentencepiece.bpe.model", "spiece.model"];
    if sentence_piece.iter().any(|name| folder.join(name).exists()) {
        return "there is none, and SentencePiece models are not read; in Python, \
                AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes it";
    }
    "there is none, nor a vocab.txt, nor a vocab.json with a merges.txt"
}

/// The settings in the files beside a vocabulary.
struct Settings {
    tokenizer: Map<String, Json>,
    special_tokens: Map<String, Json>,
    /// The id of each token.
    added: BTreeMap<String, u32>,
    model_type: String,
}

impl Settings {
    fn read(folder: &Path) -> Result<Settings> {
        let config: Map<String, Json> = read_settings(&folder.join("config.json"))?;
        let model_type = config.get("model_type").and_then(Json::as_str).unwrap_or_default();
        Ok(Settings {
            tokenizer: read_settings(&folder.join("tokenizer_config.json"))?,
            special_tokens: read_settings(&folder.join("special_tokens_map.json"))?,
            added: read_settings(&folder.join("added_tokens.json"))?,
            model_type: model_type.to_owned(),
        })
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.tokenizer.get(name).and_then(Json::as_bool).unwrap_or(default)
    }

    /// True if texts are put between the marks of RoBERTa, by the tokenizer's class or else the
    /// model's.
    fn is_roberta(&self) -> bool {
        let class = self.tokenizer.get("tokenizer_class").and_then(Json::as_str);
        class.unwrap_or(&self.model_type).to_lowercase().starts_with("roberta")
    }

    fn special(&self, name: &str, default: &str) -> String {
        self.configured(name).and_then(token_content).unwrap_or_else(|| default.to_owned())
    }

    fn configured(&self, name: &str) -> Option<&Json> {
        [&self.tokenizer, &self.special_tokens]
            .into_iter()
            .find_map(|settings| settings.get(name))
            .filter(|token| !token.is_null())
    }

    /// Each special token of a class and each added one, by ascending id.
    fn added_tokens(&self, class: &[(&str, &str)], vocabulary: &Vocabulary) -> Vec<Json> {
        let added = self.added.iter().map(|(token, id)| (*id, added_token(*id, &json!(token))));
        let mut by_id: BTreeMap<u32, Json> = added.collect();
        for (name, default) in class {
            let token = self.configured(name).cloned().unwrap_or_else(|| json!(default));
            let id = token_content(&token).and_then(|content| vocabulary.ids.get(&content));
            if let Some(id) = id {
                by_id.insert(*id, added_token(*id, &token));
            }
        }
        by_id.into_values().collect()
    }
}

/// An entry of `added_tokens`, with the flags of a special token where it has none of its own.
fn added_token(id: u32, token: &Json) -> Json {
    let content = token_content(token).unwrap_or_default();
    // As RobertaTokenizer declares it: the space before a mask is the mask's.
    let lstrip = content == "<mask>";
    let flag =
        |name: &str, default: bool| token.get(name).and_then(Json::as_bool).unwrap_or(default);
    json!({
        "id": id,
        "content": content,
        "single_word": flag("single_word", false),
        "lstrip": flag("lstrip", lstrip),
        "rstrip": flag("rstrip", false),
        "normalized": flag("normalized", false),
        "special": true,
    })
}

/// Ids by token.
struct Vocabulary {
    file: PathBuf,
    ids: BTreeMap<String, u32>,
}

impl Vocabulary {
    fn id(&self, token: &str) -> Result<u32> {
        let missing = || Error::bad_tokenizer(&self.file, format!("lacks the token {token}"));
        self.ids.get(token).copied().ok_or_else(missing)
    }
}

fn wordpiece(file: &Path, settings: &Settings) -> Result<Json> {
    let text = read_text(file)?;
    let lines = text.lines().enumerate();
    let ids = lines.map(|(id, token)| (token.to_owned(), id as u32)).collect();
    let vocabulary = Vocabulary { file: file.to_owned(), ids };
    let (cls, sep) =
        (settings.special("cls_token", "[CLS]"), settings.special("sep_token", "[SEP]"));
    let mark =
        |token: &str, type_id: u8| json!({"SpecialToken": {"id": token, "type_id": type_id}});
    let text = |id: &str, type_id: u8| json!({"Sequence": {"id": id, "type_id": type_id}});
    let single = [mark(&cls, 0), text("A", 0), mark(&sep, 0)];
    let pair = [&single[..], &[text("B", 1), mark(&sep, 1)]].concat();
    let special = |token: &str| -> Result<Json> {
        Ok(json!({"id": token, "ids": [vocabulary.id(token)?], "tokens": [token]}))
    };
    Ok(json!({
        "version": "1.0",
        "added_tokens": settings.added_tokens(OF_BERT, &vocabulary),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": settings.flag("tokenize_chinese_chars", true),
            "strip_accents": settings.tokenizer.get("strip_accents"),
            "lowercase": settings.flag("do_lower_case", true),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": {&cls: special(&cls)?, &sep: special(&sep)?},
        },
        "model": {
            "type": "WordPiece",
            "unk_token": settings.special("unk_token", "[UNK]"),
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary.ids,
        },
    }))
}

fn byte_level_bpe(file: &Path, merges: &Path, settings: &Settings) -> Result<Json> {
    let vocabulary = Vocabulary { file: file.to_owned(), ids: read_settings(file)? };
    let merges = read_text(merges)?;
    let merges: Vec<&str> =
        merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version")).collect();
    let add_prefix_space = settings.flag("add_prefix_space", false);
    let byte_level = |trim_offsets: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": add_prefix_space,
            "trim_offsets": trim_offsets, "use_regex": true,
        })
    };
    let (class, post_processor) = if settings.is_roberta() {
        let mark = |name: &str, default: &str| -> Result<Json> {
            let token = settings.special(name, default);
            Ok(json!([token, vocabulary.id(&token)?]))
        };
        let processor = json!({
            "type": "RobertaProcessing",
            "sep": mark("sep_token", "</s>")?,
            "cls": mark("cls_token", "<s>")?,
            "trim_offsets": true,
            "add_prefix_space": add_prefix_space,
        });
        (OF_ROBERTA, processor)
    } else {
        (OF_GPT2, byte_level(false))
    };
    Ok(json!({
        "version": "1.0",
        "added_tokens": settings.added_tokens(class, &vocabulary),
        "pre_tokenizer": byte_level(true),
        "post_processor": post_processor,
        "model": {"type": "BPE", "vocab": vocabulary.ids, "merges": merges},
    }))
}

fn read_text(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(Error::io(file, "read the tokenizer"))
}
