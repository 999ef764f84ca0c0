//! Sets with losses of their own, whose batches are mixed, beside sentence-transformers' trainer.

use std::fs;

use serde_json::{Value, json};
use tonic_types::StatusExt;
use traind_tests::{Draft, Host};

use super::super::sft::{fixture, lines, set_all};
use super::{check_losses, check_same, write_model};

/// A job of the fixture's sets.
fn draft(host: &Host, name: &str, mixing: &str, fixture: &Value) -> Draft {
    let job_file = format!(
        "name: {name}\nmodel: {{name_or_path: ./model, task: embedding}}\n\
         data: {{train: pairs.jsonl}}\noutput_dir: out\n"
    );
    let mut draft = Draft::of_job_file(host, name, &job_file);
    write_model(&draft.path("model"), fixture);
    let sets = fixture["runs"]["mixed"]["sets"].as_array().unwrap();
    let mut entries = Vec::new();
    for set in sets {
        let file = format!("{}.jsonl", set["name"].as_str().unwrap());
        draft = draft.write(&file, lines(set["rows"].as_array().unwrap()));
        entries.push(json!({"path": file, "loss": set["loss"], "loss_args": set["loss_args"]}));
    }
    let draft = set_all(draft, "train", &fixture["train"]);
    draft
        .set("data.train", Value::from(entries))
        .set("data.mixing", mixing)
        .set("train.max_steps", &fixture["runs"]["mixed"]["steps"])
        .set("train.logging_steps", 1)
        .set("train.save_strategy", "no")
}

#[tokio::test]
async fn each_batch_has_the_loss_of_its_set_on_any_number_of_cores_and_in_parts() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(2).await;
    let of = |name: &str| {
        draft(&host, name, "round_robin", &fixture)
            .set("train.train_sampling_strategy", "sequential")
    };
    let one = of("one");
    host.complete(&one).await;
    check_losses(&one, &fixture, "mixed");
    let two = of("two").set("train.per_device_train_batch_size", 2).set("resources.cores", 2);
    host.complete(&two).await;
    check_losses(&two, &fixture, "mixed");
    let parts = of("parts").set("embedding.mini_batch_size", 2);
    host.complete(&parts).await;
    check_losses(&parts, &fixture, "mixed");
    // `cosent` multiplies cosines by 20, and so what updates that were added up in another order change in them.
    let stages = of("stages").set("parallel.pipeline", 2).set("resources.cores", 2);
    host.complete(&stages).await;
    for other in [&two, &parts, &stages] {
        check_same(&one, other, 20.0 * f64::from(f32::EPSILON));
    }
}

/// The order of batches depends on the seed and the epoch alone. Rows are evaluated with the loss of the job, and
/// may have another number of texts.
#[tokio::test]
async fn mixed_batches_are_resumed_exactly() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let scored = fixture["runs"]["cosent"]["rows"].as_array().unwrap();
    let of = |name: &str| {
        draft(&host, name, "proportional", &fixture)
            .write("dev.jsonl", lines(scored))
            .set("data.validation", "dev.jsonl")
            .set("embedding.loss", "cosent")
            .set("embedding.batch_sampler", "no_duplicates")
            .set("train.max_steps", 14)
            .set("train.eval_strategy", "epoch")
            .set("train.save_strategy", "steps")
            .set("train.save_steps", 5)
    };
    let whole = of("whole");
    host.complete(&whole).await;
    let state = whole.output("out").trainer_state();
    assert_eq!(state.series("eval_loss").len(), 2, "an epoch has all ten batches");
    assert_eq!(state.series("eval_spearman_cosine").len(), 2);
    let resumed =
        of("resumed").set("train.resume_from_checkpoint", whole.path("out/checkpoint-5").display());
    host.complete(&resumed).await;
    let read = |draft: &Draft| fs::read(draft.path("out/model.safetensors")).unwrap();
    assert_eq!(read(&resumed), read(&whole));
}

#[tokio::test]
async fn rows_to_evaluate_have_as_many_texts_as_the_loss_of_evaluations_takes() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let scored = fixture["runs"]["cosent"]["rows"].as_array().unwrap();
    let draft = draft(&host, "unfit", "proportional", &fixture)
        .write("dev.jsonl", lines(scored))
        .set("data.validation", "dev.jsonl")
        .set("embedding.loss", "triplet")
        .set("train.eval_strategy", "epoch");
    let refused = host.create(&draft).await.unwrap_err().get_error_details();
    let violation = &refused.bad_request().unwrap().field_violations[0];
    assert_eq!(violation.field, "data.texts");
    let expect = "the rows that embedding.loss evaluates have 2 columns of texts, and the loss triplet needs 3;";
    assert!(violation.description.contains(expect), "{violation:?}");
}
