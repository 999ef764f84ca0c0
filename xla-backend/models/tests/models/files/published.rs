//! Configs of published decoders: each is read as it is, and gives as many parameters as its weights on the hub have.
//! The numbers are those of the models' `config.json`, and of the index of their files.

use serde_json::{Map, Value, json};
use traind_models::{ModelConfig, Task, registry};

/// `sizes` are hidden size, layers, heads, heads of keys, inner size and vocabulary.
#[track_caller]
fn check(name: &str, model_type: &str, sizes: [u64; 6], more: Value, parameters: usize) {
    let [hidden, layers, heads, keys, inner, vocabulary] = sizes;
    let mut config = json!({
        "model_type": model_type, "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": keys, "intermediate_size": inner,
        "vocab_size": vocabulary, "hidden_act": "silu", "initializer_range": 0.02,
        "attention_dropout": 0.0, "use_cache": true, "torch_dtype": "bfloat16",
    });
    let own: &Map<String, Value> = more.as_object().unwrap();
    config.as_object_mut().unwrap().extend(own.clone());
    let positions = config["max_position_embeddings"].as_u64().unwrap();
    let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
    let longest = registry::max_positions(&config, Task::CausalLm);
    let model =
        registry::build(config, Task::CausalLm).unwrap_or_else(|error| panic!("{name}: {error}"));
    let found: usize = model.parameters().iter().map(|spec| spec.shape.element_count()).sum();
    assert_eq!((found, longest.unwrap() as u64), (parameters, positions), "{name}");
}

#[test]
fn qwen_2_5() {
    let check = |name: &str, sizes: [u64; 5], positions: u64, tied: bool, parameters| {
        let [hidden, layers, heads, keys, inner] = sizes;
        let vocabulary = if tied { 151_936 } else { 152_064 };
        let more = json!({
            "max_position_embeddings": positions, "max_window_layers": layers, "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000.0, "sliding_window": positions, "use_sliding_window": false,
            "use_mrope": false, "tie_word_embeddings": tied, "bos_token_id": 151_643,
            "eos_token_id": 151_643,
        });
        check(name, "qwen2", [hidden, layers, heads, keys, inner, vocabulary], more, parameters);
    };
    check("Qwen2.5-0.5B", [896, 24, 14, 2, 4864], 32_768, true, 494_032_768);
    check("Qwen2.5-1.5B", [1536, 28, 12, 2, 8960], 131_072, true, 1_543_714_304);
    check("Qwen2.5-3B", [2048, 36, 16, 2, 11_008], 32_768, true, 3_085_938_688);
    check("Qwen2.5-7B", [3584, 28, 28, 4, 18_944], 131_072, false, 7_615_616_512);
    check("Qwen2.5-14B", [5120, 48, 40, 8, 13_824], 131_072, false, 14_770_033_664);
    check("Qwen2.5-32B", [5120, 64, 40, 8, 27_648], 131_072, false, 32_763_876_352);
    check("Qwen2.5-72B", [8192, 80, 64, 8, 29_568], 131_072, false, 72_706_203_648);
}

#[test]
fn llama_3_1_to_3_3() {
    let check = |name: &str, sizes: [u64; 5], head_dim: u64, factor: f64, parameters| {
        let [hidden, layers, heads, keys, inner] = sizes;
        let more = json!({
            "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0,
            "rope_scaling": {
                "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3",
            },
            "head_dim": head_dim, "tie_word_embeddings": factor == 32.0, "attention_bias": false,
            "mlp_bias": false, "pretraining_tp": 1, "bos_token_id": 128_000,
            "eos_token_id": [128_001, 128_008, 128_009],
        });
        check(name, "llama", [hidden, layers, heads, keys, inner, 128_256], more, parameters);
    };
    check("Llama-3.1-8B", [4096, 32, 32, 8, 14_336], 128, 8.0, 8_030_261_248);
    check("Llama-3.1-70B, Llama-3.3-70B", [8192, 80, 64, 8, 28_672], 128, 8.0, 70_553_706_496);
    check("Llama-3.1-405B", [16_384, 126, 128, 8, 53_248], 128, 8.0, 405_853_388_800);
    check("Llama-3.2-1B", [2048, 16, 32, 8, 8192], 64, 32.0, 1_235_814_400);
    check("Llama-3.2-3B", [3072, 28, 24, 8, 8192], 128, 32.0, 3_212_749_824);
}

