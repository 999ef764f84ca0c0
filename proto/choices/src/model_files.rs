//! The names of files that stand beside config and weights in a model folder.

/// The settings by which a model generates texts.
pub const GENERATION_CONFIG: &str = "generation_config.json";

/// The settings by which images become inputs of a model.
pub const PREPROCESSOR_CONFIG: &str = "preprocessor_config.json";

/// The files of tokenizers, image processors and generation, which a run copies from the model that it starts from.
pub const COMPANION_FILES: [&str; 13] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja",
    GENERATION_CONFIG,
    PREPROCESSOR_CONFIG,
];

/// The files that sentence-transformers has beside a model that embeds texts.
pub const SENTENCE_FILES: [&str; 4] = [
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];

/// Returns the name of a file in the folder of a linear layer behind the pooling: `config.json` of
/// `2_Dense/config.json`; `None` for files in other places.
pub fn file_of_dense(name: &str) -> Option<&str> {
    let (folder, file) = name.split_once('/')?;
    let number = folder.strip_suffix("_Dense")?;
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
    is_number.then_some(file)
}
