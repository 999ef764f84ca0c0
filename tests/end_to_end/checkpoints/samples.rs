//! The sample ledger lists each row once per epoch, also after a kill.

use std::collections::BTreeSet;

use traind_proto::v1::GetSamplesRequest;
use traind_tests::{Draft, Host};

use super::checkpoint;

const STEPS_PER_EPOCH: u64 = 8; // 60 rows, 8 a step
const STEPS: u64 = 5 * STEPS_PER_EPOCH;

#[tokio::test]
async fn every_row_is_seen_once_an_epoch_also_after_a_kill() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .set("train.max_steps", STEPS)
        .set("train.per_device_train_batch_size", 4)
        .set("train.gradient_accumulation_steps", 2)
        .set("train.save_steps", 10)
        .set("resources.max_restarts", 3);
    let gate = host.gate("job", 13);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    assert!(host.kill_runner(&job.id, 1));
    gate.open();
    host.watch(&job.id).await;
    let mut jobs = host.jobs().await;
    for epoch in 0..STEPS / STEPS_PER_EPOCH {
        let mut seen = BTreeSet::new();
        for step in epoch * STEPS_PER_EPOCH + 1..=(epoch + 1) * STEPS_PER_EPOCH {
            let request = GetSamplesRequest { job_id: job.id.clone(), step };
            let samples = jobs.get_samples(request).await.unwrap().into_inner();
            assert!(samples.files[0].ends_with("train.csv"), "{samples:?}");
            for sample in samples.samples {
                assert!(seen.insert(sample.row), "epoch {epoch} has row {} twice", sample.row);
            }
        }
        assert_eq!(seen, (0..60).collect(), "epoch {epoch}");
    }
    let output = host.cli(draft.folder(), &["samples", "job", "--step", "8"]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(
        lines.len(),
        4,
        "the last step of an epoch has the rows that are left: {}",
        output.stdout
    );
    assert!(lines.iter().all(|line| line.contains("train.csv\t")), "{}", output.stdout);
    let output = host.cli(draft.folder(), &["samples", "job", "--step", "41"]);
    assert!(
        output.code != Some(0) && output.stderr.contains("has not completed step 41"),
        "{}",
        output.stderr
    );
}

#[tokio::test]
async fn an_epoch_begins_again_where_data_are_not_skipped() {
    let host = Host::started(1).await;
    let draft = |name: &str, steps: u64| {
        Draft::new(&host, name).set("train.max_steps", steps).set("train.save_steps", 10)
    };
    let first = draft("first", 10);
    let first_id = host.complete(&first).await.job.id;
    let again = draft("again", 12)
        .set("train.resume_from_checkpoint", checkpoint(&first, 10).display())
        .set("train.ignore_data_skip", true);
    let again_id = host.complete(&again).await.job.id;
    let mut jobs = host.jobs().await;
    let mut rows = Vec::new();
    for (job_id, step) in [(first_id, STEPS_PER_EPOCH + 1), (again_id, 11)] {
        let samples = jobs.get_samples(GetSamplesRequest { job_id, step }).await.unwrap();
        rows.push(samples.into_inner().samples);
    }
    assert_eq!(rows[0], rows[1], "the first rows of the second epoch");
}