#[test]
fn phi_4() {
    let common = json!({
        "rms_norm_eps": 1e-5, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attention_bias": false,
        "bos_token_id": 100_257, "eos_token_id": 100_257, "pad_token_id": 100_257,
    });
    let with = |more: Value| {
        let mut all = common.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let more = with(json!({
        "max_position_embeddings": 16_384, "original_max_position_embeddings": 16_384,
        "rope_theta": 250_000, "rope_scaling": null, "sliding_window": null,
        "tie_word_embeddings": false,
    }));
    check("phi-4", "phi3", [5120, 40, 40, 10, 17_920, 100_352], more, 14_659_507_200);
    // Its own factors differ from 1; there are as many.
    let more = with(json!({
        "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096,
        "rope_theta": 10_000.0, "partial_rotary_factor": 0.75, "sliding_window": 262_144,
        "rope_scaling": {
            "type": "longrope", "long_factor": vec![1.0; 48], "short_factor": vec![1.0; 48],
        },
        "tie_word_embeddings": true,
    }));
    check("Phi-4-mini", "phi3", [3072, 32, 24, 8, 8192, 200_064], more, 3_836_021_760);
}

#[test]
fn granite_3_1() {
    let check = |name: &str, hidden: u64, inner: u64, multipliers: [f64; 3], parameters| {
        let [attention, logits, theta] = multipliers;
        let more = json!({
            "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5, "rope_theta": theta,
            "rope_scaling": null, "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
            "attention_multiplier": attention, "logits_scaling": logits, "attention_bias": false,
            "mlp_bias": false, "attention_dropout": 0.1, "tie_word_embeddings": true,
            "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0,
        });
        check(name, "granite", [hidden, 40, 32, 8, inner, 49_155], more, parameters);
    };
    check("granite-3.1-2b", 2048, 8192, [0.015625, 8.0, 5_000_000.0], 2_533_531_648);
    check("granite-3.1-8b", 4096, 12_800, [0.0078125, 16.0, 10_000_000.0], 8_170_848_256);
}

#[test]
fn smollm_3() {
    let without_positions: Vec<u64> = (1..=36).map(|layer| u64::from(layer % 4 != 0)).collect();
    let more = json!({
        "max_position_embeddings": 65_536, "rms_norm_eps": 1e-6, "rope_theta": 5_000_000.0,
        "rope_scaling": null, "no_rope_layer_interval": 4, "no_rope_layers": without_positions,
        "layer_types": vec!["full_attention"; 36], "sliding_window": null,
        "use_sliding_window": false, "max_window_layers": 28, "attention_bias": false,
        "mlp_bias": false, "pretraining_tp": 2, "tie_word_embeddings": true,
        "bos_token_id": null, "eos_token_id": 128_012, "pad_token_id": 128_004,
    });
    check("SmolLM3-3B", "smollm3", [2048, 36, 16, 4, 11_008, 128_256], more, 3_075_098_624);
}

#[test]
fn olmo_2_and_3() {
    let check = |name: &str, generation: u64, sizes: [u64; 5], parameters| {
        let [hidden, layers, heads, keys, inner] = sizes;
        let mut more = json!({
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 500_000,
            "rope_scaling": null, "attention_bias": false, "tie_word_embeddings": false,
            "eos_token_id": 100_257, "pad_token_id": 100_277,
        });
        if generation == 3 {
            let kinds = ["sliding_attention"; 3].into_iter().chain(["full_attention"]);
            let kinds: Vec<&str> = kinds.cycle().take(layers as usize).collect();
            let scaling = json!({
                "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
                "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0,
            });
            let own = json!({
                "max_position_embeddings": 65_536, "sliding_window": 4096, "layer_types": kinds,
                "rope_scaling": scaling,
            });
            more.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        }
        let vocabulary = if generation == 3 { 100_278 } else { 100_352 };
        let sizes = [hidden, layers, heads, keys, inner, vocabulary];
        check(name, &format!("olmo{generation}"), sizes, more, parameters);
    };
    check("OLMo-2-0425-1B", 2, [2048, 16, 16, 16, 8192], 1_484_916_736);
    check("OLMo-2-1124-7B", 2, [4096, 32, 32, 32, 11_008], 7_298_617_344);
    check("OLMo-2-1124-13B", 2, [5120, 40, 40, 40, 13_824], 13_716_198_400);
    check("OLMo-2-0325-32B", 2, [5120, 64, 40, 8, 27_648], 32_234_279_936);
    check("Olmo-3-1025-7B", 3, [4096, 32, 32, 32, 11_008], 7_298_011_136);
    check("Olmo-3-1125-32B", 3, [5120, 64, 40, 8, 27_648], 32_233_522_176);
}

#[test]
fn gemma_2_and_3() {
    let common = |head_dim: u64| {
        json!({
            "head_dim": head_dim, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
            "attention_bias": false, "bos_token_id": 2, "pad_token_id": 0,
        })
    };
    let with = |mut config: Value, own: Value| {
        config.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        config
    };
    for (name, sizes, head_dim, scalar, parameters) in [
        ("gemma-2-2b", [2304, 26, 8, 4, 9216, 256_000], 256, 256, 2_614_341_888),
        ("gemma-2-9b", [3584, 42, 16, 8, 14_336, 256_000], 256, 256, 9_241_705_984),
        ("gemma-2-27b", [4608, 46, 32, 16, 36_864, 256_000], 128, 144, 27_227_128_320),
    ] {
        let own = json!({
            "max_position_embeddings": 8192, "rope_theta": 10_000.0, "sliding_window": 4096,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
            "query_pre_attn_scalar": scalar, "hidden_act": "gelu_pytorch_tanh", "eos_token_id": 1,
        });
        check(name, "gemma2", sizes, with(common(head_dim), own), parameters);
    }
    for (name, sizes, parameters) in [
        ("gemma-3-270m", [640, 18, 4, 1, 2048, 262_144], 268_098_176),
        ("gemma-3-1b", [1152, 26, 4, 1, 6912, 262_144], 999_885_952),
    ] {
        let own = json!({
            "max_position_embeddings": 32_768, "rope_theta": 1_000_000, "rope_scaling": null,
            "rope_local_base_freq": 10_000, "sliding_window": 512, "sliding_window_pattern": 6,
            "attn_logit_softcapping": null, "final_logit_softcapping": null,
            "query_pre_attn_scalar": 256, "eos_token_id": [1, 106],
        });
        check(name, "gemma3_text", sizes, with(common(256), own), parameters);
    }
}
