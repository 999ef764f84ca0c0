//! A model that guides the loss, whose vectors are computed before the first step.

use std::fs;

use serde_json::Value;
use traind_tests::{Draft, Host};

use super::super::sft::{fixture, lines, set_all};
use super::{
    LIMIT_SAME, check_losses, check_same, write_guide, write_guide_of_letters, write_model,
};

/// The job of the fixture's run `run`.
fn draft(host: &Host, name: &str, run: &str, fixture: &Value) -> Draft {
    let job_file = format!(
        "name: {name}\nmodel: {{name_or_path: ./model, task: embedding}}\n\
         data: {{train: train.jsonl}}\noutput_dir: out\n"
    );
    let draft = Draft::of_job_file(host, name, &job_file);
    write_model(&draft.path("model"), fixture);
    write_guide(&draft.path("guide"), fixture);
    let run = &fixture["runs"][run];
    // Where the fixture's rows have the guide's vectors, these are left out.
    let without = |values: &Value, key: &str| {
        let mut values = values.clone();
        values.as_object_mut().unwrap().remove(key);
        values
    };
    let rows = run["rows"].as_array().unwrap().iter().map(|row| without(row, "label"));
    let draft = draft.write("train.jsonl", lines(&rows.collect::<Vec<_>>()));
    let draft = set_all(draft, "train", &fixture["train"]);
    set_all(draft, "embedding", &without(&run["embedding"], "guide_width"))
        .set("embedding.guide", "./guide")
        .set("train.train_sampling_strategy", "sequential")
        .set("train.logging_steps", 1)
        .set("train.save_strategy", "no")
}

/// The losses are those of `GISTEmbedLoss`, which embeds the texts of each batch by the guide.
#[tokio::test]
async fn a_guide_decides_on_negatives_as_in_sentence_transformers() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(2).await;
    let of = |name: &str| draft(&host, name, "guided", &fixture);
    let one = of("one");
    host.complete(&one).await;
    check_losses(&one, &fixture, "guided");
    let two = of("two").set("train.per_device_train_batch_size", 2).set("resources.cores", 2);
    let other = draft(&host, "other", "retokenized", &fixture);
    write_guide_of_letters(&other.path("guide"), &fixture);
    host.complete(&other).await;
    check_losses(&other, &fixture, "retokenized");
    let parts = of("parts").set("embedding.mini_batch_size", 2);
    let stages = of("stages").set("parallel.pipeline", 2).set("resources.cores", 2);
    for draft in [two, parts, stages] {
        host.complete(&draft).await;
        check_losses(&draft, &fixture, "guided");
        check_same(&one, &draft, LIMIT_SAME * 10.0);
    }
}

/// Rows that are evaluated have the guide's vectors too, and a run that resumes ends as one that was not interrupted.
#[tokio::test]
async fn guided_runs_are_evaluated_and_resumed_exactly() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let of = |name: &str| {
        draft(&host, name, "guided", &fixture)
            .set("data.validation_split", 4)
            .set("train.eval_strategy", "steps")
            .set("train.eval_steps", 2)
            .set("train.save_strategy", "steps")
            .set("train.save_steps", 2)
    };
    let whole = of("whole");
    let history = host.complete(&whole).await;
    let embeds = "The guide embeds 48 texts, once for all epochs";
    assert_eq!(history.log_messages().iter().filter(|it| **it == embeds).count(), 1);
    assert_eq!(whole.output("out").trainer_state().series("eval_loss").len(), 2);
    let resumed =
        of("resumed").set("train.resume_from_checkpoint", whole.path("out/checkpoint-2").display());
    host.complete(&resumed).await;
    let read = |draft: &Draft| fs::read(draft.path("out/model.safetensors")).unwrap();
    assert_eq!(read(&resumed), read(&whole));
}
