//! Preparation of waiting jobs: the run finds its tokens and programs in the caches.

use traind_proto::v1::{CompileSource, JobState};
use traind_tests::{Draft, History, Host};

/// A job whose data and programs no other job has.
fn draft(host: &Host, name: &str, batch: u32) -> Draft {
    let draft = Draft::new(host, name).set("train.max_steps", 2);
    let rows = std::fs::read_to_string(draft.path("train.csv")).unwrap();
    let rows = rows.replace("cat", name);
    draft.set("train.per_device_train_batch_size", batch).write("train.csv", rows)
}

fn sources(history: &History, program: &str) -> Vec<CompileSource> {
    let compiled = history.compiled().into_iter().filter(|it| it.program == program);
    compiled.map(|it| it.source()).collect()
}

#[tokio::test]
async fn a_job_that_waited_starts_without_compiling_or_tokenizing() {
    let host = Host::started_cold(1).await;
    let gate = host.gate("first", 2);
    let first = host.create(&Draft::new(&host, "first").endless()).await.unwrap();
    host.until_at(&first.id, &gate).await;
    let prepared = host.create(&draft(&host, "prepared", 3)).await.unwrap();
    let unprepared = draft(&host, "unprepared", 5).set("resources.prepare", false);
    let unprepared = host.create(&unprepared).await.unwrap();
    // Created, waiting, prepared.
    host.until(&prepared.id, |job| job.last_sequence >= 3).await;
    let left = host.path("state/jobs").join(&prepared.id).join("preparation");
    assert!(!left.exists() && !host.path("prepared/out").exists());

    gate.open();
    host.cancel(&first.id).await;
    let history = host.watch(&prepared.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(&prepared.id));
    let [event] = history.prepared()[..] else { panic!("{:?}", history.events) };
    assert_eq!(event.programs as usize, history.compiled().len(), "{event:?}");
    assert!(event.compiled > 0, "{event:?}");
    for program in ["train_step", "eval_step"] {
        let sources = sources(&history, program);
        assert!(!sources.is_empty(), "{:?}", history.compiled());
        assert!(sources.iter().all(|source| *source == CompileSource::Disk), "{sources:?}");
    }
    assert!(history.data().iter().all(|data| data.cache_hit), "{:?}", history.data());

    let history = host.watch(&unprepared.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(&unprepared.id));
    assert!(history.prepared().is_empty());
    assert_eq!(sources(&history, "train_step"), [CompileSource::Compiled]);
}
