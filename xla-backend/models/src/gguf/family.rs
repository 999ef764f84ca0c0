//! Architectures of GGUF: their configs, the names of their tensors, and how llama.cpp's converter laid these out.

use serde_json::{Map, Value as Json, json};

use super::reader::{GgufFile, Value};
use crate::error::Result;

/// Decoders with the layers of Llama.
const LIKE_LLAMA: [&str; 4] = ["llama", "mistral", "qwen2", "qwen3"];

/// Keys of `config.json` by those behind the architecture's name in the file.
const OF_LLAMA: &[(&str, &str)] = &[
    ("context_length", "max_position_embeddings"),
    ("block_count", "num_hidden_layers"),
    ("feed_forward_length", "intermediate_size"),
    ("embedding_length", "hidden_size"),
    ("rope.freq_base", "rope_theta"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("vocab_size", "vocab_size"),
];
const OF_GPT2: &[(&str, &str)] = &[
    ("context_length", "n_positions"),
    ("block_count", "n_layer"),
    ("embedding_length", "n_embd"),
    ("attention.head_count", "n_head"),
    ("attention.layer_norm_epsilon", "layer_norm_epsilon"),
];
const OF_TOKENS: &[(&str, &str)] = &[
    ("tokenizer.ggml.bos_token_id", "bos_token_id"),
    ("tokenizer.ggml.eos_token_id", "eos_token_id"),
    ("tokenizer.ggml.unknown_token_id", "unk_token_id"),
    ("tokenizer.ggml.padding_token_id", "pad_token_id"),
];

/// Names of a layer's tensors in transformers and in the file.
const LAYER_OF_LLAMA: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];
const LAYER_OF_GPT2: &[(&str, &str)] = &[
    ("ln_1", "attn_norm"),
    ("attn.c_attn", "attn_qkv"),
    ("attn.c_proj", "attn_output"),
    ("ln_2", "ffn_norm"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.c_proj", "ffn_down"),
];
const OTHERS: &[(&str, &str)] = &[
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("transformer.wte", "token_embd"),
    ("transformer.wpe", "position_embd"),
    ("transformer.ln_f", "output_norm"),
];

/// The rearrangement of a tensor that llama.cpp's converter made, which is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    AsItIs,
    /// [I, O] of GPT-2's `Conv1D` is stored as [O, I].
    Transposed,
    /// In each of the heads, the halves of rotated pairs alternate.
    Interleaved {
        heads: usize,
    },
}

/// The content of `config.json`.
pub(super) fn config(file: &GgufFile) -> Result<Map<String, Json>> {
    let architecture = architecture(file)?;
    check_positions(file, architecture)?;
    let is_gpt2 = architecture == "gpt2";
    let mut keys = Map::new();
    keys.insert("model_type".to_owned(), architecture.into());
    keys.insert("dtype".to_owned(), "float32".into());
    for (name, key) in if is_gpt2 { OF_GPT2 } else { OF_LLAMA } {
        if let Some(number) = file.metadata.get(&format!("{architecture}.{name}")) {
            keys.insert((*key).to_owned(), number_of(number));
        }
    }
    for (name, key) in OF_TOKENS {
        if let Some(id) = file.integer(name) {
            keys.insert((*key).to_owned(), id.into());
        }
    }
    let head_dim = match architecture {
        "llama" | "mistral" => file.integer(&format!("{architecture}.rope.dimension_count")),
        "qwen3" => file.integer(&format!("{architecture}.attention.key_length")),
        _ => None,
    };
    keys.extend(head_dim.map(|size| ("head_dim".to_owned(), size.into())));
    if !keys.contains_key("vocab_size") {
        let tokens = file.texts("tokenizer.ggml.tokens").map(|tokens| tokens.len());
        let tokens =
            tokens.ok_or_else(|| file.error("it has no vocabulary (tokenizer.ggml.tokens)"))?;
        keys.insert("vocab_size".to_owned(), tokens.into());
    }
    if !is_gpt2 && !keys.contains_key("num_key_value_heads") {
        let heads = keys.get("num_attention_heads").cloned().unwrap_or_default();
        keys.insert("num_key_value_heads".to_owned(), heads);
    }
    let tied = !file.tensors.contains_key("output.weight");
    keys.insert("tie_word_embeddings".to_owned(), tied.into());
    Ok(keys)
}

fn architecture(file: &GgufFile) -> Result<&str> {
    const KEY: &str = "general.architecture";
    let name = file.text(KEY).ok_or_else(|| file.error(format!("it has no {KEY}")))?;
    if LIKE_LLAMA.contains(&name) || name == "gpt2" {
        return Ok(name);
    }
    let known = LIKE_LLAMA.join(", ");
    Err(file.error(format!("{KEY} is {name}; {known} and gpt2 are converted")))
}

/// Refuses scaled rotations, whose parameters the file does not have as transformers' configs do.
fn check_positions(file: &GgufFile, architecture: &str) -> Result<()> {
    let scaling = file.text(&format!("{architecture}.rope.scaling.type"));
    let scaling = scaling.filter(|kind| *kind != "none");
    let has_factors = file.tensors.keys().any(|name| name.starts_with("rope_"));
    match scaling.or(has_factors.then_some("by factors")) {
        None => Ok(()),
        Some(kind) => Err(file.error(format!(
            "its positions are scaled ({kind}), which config.json would need other keys for; take the \
             model's own folder from the hub"
        ))),
    }
}

fn number_of(value: &Value) -> Json {
    match value {
        Value::Integer(number) => json!(number),
        Value::Float(number) => json!(number),
        _ => Json::Null,
    }
}

/// The name in the file of transformers' parameter `name`.
pub(super) fn tensor_name(name: &str) -> Option<String> {
    let (module, last) = name.rsplit_once('.')?;
    if let Some((_, other)) = OTHERS.iter().find(|(known, _)| *known == module) {
        return Some(format!("{other}.{last}"));
    }
    let of_llama = module.strip_prefix("model.layers.").map(|rest| (rest, LAYER_OF_LLAMA));
    let of_gpt2 = || module.strip_prefix("transformer.h.").map(|rest| (rest, LAYER_OF_GPT2));
    let (rest, names) = of_llama.or_else(of_gpt2)?;
    let (layer, module) = rest.split_once('.')?;
    let (_, other) = names.iter().find(|(known, _)| *known == module)?;
    Some(format!("blk.{layer}.{other}.{last}"))
}

/// The layout of a tensor of the file.
pub(super) fn layout(config: &Map<String, Json>, tensor: &str) -> Layout {
    let heads = |key: &str| config.get(key).and_then(Json::as_u64).unwrap_or(1) as usize;
    let is_of = |names: &[&str]| names.iter().any(|name| tensor.contains(name));
    match config.get("model_type").and_then(Json::as_str) {
        Some("gpt2")
            if is_of(&[
                "attn_qkv.weight",
                "ffn_down.weight",
                "ffn_up.weight",
                "attn_output.weight",
            ]) =>
        {
            Layout::Transposed
        }
        Some("llama" | "mistral") if is_of(&[".attn_q."]) => {
            Layout::Interleaved { heads: heads("num_attention_heads") }
        }
        Some("llama" | "mistral") if is_of(&[".attn_k."]) => {
            Layout::Interleaved { heads: heads("num_key_value_heads") }
        }
        _ => Layout::AsItIs,
    }
}
