//! The names of chat templates and of templates of turns. A test of the runner compares them with those
//! that its loader has.

/// Chat templates under axolotl's names, for `data.chat_template`.
pub const CHAT_TEMPLATES: &[&str] = &[
    "alpaca",
    "chatml",
    "cohere",
    "deepseek_v2",
    "exaone",
    "gemma",
    "gemma3",
    "llama3",
    "metharme",
    "mistral_v1",
    "phi_3",
    "phi_35",
    "qwen3",
    "qwen_25",
];

/// Templates of turns under LLaMA-Factory's names, for `data.template`.
pub const TURN_TEMPLATES: &[&str] = &[
    "alpaca",
    "bailing",
    "breeze",
    "chatml",
    "chatml_de",
    "cohere",
    "cpm4",
    "deepseek",
    "deepseek3",
    "deepseekcoder",
    "deepseekr1",
    "default",
    "empty",
    "ernie_nothink",
    "exaone",
    "falcon",
    "falcon_h1",
    "fewshot",
    "gemma",
    "gemma2",
    "gemma3",
    "glm4",
    "glmz1",
    "granite3",
    "granite4",
    "hunyuan",
    "intern2",
    "lfm2",
    "llama2",
    "llama2_zh",
    "llama3",
    "llama4",
    "mimo",
    "ministral",
    "mistral",
    "mistral_small",
    "moonlight",
    "olmo",
    "openchat",
    "openchat-3.6",
    "opencoder",
    "phi",
    "phi4",
    "phi4_mini",
    "qwen",
    "qwen3",
    "qwen3_5",
    "qwen3_5_nothink",
    "qwen3_6",
    "qwen3_nothink",
    "sailor",
    "seed_coder",
    "smollm",
    "smollm2",
    "solar",
    "starchat",
    "telechat2",
    "vicuna",
    "xuanyuan",
    "yi",
    "youtu",
    "zephyr",
];

/// The chat template of the model folder.
pub const TOKENIZER_DEFAULT: &str = "tokenizer_default";
const FALLBACK: &str = "tokenizer_default_fallback_";

/// Returns true if a chat template is a file or its own text rather than a name.
pub(crate) fn is_own_template(template: &str) -> bool {
    template.contains("{{")
        || template.contains("{%")
        || template.contains('/')
        || template.ends_with(".jinja")
}

/// Returns true if a name is that of a chat template.
pub fn is_chat_template(name: &str) -> bool {
    let name = name.strip_prefix(FALLBACK).unwrap_or(name);
    name == TOKENIZER_DEFAULT || CHAT_TEMPLATES.contains(&name)
}
