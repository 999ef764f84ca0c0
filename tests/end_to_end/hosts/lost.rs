//! Hosts that hang: the others end with a failure that names them, and the job continues from its checkpoint. A pause
//! of all hosts is no failure.

use std::time::{Duration, Instant};

use traind_tests::{Draft, Host, Runners, until};

use super::{bits, is_skipped, job_file, start, weights};

/// The time within which the runners on all other hosts end.
const END_MAX: Duration = Duration::from_secs(60);
/// The silence after which a host counts as lost, in seconds.
const SILENCE: &str = "3";
/// A longer pause.
const PAUSE: Duration = Duration::from_secs(5);
/// The step after which the hosts wait, and the last one before it with a checkpoint.
const GATE: u64 = 8;
const SAVED: u64 = 5;

#[tokio::test]
async fn a_host_that_hangs_is_named_and_the_job_continues_with_the_same_bits() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let whole = Draft::new(&host, "whole");
    start(&host, &whole, 2).completed().await;
    // Host 0 watches the others, and they watch host 0.
    for rank in [1, 0] {
        let draft = Draft::new(&host, &format!("hung-{rank}"));
        let gate = host.gate(&format!("hung-{rank}"), GATE);
        let mut runners =
            Runners::start_with(&host, &draft, &job_file(&draft, 2), 2, |_, command| {
                command.env("TRAIND_HOST_SILENCE_SECONDS", SILENCE);
                true
            });
        let manifest = draft.path(&format!("out/checkpoint-{SAVED}/manifest.json"));
        until("the hosts wait at the gate", || gate.is_reached() && manifest.exists()).await;
        runners.suspend(rank);
        let start_of_silence = Instant::now();
        gate.open();
        let other = 1 - rank;
        assert_eq!(runners.ended_on(other).await.code(), Some(1), "{}", runners.logs());
        assert!(start_of_silence.elapsed() < END_MAX, "{}", runners.logs());
        runners.kill(rank);
        runners.ended().await;

        let failure = runners.finished(other).failure.unwrap();
        assert_eq!(failure.host, Some(format!("node{rank}")), "{failure:?}");
        assert!(failure.reason == "HOST_LOST" && failure.transient, "{failure:?}");
        let step = failure.step.unwrap();
        assert!(step <= GATE + 1, "{failure:?}");
        // The last report of the host may be older than the gate.
        let (name, place) = (format!("host {rank} (node{rank}"), format!(" of step {step}"));
        for part in [&name, " has been silent for ", "it was last seen in phase ", &place] {
            assert!(failure.message.contains(part), "{part}: {failure:?}");
        }

        let mut runners = start(&host, &draft, 2);
        runners.completed().await;
        assert!(
            runners.logs().contains(&format!("resumed after step {SAVED}")),
            "{}",
            runners.logs()
        );
        assert_eq!(bits(&weights(&draft)), bits(&weights(&whole)), "host {rank}");
    }
}

/// Slurm stops and continues all hosts of a job that it suspends.
#[tokio::test]
async fn hosts_that_are_stopped_together_continue() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let draft = Draft::new(&host, "paused");
    let gate = host.gate("paused", GATE);
    let mut runners = Runners::start_with(&host, &draft, &job_file(&draft, 2), 2, |_, command| {
        command.env("TRAIND_HOST_SILENCE_SECONDS", SILENCE);
        true
    });
    until("the hosts wait at the gate", || gate.is_reached()).await;
    [0, 1].iter().for_each(|rank| runners.suspend(*rank));
    tokio::time::sleep(PAUSE).await;
    [0, 1].iter().for_each(|rank| runners.wake(*rank));
    gate.open();
    runners.completed().await;
}
