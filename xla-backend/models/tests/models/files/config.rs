//! Configs that are refused, and what overrides and labels do.

use serde_json::{Map, Value, json};
use traind_models::tasks::ProblemType;
use traind_models::{Init, Model, ModelConfig, OutputKind, Result, Task, registry};

fn keys() -> Map<String, Value> {
    let config = json!({
        "model_type": "bert", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 32, "unread": [1, {"kept": true}],
    });
    config.as_object().unwrap().clone()
}

fn build(changes: Value, task: Task) -> Result<Model> {
    let mut keys = keys();
    keys.extend(changes.as_object().unwrap().clone());
    registry::build(ModelConfig::new("config.json", keys), task)
}

fn check_error(changes: Value, expect: &str) {
    let error = build(changes, Task::SequenceClassification).err().unwrap().to_string();
    assert_eq!(error, expect);
}

#[test]
fn counts_have_a_limit() {
    let config = |count: u64| {
        let keys = json!({ "type_vocab_size": count });
        ModelConfig::new("config.json", keys.as_object().unwrap().clone())
    };
    assert_eq!(config(0).count_or("type_vocab_size", 2).unwrap(), 0);
    let error = config(1 << 31).count_or("type_vocab_size", 2).unwrap_err();
    let expect =
        "config.json: type_vocab_size: expected an integer from 0 to 2147483647, found 2147483648";
    assert_eq!(error.to_string(), expect);
}

#[test]
fn unusable_values_are_named() {
    check_error(
        json!({"hidden_size": -16}),
        "config.json: hidden_size: expected an integer from 1 to 2147483647, found -16",
    );
    check_error(
        json!({"vocab_size": null}),
        "config.json: vocab_size: expected an integer from 1 to 2147483647, found none",
    );
    check_error(
        json!({"num_attention_heads": 3}),
        "config.json: num_attention_heads: 3 does not divide hidden size 16",
    );
    check_error(
        json!({"hidden_dropout_prob": 1.0}),
        "config.json: hidden_dropout_prob: expected a number from 0 up to but not 1, found 1.0",
    );
    check_error(
        json!({"hidden_act": "gelu2"}),
        "config.json: hidden_act: expected one of gelu, gelu_10, gelu_accurate, gelu_fast, \
         gelu_new, gelu_python, gelu_python_tanh, gelu_pytorch_tanh, hardswish, laplace, \
         leaky_relu, linear, mish, quick_gelu, relu, relu2, relu6, sigmoid, silu, sqrtsoftplus, \
         swish, tanh, found gelu2",
    );
    check_error(
        json!({"pad_token_id": 50}),
        "config.json: pad_token_id: expected a token id below vocab_size (50), found 50",
    );
    check_error(
        json!({"problem_type": "ranking"}),
        "config.json: problem_type: expected one of single_label_classification, regression, \
         multi_label_classification, found ranking",
    );
}

/// They exist one by one from the first look at a model: two billion of them fill any memory.
#[test]
fn layers_and_labels_beyond_any_model_are_refused_before_they_are_made() {
    let layers = |config: Value, key: &str| {
        let found = format!("expected an integer from 1 to 10000, found {}", 1u64 << 30);
        let (config, expect) = (with(config, key, json!(1u64 << 30)), format!("{key}: {found}"));
        check_refused(config, Task::SequenceClassification, &expect);
    };
    layers(json!({}), "num_hidden_layers");
    layers(distilbert(), "n_layers");
    layers(gpt2(), "n_layer");
    let albert = json!({"model_type": "albert", "embedding_size": 16});
    layers(albert.clone(), "num_hidden_groups");
    layers(albert, "inner_group_num");
    check_refused(
        json!({"num_labels": 1 << 30}),
        Task::SequenceClassification,
        "num_labels: expected an integer from 1 to 1000000, found 1073741824",
    );
    assert!(build(json!({"num_hidden_layers": 10_001}), Task::MaskedLm).is_err());
}

