//! A backup taken while the daemon runs, and restored on a host that has nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use traind_proto::v1::JobState;

use crate::support::host::Host;
use crate::support::runner::{self, WAITS_FOR_GO};

#[tokio::test]
async fn queue_history_tokens_and_roles_are_restored_on_another_host() {
    let mut host = Host::started(2, WAITS_FOR_GO).await;
    let access = format!("default_role: viewer\nusers: {{{}: admin}}\n", own_name());
    fs::write(host.path("access.yaml"), &access).unwrap();
    let completed = host.submit("completed", 1).await;
    host.until_state(&completed.id, JobState::Running).await;
    fs::write(host.run_dir(&completed.id).join("go"), "").unwrap();
    host.until_state(&completed.id, JobState::Completed).await;
    // A restoration is no restart of the job's own.
    let running = host.submit_with("running", "cores: 2").await;
    host.until(&running.id, |job| job.progress.as_ref().is_some_and(|p| p.step == 20)).await;
    let waiting = host.submit("waiting", 2).await;
    assert!(host.cli(&["token", "create", "ann"]).status.success());
    let events = host.events(&completed.id, 0).await;
    let audit = host.cli(&["audit"]).stdout;

    let arguments = ["backup", "kept", "--state-dir", "state", "--access", "access.yaml"];
    let backed_up = host.cli(&arguments);
    assert!(backed_up.status.success(), "{backed_up:?}");
    assert!(String::from_utf8_lossy(&backed_up.stdout).contains("3 jobs"), "{backed_up:?}");
    assert_eq!(fs::metadata(host.path("kept")).unwrap().permissions().mode() & 0o777, 0o600);
    let again = host.cli(&arguments);
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"), "{again:?}");
    // Submitted later, and therefore lost.
    let late = host.submit("late", 2).await;
    host.kill_daemon();
    for runner in runner::pids(&host.run_dir(&running.id)) {
        rustix::process::kill_process(runner, rustix::process::Signal::KILL).unwrap();
    }

    let mut other = Host::new(2, WAITS_FOR_GO);
    let kept = host.path("kept");
    let restored = other.cli(&["restore", kept.to_str().unwrap(), "--state-dir", "state"]);
    assert!(restored.status.success(), "{restored:?}");
    assert!(String::from_utf8_lossy(&restored.stdout).contains("restored 3 jobs"), "{restored:?}");
    let restored = other.path("state/access.yaml");
    assert_eq!(fs::read_to_string(&restored).unwrap(), access);
    other.options = vec!["--access".into(), restored.display().to_string()];
    other.start().await;
    // The chain continues.
    assert!(other.cli(&["token", "create", "bob"]).status.success(), "this user is an admin there");
    let audited = other.cli(&["audit"]);
    assert!(audited.status.success(), "{audited:?}");
    let lines = String::from_utf8(audited.stdout).unwrap();
    let before = String::from_utf8(audit).unwrap();
    assert_eq!(before.lines().filter(|line| line.contains("CreateJob")).count(), 3, "{before}");
    let added =
        lines.strip_prefix(&before).unwrap_or_else(|| panic!("{lines} does not continue {before}"));
    assert!(added.contains("CreateToken") && added.lines().count() == 1, "{added}");
    let history = other.get(&completed.id).await;
    assert_eq!(history.state(), JobState::Completed);
    assert_eq!(other.events(&completed.id, 0).await, events);
    let tokens = other.cli(&["token", "ls"]);
    assert!(String::from_utf8_lossy(&tokens.stdout).contains("ann"), "{tokens:?}");
    // The second one waits for the delay of its restart.
    for job in [&waiting, &running] {
        let again = other.until_state(&job.id, JobState::Running).await;
        // Checkpoints of its own are continued from the second attempt on. It may have some, though it waited then.
        assert_eq!(again.attempt, 2);
        fs::write(other.run_dir(&job.id).join("go"), "").unwrap();
        other.until_state(&job.id, JobState::Completed).await;
    }
    assert!(other.cli(&["get", &late.id]).status.code() == Some(1));
    let used = other.cli(&["restore", kept.to_str().unwrap(), "--state-dir", "state"]);
    assert!(String::from_utf8_lossy(&used.stderr).contains("stop it first"), "{used:?}");
    other.stop_daemon().await;
    let used = other.cli(&["restore", kept.to_str().unwrap(), "--state-dir", "state"]);
    assert!(String::from_utf8_lossy(&used.stderr).contains("is not empty"), "{used:?}");
}

fn own_name() -> String {
    let own = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(own.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn damaged_archives_are_refused_and_leave_no_store() {
    let host = Host::started(1, WAITS_FOR_GO).await;
    host.submit("first", 1).await;
    assert!(host.cli(&["backup", "kept", "--state-dir", "state"]).status.success());
    let whole = fs::read(host.path("kept")).unwrap();
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 0x55;
    let cases: [(&str, &[u8]); 4] =
        [("empty", b""), ("text", b"no archive"), ("cut", &whole[..middle]), ("changed", &changed)];
    for (name, bytes) in cases {
        let mut file = fs::File::create(host.path(name)).unwrap();
        file.write_all(bytes).unwrap();
        let state = format!("state-{name}");
        let refused = host.cli(&["restore", name, "--state-dir", &state]);
        assert_eq!(refused.status.code(), Some(1), "{name}: {refused:?}");
        assert!(!host.path(&state).join("traind.db").exists(), "{name}");
    }
}
