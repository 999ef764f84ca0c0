//! Preemption, and the queue positions and forecasts of waiting jobs.

use traind_proto::v1::JobState;
use traind_proto::v1::event::Kind;

use crate::support::host::Host;
use crate::support::runner::{STEPS, STOPS_WHEN_ASKED, WAITS_FOR_GO};

#[tokio::test]
async fn a_job_of_higher_priority_takes_the_cores_and_gives_them_back() {
    let host = Host::started(2, STOPS_WHEN_ASKED).await;
    let kept = host.submit_with("kept", "cores: 1, priority: 5").await;
    let lesser = host.submit_with("lesser", "cores: 1").await;
    host.until_state(&kept.id, JobState::Running).await;
    host.until_state(&lesser.id, JobState::Running).await;

    let urgent = host.submit_with("urgent", "cores: 1, priority: 5").await;
    host.until_state(&urgent.id, JobState::Running).await;
    let waiting = host.until_state(&lesser.id, JobState::Pending).await;
    assert_eq!((waiting.restarts, waiting.attempt, waiting.queue_position), (0, 1, 1));
    assert_eq!(host.get(&kept.id).await.state(), JobState::Running);

    host.cancel(&urgent.id).await.unwrap();
    let again = host.until(&lesser.id, |job| job.attempt == 2).await;
    host.until_state(&again.id, JobState::Running).await;
    host.cancel(&lesser.id).await.unwrap();
    let events = host.events(&lesser.id, 1).await;
    let reasons = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::StateChanged(changed)) => Some(changed.reason.as_str()),
        _ => None,
    });
    let expect = format!("makes room for job {} of priority 5", urgent.id);
    assert_eq!(reasons.filter(|reason| *reason == expect).count(), 1, "{events:?}");
}

#[tokio::test]
async fn waiting_jobs_have_positions_and_forecasts() {
    let host = Host::started(1, WAITS_FOR_GO).await;
    let first = host.submit_with("first", "cores: 1, max_run_seconds: 100").await;
    host.until(&first.id, |job| job.progress.as_ref().is_some_and(|p| p.step > 1)).await;
    let second = host.submit_with("second", "cores: 1, max_run_seconds: 50").await;
    let third = host.submit_with("third", "cores: 1").await;
    let last = host.submit_with("last", "cores: 1").await;
    let place = async |id: &str, position: u32| {
        let job = host.until(id, |job| job.queue_position == position).await;
        job.estimated_start_time.map(|time| time.seconds - job.create_time.unwrap().seconds)
    };
    // The first reports its remaining time; the second has 50 s and its grace period.
    let next = place(&second.id, 1).await.unwrap();
    assert!((0..=20).contains(&next), "{next}");
    let behind = place(&third.id, 2).await.unwrap();
    assert!((50..=55).contains(&(behind - next)), "{next} {behind}");
    assert_eq!(place(&last.id, 3).await, None, "the third has no time limit");
    let listed = String::from_utf8(host.cli(&["ls"]).stdout).unwrap();
    assert!(listed.contains("#1, in about") && listed.contains("#3: "), "{listed}");
    let shown = String::from_utf8(host.cli(&["get", "third"]).stdout).unwrap();
    assert!(shown.contains("2, starts in about"), "{shown}");
    assert!(host.get(&first.id).await.progress.unwrap().step <= STEPS);
}
