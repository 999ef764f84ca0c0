//! Folders of before `tokenizer.json`: a vocabulary and, for byte-level BPE, its merges. They are
//! read as the model of a `tokenizer.json`, around which the tokenizer's class makes the rest.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use traind_durable::read_description;

use super::classes::{Class, NamedClass};
use super::setting_files::read_settings;
use super::settings::Settings;
use crate::error::{Error, Result};

/// The files of SentencePiece models, which are not read.
const SENTENCE_PIECE: [&str; 4] =
    ["sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"];

/// Returns whether a folder has a file of a tokenizer, even if it is one that cannot be read.
pub(super) fn is_any_in(folder: &Path) -> bool {
    let names = ["tokenizer.json", "vocab.txt", "vocab.json"].into_iter().chain(SENTENCE_PIECE);
    names.into_iter().any(|name| folder.join(name).exists())
}

/// The tokenizer of a folder that has a vocabulary alone.
pub(super) struct VocabularyFiles {
    pub file: PathBuf,
    /// A `tokenizer.json` that has a model and nothing else.
    pub content: Json,
    pub class: NamedClass,
}

/// Reads the vocabulary of a folder.
pub(super) fn read(folder: &Path, settings: &Settings) -> Result<VocabularyFiles> {
    let files = ["vocab.txt", "vocab.json", "merges.txt"].map(|name| folder.join(name));
    let [words, vocabulary, merges] = &files;
    let (file, model) = if words.exists() {
        (words, json!({"type": "WordPiece", "vocab": wordpiece(words)?}))
    } else if vocabulary.exists() && merges.exists() {
        (vocabulary, byte_level_bpe(vocabulary, merges)?)
    } else {
        let error = io::Error::new(ErrorKind::NotFound, missing(folder));
        return Err(Error::io(&folder.join("tokenizer.json"), "read the tokenizer")(error));
    };
    let class = class(settings, file == words);
    Ok(VocabularyFiles { file: file.clone(), content: json!({"model": model}), class })
}

fn missing(folder: &Path) -> &'static str {
    if SENTENCE_PIECE.iter().any(|name| folder.join(name).exists()) {
        return "there is none, and SentencePiece models are not read; in Python, \
                AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes it";
    }
    "there is none, nor a vocab.txt, nor a vocab.json with a merges.txt"
}

/// The class that reads such a vocabulary; that of BERT or GPT-2 where the settings name none that does.
fn class(settings: &Settings, is_wordpiece: bool) -> NamedClass {
    let stated = NamedClass::of(settings, None);
    let (reads, default) = match is_wordpiece {
        true => {
            (matches!(stated.class, Class::Bert | Class::MpNet), (Class::Bert, "BertTokenizer"))
        }
        false => {
            let reads = matches!(stated.class, Class::Roberta | Class::Gpt2 | Class::Qwen2);
            (reads, (Class::Gpt2, "GPT2Tokenizer"))
        }
    };
    let (class, name) = default;
    if reads { stated } else { NamedClass { name: name.to_owned(), class } }
}

/// Ids by token, one a line.
fn wordpiece(file: &Path) -> Result<BTreeMap<String, u32>> {
    let text = read_text(file)?;
    Ok(text.lines().zip(0..).map(|(token, id)| (token.trim_end().to_owned(), id)).collect())
}

fn byte_level_bpe(file: &Path, merges: &Path) -> Result<Json> {
    let ids: BTreeMap<String, u32> = read_settings(file)?;
    let merges = read_text(merges)?;
    let merges: Vec<&str> =
        merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version")).collect();
    Ok(json!({"type": "BPE", "vocab": ids, "merges": merges}))
}

fn read_text(file: &Path) -> Result<String> {
    let text = read_description(file).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    });
    text.map_err(Error::io(file, "read the tokenizer"))
}
