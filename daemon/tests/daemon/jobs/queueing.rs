//! The queue: placements, waiting reasons, priorities and limits.

use traind_proto::v1::JobState;
use traind_proto::v1::event::Kind;

use crate::support::host::Host;
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED};

#[tokio::test]
async fn a_job_waits_for_its_whole_gang_with_a_reason() {
    let host = Host::started(2, STOPS_WHEN_ASKED).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let wide = host.submit("wide", 2).await;
    let narrow = host.submit("narrow", 1).await;

    let reason = |job: &traind_proto::v1::Job| job.waiting_reason.clone();
    let waiting = host.until(&wide.id, |job| !job.waiting_reason.is_empty()).await;
    assert_eq!(
        reason(&waiting),
        format!("needs 2 cores, 1 of 2 free: {} (first) uses 1", first.id)
    );
    let waiting = host.until(&narrow.id, |job| !job.waiting_reason.is_empty()).await;
    assert_eq!(reason(&waiting), format!("is behind job {} (wide), which needs 2 cores", wide.id));

    host.cancel(&first.id).await.unwrap();
    let running = host.until_state(&wide.id, JobState::Running).await;
    assert_eq!((running.cores.clone(), reason(&running)), (vec![0, 1], String::new()));
    assert_eq!(host.get(&narrow.id).await.state(), JobState::Pending);
    host.cancel(&wide.id).await.unwrap();
    host.until_state(&narrow.id, JobState::Running).await;
}

#[tokio::test]
async fn a_short_job_is_backfilled_and_stopped_at_its_time_limit() {
    let host = Host::started(2, STOPS_WHEN_ASKED).await;
    let first = host.submit_with("first", "cores: 1, max_run_seconds: 3600").await;
    host.until_state(&first.id, JobState::Running).await;
    let wide = host.submit("wide", 2).await;
    let long = host.submit("long", 1).await;
    let short = host.submit_with("short", "cores: 1, max_run_seconds: 1").await;
    let failure = host.until_state(&short.id, JobState::Failed).await.failure.unwrap();
    assert_eq!(failure.reason, "MAX_RUN_EXCEEDED");
    for waiting in [&wide, &long] {
        assert_eq!(host.get(&waiting.id).await.state(), JobState::Pending);
    }
}

#[tokio::test]
async fn priorities_and_limits_decide_which_job_is_next() {
    let host = Host::started_with(2, STOPS_WHEN_ASKED, &["--cores-per-user", "1"]).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let second = host.submit("second", 1).await;
    let urgent = host.submit_with("urgent", "cores: 1, priority: 5").await;
    let waiting = host.until(&second.id, |job| !job.waiting_reason.is_empty()).await;
    assert!(
        waiting.waiting_reason.contains("of the 1 that a user may hold"),
        "{}",
        waiting.waiting_reason
    );
    host.cancel(&first.id).await.unwrap();
    host.until_state(&urgent.id, JobState::Running).await;
    assert_eq!(host.get(&second.id).await.state(), JobState::Pending);
}

#[tokio::test]
async fn a_waiting_job_is_cancelled_at_once() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let second = host.submit("second", 1).await;
    assert_eq!(host.cancel(&second.id).await.unwrap().state(), JobState::Cancelled);
    let events = host.events(&second.id, 1).await;
    assert!(!events.iter().any(|event| matches!(event.kind, Some(Kind::Started(_)))));
}

#[tokio::test]
async fn a_queue_of_jobs_runs_to_its_end_in_order() {
    let host = Host::started(2, COMPLETES).await;
    let mut ids = Vec::new();
    for index in 0..8 {
        ids.push(host.submit(&format!("job-{index}"), 1 + index % 2).await.id);
    }
    let mut starts = Vec::new();
    for id in &ids {
        let job = host.until_state(id, JobState::Completed).await;
        starts.push(job.start_time.unwrap());
    }
    let starts: Vec<_> = starts.iter().map(|at| (at.seconds, at.nanos)).collect();
    let in_order = |pair: &[(i64, i32)]| pair[0] <= pair[1];
    // Two jobs run at a time and may start in any order, so every second one is compared.
    assert!(starts.iter().step_by(2).copied().collect::<Vec<_>>().windows(2).all(in_order));
}

#[tokio::test]
async fn a_job_waits_for_another_and_is_cancelled_with_it() {
    let host = Host::started(2, STOPS_WHEN_ASKED).await;
    let first = host.submit("first", 1).await;
    let second = host.submit_with("second", "cores: 1, after: first").await;
    let third = host.submit_with("third", &format!("cores: 1, after: {}", second.id)).await;
    host.until_state(&first.id, JobState::Running).await;
    let waiting = host.until(&second.id, |job| !job.waiting_reason.is_empty()).await;
    let expect = format!("comes after job {}, which has not completed", first.id);
    assert_eq!(waiting.waiting_reason, expect);
    host.cancel(&first.id).await.unwrap();
    host.until_state(&second.id, JobState::Cancelled).await;
    host.until_state(&third.id, JobState::Cancelled).await;
    let mut request = host.request("fourth", 1);
    request.overrides.insert("resources.after".into(), "nobody".into());
    let status = host.create(request).await.unwrap_err();
    assert!(status.code() == tonic::Code::InvalidArgument, "{status:?}");
}

#[tokio::test]
async fn a_job_starts_after_the_one_that_it_waits_for() {
    let host = Host::started(2, COMPLETES).await;
    let first = host.submit("first", 1).await;
    let second = host.submit_with("second", "cores: 1, after: first").await;
    let second = host.until_state(&second.id, JobState::Completed).await;
    let end = host.get(&first.id).await.end_time.unwrap();
    let start = second.start_time.unwrap();
    assert!((start.seconds, start.nanos) >= (end.seconds, end.nanos));
}

#[tokio::test]
async fn a_job_that_waits_too_long_is_cancelled() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let second = host.submit_with("second", "cores: 1, max_wait_seconds: 1").await;
    let second = host.until_state(&second.id, JobState::Cancelled).await;
    let why = "waited longer than 1 s (resources.max_wait_seconds)";
    assert_eq!(second.cancel_reason, why);
    let shown = String::from_utf8(host.cli(&["get", "second"]).stdout).unwrap();
    let listed = String::from_utf8(host.cli(&["ls"]).stdout).unwrap();
    assert!(shown.contains(why) && listed.contains(why), "{shown}{listed}");
    assert_eq!(host.get(&first.id).await.state(), JobState::Running);
}