/// Sums of such sizes do not fit 64 bits: a release build would plan with what is left of them.
#[test]
fn a_model_whose_sizes_overflow_is_refused() {
    let largest = (1u64 << 31) - 8;
    let error = build(json!({"hidden_size": largest}), Task::MaskedLm).err().unwrap().to_string();
    let shape = format!("its shape is [{largest}, {largest}], and the model has ");
    assert!(error.contains(&shape) && error.contains("at most 1125899906842624"), "{error}");
    assert!(error.contains("attention.self.query.weight"), "{error}");
}

fn distilbert() -> Value {
    json!({"model_type": "distilbert", "vocab_size": 50, "dim": 16, "n_layers": 1, "n_heads": 2,
           "hidden_dim": 32})
}

fn gpt2() -> Value {
    json!({"model_type": "gpt2", "vocab_size": 50, "n_embd": 16, "n_layer": 8, "n_head": 2})
}

/// A family's config with one key more or other.
fn with(mut config: Value, key: &str, value: Value) -> Value {
    config[key] = value;
    config
}

fn check_refused(changes: Value, task: Task, expect: &str) {
    let error = build(changes, task).err().unwrap().to_string();
    assert_eq!(error, format!("config.json: {expect}"));
}

#[test]
fn what_a_family_cannot_do_is_refused() {
    check_refused(
        json!({"model_type": "roberta", "pad_token_id": null}),
        Task::MaskedLm,
        "pad_token_id: expected a token id with positions behind it \
         (max_position_embeddings is 512), found none",
    );
    check_refused(
        json!({"model_type": "roberta", "max_position_embeddings": 2}),
        Task::MaskedLm,
        "pad_token_id: expected a token id with positions behind it \
         (max_position_embeddings is 2), found 1",
    );
    check_refused(
        json!({}),
        Task::CausalLm,
        "is_decoder: causal language modeling needs true, in config.json or \
         model.config_overrides",
    );
    check_refused(
        with(distilbert(), "n_heads", json!(3)),
        Task::TokenClassification,
        "n_heads: 3 does not divide hidden size 16",
    );
    check_refused(
        with(gpt2(), "add_cross_attention", json!(true)),
        Task::CausalLm,
        "add_cross_attention: cross attention is not supported",
    );
    check_refused(
        json!({"model_type": "mpnet", "relative_attention_num_buckets": 16}),
        Task::MaskedLm,
        "relative_attention_num_buckets: expected at least 32, found 16",
    );
    check_refused(
        json!({"model_type": "albert", "num_hidden_groups": 3}),
        Task::MaskedLm,
        "num_hidden_groups: expected at most num_hidden_layers (2), found 3",
    );
    check_refused(
        json!({"model_type": "modernbert", "classifier_pooling": "max"}),
        Task::SequenceClassification,
        "classifier_pooling: expected cls or mean, found max",
    );
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        check_refused(
            with(json!({"model_type": "gemma"}), key, json!(30.0)),
            Task::CausalLm,
            &format!("{key}: soft caps are not supported; null has none"),
        );
    }
}

#[test]
fn what_deberta_cannot_do_is_refused() {
    let check = |key, value, expect| {
        let changes = with(json!({"model_type": "deberta-v2"}), key, value);
        check_refused(changes, Task::MaskedLm, expect);
    };
    check(
        "conv_kernel_size",
        json!(3),
        "conv_kernel_size: convolutions are not supported; 0 has none",
    );
    check("embedding_size", json!(8), "embedding_size: expected 16 as hidden_size has it, found 8");
    check("pos_att_type", json!("c2p|p2p"), "pos_att_type: expected c2p and p2c, found p2p");
    check("legacy", json!(false), "legacy: only the head of true is supported");
}

#[test]
fn positions_are_those_that_tokens_can_have() {
    let longest = |changes, task| build(changes, task).unwrap().max_positions();
    let roberta = json!({"model_type": "roberta", "max_position_embeddings": 514});
    assert_eq!(longest(json!({}), Task::MaskedLm), 512);
    assert_eq!(longest(roberta, Task::MaskedLm), 512);
    assert_eq!(longest(gpt2(), Task::CausalLm), 1024);
}

