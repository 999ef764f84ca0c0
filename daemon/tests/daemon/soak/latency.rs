//! Latency of the daemon.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use traind_proto::v1;
use traind_proto::v1::JobState;

use super::{count, is_long, percentile};
use crate::jobs::planning::plan;
use crate::support::host::Host;
use crate::support::runner::STOPS_WHEN_ASKED;

const FIRST_INSTRUCTION: &str = "date +%s%N > first; say started; say completed";

#[tokio::test]
async fn a_job_starts_soon_after_it_is_submitted() {
    let host = Host::started(1, FIRST_INSTRUCTION).await;
    // Similar jobs share a plan.
    fs::write(host.path("plan.json"), json!({"plan": plan()}).to_string()).unwrap();
    let mut waits = Vec::new();
    for number in 0..count("TRAIND_SOAK_SUBMITS", 5) {
        let request = host.request(&format!("quick-{number}"), 1);
        let mut jobs = host.jobs().await;
        let submitted = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let id = jobs.create_job(request).await.unwrap().into_inner().id;
        host.until_state(&id, JobState::Completed).await;
        let first = fs::read_to_string(host.run_dir(&id).join("first")).unwrap();
        let first = Duration::from_nanos(first.trim().parse().unwrap());
        waits.push(first.saturating_sub(submitted));
    }
    let p50 = percentile(&mut waits, 50);
    println!("{} submissions: to the runner's first instruction p50 {p50:?}", waits.len());
    assert!(!is_long() || p50 <= Duration::from_millis(20), "{p50:?}");
}

#[tokio::test]
async fn calls_are_answered_while_jobs_run() {
    let host = Host::started(2, STOPS_WHEN_ASKED).await;
    for name in ["first", "second"] {
        let id = host.submit(name, 1).await.id;
        host.until_state(&id, JobState::Running).await;
    }
    let jobs = host.jobs().await;
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut calls = Vec::new();
    for _ in 0..count("TRAIND_SOAK_CALLS", 300) {
        ticks.tick().await;
        let mut jobs = jobs.clone();
        calls.push(tokio::spawn(async move {
            let start = Instant::now();
            let job_id = "first".to_owned();
            // Refused calls do not count.
            jobs.get_job(v1::GetJobRequest { job_id }).await.ok().map(|_| start.elapsed())
        }));
    }
    let (all, mut answered) = (calls.len(), Vec::new());
    for call in calls {
        answered.extend(call.await.unwrap());
    }
    let p99 = percentile(&mut answered, 99);
    println!("{all} calls at 1,000 a second: {} answered, p99 {p99:?}", answered.len());
    // A daemon without enough processor time refuses calls early, by design.
    assert!(!answered.is_empty());
    assert!(!is_long() || answered.len() * 10 > all * 9, "{} of {all}", answered.len());
    assert!(!is_long() || p99 <= Duration::from_millis(5), "{p99:?}");
}
