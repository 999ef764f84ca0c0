//! Texts of jobs: of their checkpoints while they train, and of their models afterwards.

use std::path::Path;

use serde_json::Value;
use tonic::Status;
use tonic_types::StatusExt;
use traind_proto::v1::{GenerateTextsRequest, GeneratedTexts};
use traind_tests::{Draft, Host, until};

use crate::tasks::causal_draft;

const PROMPT: &str = "the good film";
const NEW_TOKENS: &str = "5";

fn request(job_id: &str) -> GenerateTextsRequest {
    GenerateTextsRequest {
        job_id: job_id.to_owned(),
        prompts: vec![PROMPT.to_owned()],
        settings: [("max_new_tokens".to_owned(), NEW_TOKENS.to_owned())].into(),
        ..Default::default()
    }
}

async fn generate(host: &Host, request: GenerateTextsRequest) -> Result<GeneratedTexts, Status> {
    Ok(host.jobs().await.generate_texts(request).await?.into_inner())
}

/// The steps of the model, and the tokens that it generates.
async fn texts(host: &Host, id: &str, step: u64) -> (u64, Vec<u32>) {
    let mut found = generate(host, GenerateTextsRequest { step, ..request(id) }).await.unwrap();
    assert_eq!(found.texts.len(), 1);
    (found.step, found.texts.remove(0).tokens)
}

/// Returns the tokens that `traind generate` writes with a folder.
fn tokens_of(host: &Host, folder: &Path) -> Vec<u32> {
    let arguments = ["generate", ".", PROMPT, "--max-new-tokens", NEW_TOKENS, "-o", "json"];
    let output = host.cli(folder, &arguments);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let texts: Value = serde_json::from_str(&output.stdout).unwrap();
    serde_json::from_value(texts[0]["tokens"].clone()).unwrap()
}

fn reason(refused: &Status) -> String {
    refused.get_details_error_info().unwrap().reason
}

/// A job that saves a checkpoint every second step.
fn draft(host: &Host, name: &str) -> Draft {
    causal_draft(host, name)
        .set("train.max_steps", 6)
        .set("train.save_strategy", "steps")
        .set("train.save_steps", 2)
        .set("train.learning_rate", 3e-2)
}

#[tokio::test]
async fn texts_are_of_the_newest_checkpoint_until_the_job_has_completed() {
    let host = Host::started(1).await;
    let draft = draft(&host, "writer");
    let out = draft.path("out");
    let (start, middle) = (host.gate("writer", 0), host.gate("writer", 5));
    let id = host.create(&draft).await.unwrap().id;
    host.until_at(&id, &start).await;
    let early = generate(&host, request(&id)).await.unwrap_err();
    assert_eq!(reason(&early), "CHECKPOINT_NOT_FOUND", "{early}");
    assert!(early.message().ends_with("no complete checkpoint of the job yet"), "{early}");
    drop(start);
    host.until_at(&id, &middle).await;
    until("the checkpoint is complete", || out.join("checkpoint-4").exists()).await;
    let newest = tokens_of(&host, &out.join("checkpoint-4"));
    assert_eq!(texts(&host, &id, 0).await, (4, newest));
    let first = tokens_of(&host, &out.join("checkpoint-2"));
    assert_eq!(texts(&host, &id, 2).await, (2, first));
    drop(middle);
    host.watch(&id).await;
    let trained = tokens_of(&host, &out);
    assert_eq!(texts(&host, &id, 0).await, (6, trained));
    let shown = host.cli(&out, &["generate", "--job", "writer", PROMPT, "--at", "2"]);
    assert!(shown.code == Some(0) && shown.stderr.contains("after 2 steps:"), "{shown:?}");
    let absent = generate(&host, GenerateTextsRequest { step: 3, ..request(&id) }).await;
    let message = absent.unwrap_err().message().to_owned();
    assert!(message.ends_with("no checkpoint of step 3, but those of steps 2, 4, 6"), "{message}");
}

#[tokio::test]
async fn requests_that_no_model_can_answer_are_refused() {
    let host = Host::started(1).await;
    let classifier = Draft::new(&host, "classifier").set("train.max_steps", 1);
    let id = host.complete(&classifier).await.job.id;
    let refused = generate(&host, request(&id)).await.unwrap_err();
    assert_eq!(reason(&refused), "MODEL_UNSUPPORTED");
    let expect = "models of the task sequence-classification generate no texts";
    assert_eq!(refused.message(), expect);

    // Checkpoints come and go while one is read.
    let endless = draft(&host, "writer").endless().set("train.save_steps", 20);
    let id = host.create(&endless.set("train.save_total_limit", 1)).await.unwrap().id;
    let asked = |name: &str, value: &str| {
        let settings = [(name.to_owned(), value.to_owned())].into();
        generate(&host, GenerateTextsRequest { settings, ..request(&id) })
    };
    let unlimited = asked("max_new_tokens", "5000").await.unwrap_err();
    assert_eq!(reason(&unlimited), "REQUEST_INVALID");
    assert!(unlimited.message().contains("up to 1024"), "{unlimited}");
    let nothing = GenerateTextsRequest { prompts: Vec::new(), ..request(&id) };
    assert_eq!(reason(&generate(&host, nothing).await.unwrap_err()), "REQUEST_INVALID");
    host.until_past(&id, 60).await;
    let newest = texts(&host, &id, 0).await;
    assert!(newest.0 >= 20 && newest.0 % 20 == 0, "{newest:?}");
    let unknown = asked("do_sample", "\"yes\"").await.unwrap_err();
    assert_eq!(reason(&unknown), "MODEL_CONFIG_INVALID", "{unknown}");
    host.cancel(&id).await;
}
