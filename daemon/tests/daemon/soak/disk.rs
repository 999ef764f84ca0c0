//! A full disk: writes beyond a size of files fail. Jobs acknowledged before must survive.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};

use traind_proto::v1::JobState;

use super::count;
use crate::support::host::Host;
use crate::support::runner::STOPS_WHEN_ASKED;

#[tokio::test]
async fn a_full_disk_loses_no_acknowledged_job() {
    for round in 0..count("TRAIND_SOAK_DISKS", 2) {
        let mut host = Host::new(1, STOPS_WHEN_ASKED);
        // From a few pages of the write-ahead log beyond the schema to some hundred, in blocks of 1 KiB. The log is
        // checkpointed before it exceeds 4 MiB, and never meets a larger limit.
        let blocks = 320 + 97 * round % 3700;
        let serve = host.serve();
        let mut limited = Command::new("sh");
        // An ignored SIGXFSZ turns a write past the limit into an error.
        limited
            .args(["-c", &format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", blocks * 2)]);
        limited.arg(serve.get_program()).args(serve.get_args());
        limited.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.current_dir(host.path("")).stdin(Stdio::null()).stdout(Stdio::null());
        limited.stderr(Stdio::null());
        host.start_with(limited).await;
        let mut acknowledged = Vec::new();
        let mut refused = 0;
        for number in 0..400 {
            match host.create(host.request(&format!("job-{number}"), 1)).await {
                Ok(job) => acknowledged.push(job.id),
                Err(_) => refused += 1,
            }
            if refused == 5 {
                break;
            }
        }
        assert!(refused > 0, "the limit of {blocks} KiB was never met");
        host.kill_daemon();
        host.start().await;
        for id in &acknowledged {
            assert_ne!(host.get(id).await.state(), JobState::Unspecified);
        }
        let examined = host.cli(&["ls", "-n", "1000"]);
        let listed = String::from_utf8(examined.stdout).unwrap().lines().count() - 1;
        assert_eq!(listed, acknowledged.len(), "what was refused is not there");
        println!("{blocks} KiB: {} acknowledged, all there; 5 refused", acknowledged.len());
    }
}

/// Cancelling is how a user ends what fills the disk. Where no file system can be mounted, nothing is tested.
#[tokio::test]
async fn jobs_are_cancelled_on_a_full_disk() {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    let state = host.path("state");
    fs::create_dir(&state).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=8m,mode=700", "traind-test"]).arg(&state);
    if !mount.output().is_ok_and(|output| output.status.success()) {
        return;
    }
    host.start().await;
    let running = host.submit("running", 1).await;
    host.until_state(&running.id, JobState::Running).await;
    let mut waiting = Vec::new();
    for number in 0..8 {
        waiting.push(host.submit(&format!("waiting-{number}"), 1).await.id);
    }
    assert!(state.join("reserve").exists());
    let mut filler = File::create(state.join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    // Some of them fit in pages of the write-ahead log that are there already.
    for id in &waiting {
        host.cancel(id).await.unwrap();
        if !state.join("reserve").exists() {
            break;
        }
    }
    let spent = !state.join("reserve").exists();
    let cancelled = host.cancel(&running.id).await;
    let ended = host.until_state(&running.id, JobState::Cancelled).await;
    host.kill_daemon();
    let _ = Command::new("umount").arg("--lazy").arg(&state).status();
    assert!(spent, "the disk was full");
    assert!(cancelled.is_ok() && ended.cancel_reason.starts_with("cancelled by"), "{ended:?}");
}
