//! The class that `AutoTokenizer` of transformers 5 chooses for a folder.

use serde_json::Value as Json;

use super::Class;
use crate::tokenize::setting_files::ModelSettings;

/// The class that transformers registers for a type of model: `TOKENIZER_MAPPING_NAMES`.
const OF_TYPES: &[(&str, &str)] = &[
    ("albert", "AlbertTokenizer"),
    ("bart", "RobertaTokenizer"),
    ("bert", "BertTokenizer"),
    ("deberta-v2", "DebertaV2Tokenizer"),
    ("distilbert", "BertTokenizer"),
    ("electra", "BertTokenizer"),
    ("gemma", "GemmaTokenizer"),
    ("gpt2", "GPT2Tokenizer"),
    ("gte", "XLMRobertaTokenizer"),
    ("jina_embeddings_v3", "XLMRobertaTokenizer"),
    ("mbart", "MBartTokenizer"),
    ("mistral", "TokenizersBackend"),
    ("modernbert", "TokenizersBackend"),
    ("mpnet", "MPNetTokenizer"),
    ("mt5", "T5Tokenizer"),
    ("nomic_bert", "BertTokenizer"),
    ("phi3", "TokenizersBackend"),
    ("qwen2", "Qwen2Tokenizer"),
    ("qwen3", "Qwen2Tokenizer"),
    ("roberta", "RobertaTokenizer"),
    ("t5", "T5Tokenizer"),
    ("xlm-roberta", "XLMRobertaTokenizer"),
    ("xlm-roberta-xl", "TokenizersBackend"),
];

/// Types whose registered class wins over the one that the folder names:
/// `MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS`.
const OF_TYPE_ALONE: &[&str] = &["phi3", "qwen2"];

const BACKEND: &str = "TokenizersBackend";

/// The name of the class, without `Fast`. `stated` is that of `tokenizer_config.json`; `file` is the
/// content of `tokenizer.json`, if there is one.
pub(super) fn class_name(
    stated: Option<&str>,
    model: &ModelSettings,
    file: Option<&Json>,
) -> String {
    let stated = stated.or(model.tokenizer_class.as_deref()).map(without_fast);
    let model_type = model.model_type.as_deref();
    let registered = OF_TYPES.iter().find(|(name, _)| Some(*name) == model_type);
    let registered = registered.map(|(_, class)| *class);
    let Some(stated) = stated else {
        return registered.unwrap_or_else(|| without_settings(model_type, file)).to_owned();
    };
    let is_of_type_alone = model_type.is_some_and(|name| OF_TYPE_ALONE.contains(&name));
    // Llama 3 and later say the class of Llama 2, which has another vocabulary.
    if stated == "LlamaTokenizer" && !is_of_type_alone && file.is_some_and(has_byte_level) {
        return BACKEND.to_owned();
    }
    match registered {
        Some(BACKEND) => BACKEND.to_owned(),
        Some(registered) if is_of_type_alone => registered.to_owned(),
        _ => stated.to_owned(),
    }
}

/// The class of a folder that says none, whose model has none either. A folder without a model has that of its
/// vocabulary.
fn without_settings(model_type: Option<&str>, file: Option<&Json>) -> &'static str {
    let model = file.and_then(|file| file.get("model")?.get("type")?.as_str());
    match (model_type, model) {
        (None, Some("WordPiece")) => "BertTokenizer",
        _ => BACKEND,
    }
}

fn without_fast(class: &str) -> &str {
    class.strip_suffix("Fast").unwrap_or(class)
}

fn has_byte_level(file: &Json) -> bool {
    ["pre_tokenizer", "decoder", "post_processor", "normalizer"]
        .iter()
        .any(|part| file.get(part).is_some_and(is_byte_level))
}

fn is_byte_level(part: &Json) -> bool {
    match part {
        Json::String(text) => text == "ByteLevel",
        Json::Array(parts) => parts.iter().any(is_byte_level),
        Json::Object(parts) => parts.values().any(is_byte_level),
        _ => false,
    }
}

/// The class of a name; its aliases are those of transformers 5.
pub(super) fn class(name: &str) -> Class {
    match name {
        "BertTokenizer"
        | "DistilBertTokenizer"
        | "ElectraTokenizer"
        | "MobileBertTokenizer"
        | "ConvBertTokenizer"
        | "SqueezeBertTokenizer"
        | "DPRQuestionEncoderTokenizer"
        | "DPRContextEncoderTokenizer"
        | "LxmertTokenizer"
        | "RetriBertTokenizer" => Class::Bert,
        "RobertaTokenizer" | "BartTokenizer" | "LongformerTokenizer" | "LEDTokenizer" => {
            Class::Roberta
        }
        "GPT2Tokenizer" => Class::Gpt2,
        "MPNetTokenizer" => Class::MpNet,
        "AlbertTokenizer" => Class::Albert,
        "DebertaV2Tokenizer" => Class::DebertaV2,
        "LlamaTokenizer" => Class::Llama,
        "GemmaTokenizer" => Class::Gemma,
        "Qwen2Tokenizer" => Class::Qwen2,
        "T5Tokenizer" | "MT5Tokenizer" => Class::T5,
        "MBartTokenizer" => Class::MBart,
        "MBart50Tokenizer" => Class::MBart50,
        "XLMRobertaTokenizer" => Class::XlmRoberta,
        _ => Class::Backend,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_is_that_of_auto_tokenizer() {
        let byte_level = json!({"pre_tokenizer": {"type": "Sequence",
            "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]}});
        let check = |stated: Option<&str>, model_type: &str, file: &Json, expect: &str| {
            let model: ModelSettings =
                serde_json::from_value(json!({"model_type": model_type})).unwrap();
            assert_eq!(class_name(stated, &model, Some(file)), expect, "{stated:?} {model_type}");
        };
        let plain = json!({});
        check(None, "bert", &plain, "BertTokenizer");
        check(Some("PreTrainedTokenizerFast"), "bert", &plain, "PreTrainedTokenizer");
        check(Some("PreTrainedTokenizerFast"), "qwen2", &byte_level, "Qwen2Tokenizer");
        check(Some("PreTrainedTokenizerFast"), "qwen3", &byte_level, "PreTrainedTokenizer");
        check(Some("LlamaTokenizerFast"), "llama", &plain, "LlamaTokenizer");
        check(Some("LlamaTokenizerFast"), "llama", &byte_level, BACKEND);
        check(Some("LlamaTokenizer"), "mistral", &plain, BACKEND);
        check(Some("LlamaTokenizer"), "phi3", &plain, BACKEND);
        check(Some("BertTokenizerFast"), "modernbert", &plain, BACKEND);
        check(None, "llama", &plain, BACKEND);
        check(Some("MBart50TokenizerFast"), "mbart", &plain, "MBart50Tokenizer");
    }
}
