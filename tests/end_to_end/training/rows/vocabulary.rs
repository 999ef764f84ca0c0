//! Tokens that a job adds to its model.

use traind_proto::v1::GenerateTextsRequest;
use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

use crate::tasks::causal_draft;

const EMBEDDINGS: &str = "transformer.wte.weight";
const WIDTH: usize = 16;

/// A job on 50 tokens, to which it adds two.
fn draft(host: &Host, name: &str) -> Draft {
    causal_draft(host, name)
        .set("model.add_tokens", r#"["<sql>"]"#)
        .set("model.add_special_tokens.pad_token", "<pad>")
        .set("model.pad_vocab_to_multiple_of", 8)
        .set("train.max_steps", 4)
        .set("train.save_steps", 2)
}

fn weights(draft: &Draft, file: &str) -> Vec<u8> {
    std::fs::read(draft.output("out").folder().join(file)).unwrap()
}

#[tokio::test]
async fn embeddings_and_tokenizer_grow_and_are_saved() {
    let host = Host::started(1).await;
    let whole = draft(&host, "whole");
    host.complete(&whole).await;
    let output = whole.output("out");
    let config = output.json("config.json");
    assert_eq!((&config["vocab_size"], &config["pad_token_id"]), (&56.into(), &51.into()));
    let saved = Weights::read(output.folder().join("model.safetensors"));
    assert_eq!(saved.values(EMBEDDINGS).len(), 56 * WIDTH);
    let tokens = output.json("tokenizer.json")["added_tokens"].to_string();
    assert!(tokens.contains("<sql>") && tokens.contains("<pad>"), "{tokens}");
    assert_eq!(output.json("tokenizer_config.json")["pad_token"], "<pad>");

    let checkpoint = output.folder().join("checkpoint-2");
    let resumed = draft(&host, "resumed").set("train.resume_from_checkpoint", checkpoint.display());
    host.complete(&resumed).await;
    assert_eq!(weights(&resumed, "model.safetensors"), weights(&whole, "model.safetensors"));

    // The output is a model like any other.
    let further = causal_draft(&host, "further")
        .set("model.name_or_path", output.folder().display())
        .set("train.max_steps", 1);
    host.complete(&further).await;
    assert_eq!(further.output("out").json("config.json")["vocab_size"], 56);
}

/// Adapters leave embeddings as they are, and generate with the rows that the tokens of their own
/// tokenizer get.
#[tokio::test]
async fn adapters_keep_the_rows_of_new_tokens() {
    let host = Host::started(1).await;
    let adapted = draft(&host, "adapted").set("peft.method", "lora").set("peft.r", 2);
    let history = host.complete(&adapted).await;
    let events = format!("{:?}", history.events);
    assert!(events.contains("NEW_TOKENS_FROZEN"), "{events}");
    let output = adapted.output("out");
    let saved = Weights::read(output.folder().join("adapter_model.safetensors")).names();
    assert!(saved.iter().all(|name| name.contains("lora")), "{saved:?}");
    let request = GenerateTextsRequest {
        job_id: history.job.id.clone(),
        prompts: vec!["the <sql> cat".to_owned()],
        ..GenerateTextsRequest::default()
    };
    let reply = host.jobs().await.generate_texts(request).await.unwrap().into_inner();
    assert_eq!(reply.texts.len(), 1);
}

/// The rows of new tokens are trained beside adapters where the job lists the tokens, and resume with them.
#[tokio::test]
async fn adapters_train_the_rows_of_listed_tokens() {
    const ROWS: &str = "base_model.model.transformer.wte.token_adapter.trainable_tokens_delta";
    let host = Host::started(1).await;
    let adapted = |name: &str| {
        draft(&host, name)
            .set("peft.method", "lora")
            .set("peft.r", 2)
            .set("peft.trainable_token_indices", "[50, 51, 3]")
    };
    let whole = adapted("whole");
    let history = host.complete(&whole).await;
    let events = format!("{:?}", history.events);
    assert!(!events.contains("NEW_TOKENS_FROZEN"), "{events}");
    let output = whole.output("out");
    let saved = Weights::read(output.folder().join("adapter_model.safetensors"));
    let rows = saved.values(ROWS);
    assert_eq!(rows.len(), 3 * WIDTH);
    let checkpoint = output.folder().join("checkpoint-2");
    let before = Weights::read(checkpoint.join("adapter_model.safetensors")).values(ROWS);
    assert_ne!(rows, before);
    let config = output.json("adapter_config.json");
    assert_eq!(config["trainable_token_indices"], serde_json::json!([50, 51, 3]));
    let resumed = adapted("resumed").set("train.resume_from_checkpoint", checkpoint.display());
    host.complete(&resumed).await;
    let file = "adapter_model.safetensors";
    assert_eq!(weights(&resumed, file), weights(&whole, file));
}
