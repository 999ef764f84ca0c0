//! Runs that begin before all their rows are tokenized.

use traind_proto::v1::{JobState, Outcome};
use traind_tests::{Draft, Host, data};

use crate::checkpoints::{trace, until_durable, weights};

/// Enough rows that a run does not wait for all.
const ROWS: usize = 66_000;
/// Steps whose rows are tokenized first: 4,096 rows in steps of 256.
const FIRST_STEPS: u64 = 16;
/// The steps of a run, more than the first ones and those of one that resumes after them.
const STEPS: u64 = 40;
const SAVE_STEPS: u64 = 5;

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .write("train.csv", data::csv(&data::rows(1, ROWS, 6)))
        .set("train.per_device_train_batch_size", 256)
        .set("train.max_steps", STEPS)
        .set("train.save_steps", SAVE_STEPS)
        .set("resources.max_restarts", 2)
}

/// The first run is killed while it waits for its later rows, and begins again with others.
#[tokio::test]
async fn a_run_that_begins_with_some_rows_ends_with_the_bits_of_one_that_has_all() {
    let host = Host::started(1).await;
    let early = draft(&host, "early");
    let later_rows = host.gate_of_later_rows("early");
    let after_first_steps = host.gate("early", FIRST_STEPS);
    let job = host.create(&early).await.unwrap();
    host.until_at(&job.id, &after_first_steps).await;
    until_durable(&early, FIRST_STEPS - FIRST_STEPS % SAVE_STEPS).await;
    assert!(host.kill_runner(&job.id, 1));
    after_first_steps.open();
    host.until(&job.id, |job| job.attempt == 2).await;
    later_rows.open();
    let history = host.watch(&job.id).await;
    assert_eq!(history.resumed()[0].step, 15);
    assert_eq!(history.finished().steps, STEPS);
    let names = history.event_names();
    let place = |name: &str| names.iter().position(|it| it == name).unwrap();
    assert!(place("Step") < place("DataPrepared train"), "{names:?}");
    assert_eq!(history.data().last().unwrap().rows, ROWS as u64);

    let whole = draft(&host, "whole");
    let history = host.complete(&whole).await;
    assert!(history.data().iter().all(|it| it.cache_hit), "{:?}", history.data());
    let (early, whole) = (early.output("out"), whole.output("out"));
    assert_eq!(trace(&early), trace(&whole));
    assert_eq!(weights(early.folder()), weights(whole.folder()));
}

#[tokio::test]
async fn a_run_that_waits_for_its_later_rows_is_cancelled() {
    let host = Host::started(1).await;
    let draft = draft(&host, "job");
    let _later_rows = host.gate_of_later_rows("job");
    let after_first_steps = host.gate("job", FIRST_STEPS);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &after_first_steps).await;
    after_first_steps.open();
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled);
    let finished = history.finished();
    assert_eq!((finished.outcome(), finished.steps), (Outcome::Cancelled, FIRST_STEPS));
    assert!(history.data().iter().all(|it| it.split != "train"));
}

#[tokio::test]
async fn a_bad_label_of_a_later_row_ends_the_run_before_its_first_step() {
    let host = Host::started(1).await;
    let rows = data::csv(&data::rows(1, ROWS, 6)) + "a word,stone\n";
    let draft = draft(&host, "job").write("train.csv", rows);
    let job = host.create(&draft).await.unwrap();
    let history = host.watch(&job.id).await;
    assert_eq!(history.finished().steps, 0);
    let failure = history.finished().failure.clone().unwrap();
    let place = format!("train.csv, row {ROWS}");
    assert!(failure.message.contains(&place) && failure.message.contains("stone"), "{failure:?}");
}
