//! Fences around sick cores, on a simulated host with two NeuronCores.

use std::fs;
use std::time::{Duration, Instant};

use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, Job, JobState};

use super::devices::{cores, neuron_host, nvidia_host, put};
use crate::support::host::{Host, PATIENCE};
use crate::support::runner::STOPS_WHEN_ASKED;

const COUNTER: &str = "sysfs/neuron0/neuron_core0/stats/status/hw_nc_ue_error/total";

async fn started() -> Host {
    let mut host = neuron_host(STOPS_WHEN_ASKED);
    put(&host.path(COUNTER), "0\n");
    let plugin = host.path("plugin.so");
    fs::write(&plugin, "").unwrap();
    host.environment.push(("TRAIND_PLUGIN_NEURON".into(), plugin.to_str().unwrap().into()));
    host.start().await;
    host
}

async fn submit(host: &Host, name: &str, cores: u32) -> Job {
    host.submit_with(name, &format!("cores: {cores}, platform: neuron")).await
}

/// Counts errors of core 0 until it is fenced: the daemon may not have read the counter before.
async fn until_fenced(host: &Host) {
    let start = Instant::now();
    for errors in 1.. {
        put(&host.path(COUNTER), &format!("{errors}\n"));
        if cores(host).await[0].fence.is_some() {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_core_with_hardware_errors_is_fenced_and_its_job_goes_on_elsewhere() {
    let mut host = started().await;
    let job = submit(&host, "moves", 1).await;
    let placed = host.until_state(&job.id, JobState::Running).await;
    assert_eq!(placed.cores, [0]);
    until_fenced(&host).await;
    let moved =
        host.until(&job.id, |job| job.attempt == 2 && job.state() == JobState::Running).await;
    assert_eq!((moved.cores.as_slice(), moved.restarts), (&[1][..], 0));

    // The fence survives the daemon, and jobs wait for the core.
    host.kill_daemon();
    host.start().await;
    let fence = cores(&host).await[0].fence.clone().unwrap();
    assert!(fence.since.is_some() && fence.reason.contains("hw_nc_ue_error"), "{fence:?}");
    let wide = submit(&host, "wide", 2).await;
    let waits = host.until(&wide.id, |job| !job.waiting_reason.is_empty()).await;
    assert!(waits.waiting_reason.contains("of which one is fenced"), "{}", waits.waiting_reason);
    let (_, shown) = host.said(&["cores"]);
    assert!(shown.contains("FENCED") && shown.contains("hardware errors"), "{shown}");
    let (_, json) = host.said(&["cores", "-o", "json"]);
    assert!(json.contains("\"fence\"") && json.contains("hw_nc_ue_error"), "{json}");

    let (done, refused) = host.said(&["cores", "return", "1"]);
    assert!(!done && refused.contains("core 1 is not fenced"), "{refused}");
    let (done, refused) = host.said(&["cores", "return", "0", "9"]);
    assert!(!done && refused.contains("this host has no core 9; it has 2"), "{refused}");
    let (done, text) = host.said(&["cores", "return", "0"]);
    assert!(done, "{text}");
    host.cancel(&job.id).await.unwrap();
    host.until_state(&wide.id, JobState::Running).await;
    assert_eq!(cores(&host).await[0].fence, None);
    let events = host.events(&job.id, 1).await;
    let is_reason = |event: &Event| {
        let Some(Kind::StateChanged(changed)) = &event.kind else { return false };
        changed.reason.starts_with("core 0 is fenced: hardware errors: hw_nc_ue_error rose from ")
    };
    assert!(events.iter().any(is_reason), "{events:?}");
}

/// The fence is all that a daemon has stored that was killed before the job had stopped.
#[tokio::test]
async fn a_job_that_is_found_again_on_a_fenced_core_goes_on_elsewhere() {
    let mut host = started().await;
    let job = submit(&host, "stays", 1).await;
    assert_eq!(host.until_state(&job.id, JobState::Running).await.cores, [0]);
    host.kill_daemon();
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    let fence = "INSERT INTO fences (core, since, reason) VALUES (0, 7, 'hardware errors: some')";
    assert_eq!(store.execute(fence, []).unwrap(), 1);
    drop(store);
    host.start().await;
    let moved =
        host.until(&job.id, |job| job.attempt == 2 && job.state() == JobState::Running).await;
    assert_eq!((moved.cores.as_slice(), moved.restarts), (&[1][..], 0));
    host.cancel(&job.id).await.unwrap();
    let events = host.events(&job.id, 1).await;
    let reasons = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::StateChanged(changed)) => Some(changed.reason.as_str()),
        _ => None,
    });
    let expect = "core 0 is fenced: hardware errors: some";
    assert_eq!(reasons.filter(|reason| *reason == expect).count(), 1, "{events:?}");
}

/// Lets the driver report an XID, and waits until the daemon has read it.
async fn report(host: &Host, xid: u32) {
    put(&host.path("xid.new"), &xid.to_string());
    fs::rename(host.path("xid.new"), host.path("xid")).unwrap();
    let start = Instant::now();
    while host.path("xid").exists() || !host.log().contains(&format!("xid={xid}")) {
        assert!(start.elapsed() < PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_gpu_is_fenced_by_xids_of_hardware_and_not_by_those_of_programs() {
    let mut host = nvidia_host(STOPS_WHEN_ASKED);
    host.environment.push(("XID_FILE".into(), host.path("xid").to_str().unwrap().into()));
    host.start().await;
    report(&host, 31).await;
    let start = Instant::now();
    let fence = loop {
        // One that came before the first reading does not fence.
        report(&host, 79).await;
        if let Some(fence) = cores(&host).await[0].fence.clone() {
            break fence;
        }
        assert!(start.elapsed() < PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let expect = "hardware errors: XID 79 (fallen off the bus) rose from ";
    assert!(fence.reason.starts_with(expect), "{fence:?}");
    assert_eq!(cores(&host).await[1].fence, None);
}
