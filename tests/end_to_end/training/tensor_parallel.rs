//! Layers that cores share compute what one core computes, and checkpoints fit any number of cores.

use std::path::Path;

use tonic_types::StatusExt;
use traind_tests::{Draft, Host};

use super::one_core::{CLASSIFICATION, Job, LANGUAGE_MODEL, Results, STEPS, results};

/// A job on 2 x 2 cores that resumes.
fn draft_of_four_cores(host: &Host, job: &Job, name: &str, checkpoint: &Path) -> Draft {
    job.draft(host, name, 2, 2, 2)
        .set("train.gradient_accumulation_steps", 2)
        .set("parallel.shard_optimizer_state", true)
        .set("parallel.sequence_parallel", true)
        .set("train.resume_from_checkpoint", checkpoint.display())
}

/// Compares jobs with that of one core, and returns that of 2 x 2 cores with its results.
async fn check(host: &Host, job: Job) -> (Draft, Results) {
    let expect = results(host, &job.draft(host, "one", 1, 1, 8)).await;
    assert_eq!(expect.losses.len(), STEPS);
    let two = job.draft(host, "t2", 1, 2, 8);
    results(host, &two).await.assert_equal(&expect, "T2");
    // Each continues from a checkpoint of the one before.
    let four = draft_of_four_cores(host, &job, "d2-t2", &two.path("out/checkpoint-2"));
    let of_four = results(host, &four).await;
    of_four.assert_equal(&expect, "D2 T2");
    let heads = job
        .draft(host, "t4", 1, 4, 8)
        .set("train.gradient_checkpointing", true)
        .set("train.resume_from_checkpoint", four.path("out/checkpoint-4").display());
    results(host, &heads).await.assert_equal(&expect, "T4");
    let one = job
        .draft(host, "one-again", 1, 1, 8)
        .set("train.resume_from_checkpoint", four.path("out/checkpoint-4").display());
    results(host, &one).await.assert_equal(&expect, "one core after D2 T2");
    (four, of_four)
}

#[tokio::test]
async fn a_classifier_whose_layers_are_divided_trains_as_on_one_core() {
    let host = Host::started(4).await;
    let (cluster, expect) = check(&host, CLASSIFICATION).await;
    let last = cluster.path("out/checkpoint-4");
    let spread = draft_of_four_cores(&host, &CLASSIFICATION, "spread", &last)
        .set("parallel.placement", "spread");
    results(&host, &spread).await.assert_equal(&expect, "spread");
}

#[tokio::test]
async fn a_language_model_whose_vocabulary_is_divided_trains_as_on_one_core() {
    check(&Host::started(4).await, LANGUAGE_MODEL).await;
}

/// Submits a job, which is refused, and returns the description of the violation.
async fn refusal(host: &Host, draft: &Draft) -> String {
    let refused = host.create(draft).await.unwrap_err();
    let details = refused.get_error_details();
    let [violation] = &details.bad_request().unwrap().field_violations[..] else {
        panic!("{details:?}");
    };
    assert_eq!(violation.field, "parallel.tensor");
    violation.description.clone()
}

#[tokio::test]
async fn cores_that_cannot_share_a_model_are_refused_with_what_can() {
    let host = Host::started(3).await;
    let heads = refusal(&host, &CLASSIFICATION.draft(&host, "heads", 1, 3, 8)).await;
    let expect = "parallel.tensor is 3, which does not divide the 4 attention heads of \
                  bert.encoder.layer.0.attention.self.query.weight; the nearest that divides all is 2";
    assert!(heads.contains(expect), "{heads}");
    let optimizer = CLASSIFICATION.draft(&host, "optim", 1, 2, 8).set("train.optim", "adafactor");
    let optimizer = refusal(&host, &optimizer).await;
    assert!(optimizer.contains("train.optim: adafactor reads whole parameters"), "{optimizer}");
}
