//! Gang scheduling: a job gets all its cores at once, or waits with a visible reason.

use traind_proto::v1::JobState;
use traind_tests::{Draft, Host};

#[tokio::test]
async fn a_second_job_waits_for_its_cores_with_a_reason() {
    let host = Host::started(2).await;
    let first = Draft::new(&host, "first").endless().set("resources.cores", 2);
    let second = Draft::new(&host, "second").set("train.max_steps", 2);
    let gate = host.gate("first", 1);
    let first = host.create(&first).await.unwrap();
    let second = host.create(&second).await.unwrap();

    let waiting = host.until(&second.id, |job| !job.waiting_reason.is_empty()).await;
    assert_eq!(waiting.state(), JobState::Pending);
    for words in ["needs 1 core", "first"] {
        assert!(waiting.waiting_reason.contains(words), "{}", waiting.waiting_reason);
    }
    host.until_at(&first.id, &gate).await;
    let holders: Vec<String> = host.cores().await.into_iter().map(|core| core.job_name).collect();
    assert_eq!(holders, ["first", "first"]);
    assert_eq!(host.get(&second.id).await.state(), JobState::Pending);

    host.cancel(&first.id).await;
    let history = host.watch(&second.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(&second.id));
    assert_eq!(history.waiting_reasons(), ["needs 1 core, and other jobs use too many"]);
    assert_eq!(history.job.waiting_reason, "");
}

#[tokio::test]
async fn two_jobs_train_side_by_side_on_one_core_each() {
    let host = Host::started(2).await;
    let drafts = ["first", "second"].map(|name| Draft::new(&host, name).endless());
    let mut ids = Vec::new();
    for draft in &drafts {
        ids.push(host.create(draft).await.unwrap().id);
    }
    for id in &ids {
        host.until_past(id, 0).await;
    }
    let cores = host.cores().await;
    assert_eq!(cores.iter().map(|core| core.job_id.as_str()).collect::<Vec<_>>(), ids);
    for core in &cores {
        let usage = core.usage.as_ref().unwrap();
        assert!(usage.step > 0 && usage.memory_used_bytes > 0, "{core:?}");
        assert!(usage.utilization_percent_1m > 0.0, "{core:?}");
    }
}
