//! The model that the tests train: the BERT of the model fixtures (2 layers, hidden size 16, 50
//! tokens, 3 classes) with a tokenizer for the words of [`crate::data`].

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::data;

const SPECIAL_TOKENS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Writes the model folder.
pub fn write(folder: &Path) {
    write_fixture(folder, "bert-sequence-classification");
}

/// Writes a folder with the model of a fixture. All of them have 50 tokens.
pub fn write_fixture(folder: &Path, fixture: &str) {
    fs::create_dir_all(folder).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(fixtures().join(fixture).join(name), folder.join(name)).unwrap();
    }
    if fixture.ends_with("-image-classification") {
        return write_image_processor(folder);
    }
    write_tokenizer(folder, &[]);
    let config = json!({"tokenizer_class": "BertTokenizer", "model_max_length": 32});
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
}

/// Writes the settings by which images get the size that the model of a folder reads.
fn write_image_processor(folder: &Path) {
    let config: Value =
        serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    let size = &config["image_size"];
    let keys = json!({"image_processor_type": "ViTImageProcessor", "size": {"height": size[0], "width": size[1]}});
    fs::write(folder.join("preprocessor_config.json"), keys.to_string()).unwrap();
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../xla-backend/models/fixtures")
}

/// Writes a tokenizer for all words of the data and `more`.
pub fn write_tokenizer(folder: &Path, more: &[&'static str]) {
    let tokens = SPECIAL_TOKENS.into_iter().chain(data::words()).chain(more.iter().copied());
    let vocabulary: Map<String, Value> =
        tokens.zip(0..).map(|(token, id): (&str, u32)| (token.to_owned(), id.into())).collect();
    fs::write(folder.join("tokenizer.json"), tokenizer(vocabulary).to_string()).unwrap();
}

/// The ids that this tokenizer gives the words of a text, without special tokens.
pub fn ids(text: &str) -> Vec<usize> {
    let id = |word| SPECIAL_TOKENS.len() + data::words().position(|known| known == word).unwrap();
    text.split_whitespace().map(id).collect()
}

/// BERT's tokenizer in the format of Hugging Face's `tokenizers`.
fn tokenizer(vocabulary: Map<String, Value>) -> Value {
    let special = |(id, token)| json!({"id": id, "content": token, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let (first, second) = (
        json!({"Sequence": {"id": "A", "type_id": 0}}),
        json!({"Sequence": {"id": "B", "type_id": 1}}),
    );
    let (begin, end) = (token("[CLS]"), token("[SEP]"));
    let end_of_pair = json!({"SpecialToken": {"id": "[SEP]", "type_id": 1}});
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": (0..).zip(SPECIAL_TOKENS).map(special).collect::<Vec<_>>(),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, first, end],
            "pair": [begin, first, end, second, end_of_pair],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    })
}

/// The header and the values of a safetensors file.
pub struct Weights {
    path: PathBuf,
    pub header: Value,
    values: Vec<u8>,
}

impl Weights {
    pub fn read(path: PathBuf) -> Weights {
        let bytes = fs::read(&path).unwrap();
        let (length, rest) = bytes.split_first_chunk().unwrap();
        let (header, values) = rest.split_at(u64::from_le_bytes(*length) as usize);
        let header = serde_json::from_slice(header).unwrap();
        Weights { path, header, values: values.to_vec() }
    }

    /// The names of the tensors.
    pub fn names(&self) -> Vec<String> {
        let entries = self.header.as_object().unwrap();
        entries.keys().filter(|name| *name != "__metadata__").cloned().collect()
    }

    /// The values of an `F32` tensor.
    pub fn values(&self, tensor: &str) -> Vec<f32> {
        let numbers = self.values[self.range(tensor)].chunks_exact(4);
        numbers.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    /// Sets every value of an `F32` tensor.
    pub fn fill(&mut self, tensor: &str, value: f32) {
        self.fill_range(self.range(tensor), value);
    }

    /// Sets every value in a row of an `F32` matrix.
    pub fn fill_row(&mut self, tensor: &str, row: usize, value: f32) {
        let columns = self.header[tensor]["shape"][1].as_u64().unwrap() as usize;
        let start = self.range(tensor).start + 4 * columns * row;
        self.fill_range(start..start + 4 * columns, value);
    }

    fn fill_range(&mut self, range: Range<usize>, value: f32) {
        for number in self.values[range].chunks_exact_mut(4) {
            number.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn range(&self, tensor: &str) -> Range<usize> {
        let at = |index: usize| self.header[tensor]["data_offsets"][index].as_u64().unwrap();
        at(0) as usize..at(1) as usize
    }

    pub fn write(&self) {
        let header = self.header.to_string();
        let length = header.len() as u64;
        let parts = [&length.to_le_bytes(), header.as_bytes(), &self.values];
        fs::write(&self.path, parts.concat()).unwrap();
    }
}