#[test]
fn projections_into_the_residual_stream_of_gpt2_start_narrower() {
    let model = build(gpt2(), Task::CausalLm).unwrap();
    let std = |name: &str| {
        let spec = model.parameters().iter().find(|spec| spec.name.ends_with(name)).unwrap();
        match spec.init {
            Init::Normal { std } => std,
            other => panic!("{name} starts as {other:?}"),
        }
    };
    assert_eq!(std("attn.c_attn.weight"), 0.02);
    assert_eq!(std("attn.c_proj.weight"), 0.005);
    assert_eq!(std("mlp.c_proj.weight"), 0.005);
}

#[test]
fn logits_mean_what_their_task_says() {
    let output = |changes, task| build(changes, task).unwrap().output();
    let of_bert = |task| output(json!({"num_labels": 7}), task);
    assert_eq!(of_bert(Task::SequenceClassification), OutputKind::PerRow { classes: 7 });
    assert_eq!(of_bert(Task::TokenClassification), OutputKind::PerToken { classes: 7 });
    assert_eq!(of_bert(Task::MaskedLm), OutputKind::PerToken { classes: 50 });
    assert_eq!(of_bert(Task::QuestionAnswering), OutputKind::Span);
    assert_eq!(output(gpt2(), Task::CausalLm), OutputKind::NextToken { classes: 50 });
}

#[test]
fn unknown_families_and_tasks_list_the_known() {
    check_error(
        json!({"model_type": "xlnet"}),
        "config.json: model_type xlnet is unknown, known are bert, distilbert, roberta, \
         xlm-roberta, xlm-roberta-xl, modernbert, eurobert, electra, mpnet, nomic_bert, gte, jina_embeddings_v3, \
         albert, deberta-v2, gpt2, llama, mistral, qwen2, qwen3, gemma, gemma2, \
         gemma3_text, phi3, smollm3, granite, olmo2, olmo3, t5, mt5, bart, mbart, vit, deit",
    );
    let error = build(json!({}), Task::Seq2SeqLm).err().unwrap().to_string();
    assert_eq!(
        error,
        "bert has no seq2seq-lm, it has sequence-classification, reward, reranker, token-classification, \
         question-answering, masked-lm, causal-lm, sft, dpo, orpo, cpo, kto, embedding"
    );
}

#[test]
fn a_tokenizer_beyond_the_embedding_is_refused() {
    let model = build(json!({}), Task::SequenceClassification).unwrap();
    model.check_vocabulary(50).unwrap();
    assert_eq!(
        model.check_vocabulary(51).unwrap_err().to_string(),
        "the tokenizer has 51 tokens and the embedding 50 rows (config.json: vocab_size)"
    );
}

fn load(overrides: Value) -> ModelConfig {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), Value::from(keys()).to_string()).unwrap();
    ModelConfig::load(folder.path(), overrides.as_object().unwrap()).unwrap()
}

#[test]
fn overrides_replace_keys_and_the_rest_is_kept() {
    let config = load(json!({"num_hidden_layers": 1, "hidden_dropout_prob": 0.0}));
    assert_eq!(config.keys()["num_hidden_layers"], 1);
    assert_eq!(config.keys()["unread"], json!([1, {"kept": true}]));
    let model = registry::build(config, Task::SequenceClassification).unwrap();
    assert_eq!(model.config().keys()["architectures"], json!(["BertForSequenceClassification"]));
}

#[test]
fn an_override_that_no_one_reads_is_a_slip() {
    let config = load(json!({"hidden_dropout": 0.0}));
    let error = registry::build(config, Task::SequenceClassification).err().unwrap().to_string();
    assert_eq!(
        error,
        "hidden_dropout is not a key of a bert config, did you mean hidden_dropout_prob?"
    );
}

#[test]
fn labels_count_and_name_the_logits() {
    let mut config = load(json!({}));
    assert_eq!(config.num_labels().unwrap(), 2);
    config.set_labels(&["good", "bad", "ugly"]);
    assert_eq!(config.labels().unwrap(), ["good", "bad", "ugly"]);
    assert_eq!(config.keys()["label2id"], json!({"good": 0, "bad": 1, "ugly": 2}));
    config.set_num_labels(3);
    assert_eq!(config.labels().unwrap(), ["good", "bad", "ugly"]);
    config.set_num_labels(1);
    assert_eq!(config.labels().unwrap(), ["LABEL_0"]);
    assert_eq!(ProblemType::of(&config).unwrap(), ProblemType::Regression);
}
