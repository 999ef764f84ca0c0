//! The audit log: every call that may change something is in it, without secrets, and tampering is found.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::security::matrix::{calls, code_of};
use crate::support::host::Host;
use crate::support::runner::WAITS_FOR_GO;

/// Calls whose names begin so change nothing.
const READING: [&str; 7] = ["Get", "List", "Watch", "Plan", "Generate", "Profile", "Read"];

fn is_reading(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap();
    READING.iter().any(|prefix| name.starts_with(prefix))
}

/// The lines of the log, which `traind audit` verifies.
fn entries(host: &Host) -> Vec<Value> {
    let read = host.cli(&["audit"]);
    assert!(read.status.success(), "{read:?}");
    let text = String::from_utf8(read.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_call_that_changes_something_is_audited() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let channel = host.channel().await;
    let all = calls();
    for call in all.iter() {
        code_of(&channel, &call.path, Vec::new(), None).await;
    }
    // The last call was a drain.
    assert_eq!(host.daemon_end().await, Some(0));
    host.start().await;
    let audited: BTreeSet<String> =
        entries(&host).iter().map(|entry| entry["call"].as_str().unwrap().to_owned()).collect();
    let expect: BTreeSet<String> =
        all.into_iter().map(|call| call.path).filter(|path| !is_reading(path)).collect();
    assert!(expect.len() >= 9, "{expect:?}");
    assert_eq!(audited, expect);
}

#[tokio::test]
async fn entries_say_who_did_what_without_secrets_and_tampering_is_found() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    assert!(host.cli(&["cancel", &job.id]).status.success());
    assert!(!host.cli(&["cancel", "nobody"]).status.success());
    let created = host.cli(&["token", "create", "ann"]);
    let secret = String::from_utf8(created.stdout).unwrap().trim().to_owned();
    let entries = entries(&host);
    let seen: Vec<String> = entries
        .iter()
        .map(|entry| {
            let name = entry["call"].as_str().unwrap().rsplit('/').next().unwrap();
            format!("{name} {}", entry["outcome"].as_str().unwrap())
        })
        .collect();
    assert_eq!(seen, ["CreateJob Ok", "CancelJob Ok", "CancelJob NotFound", "CreateToken Ok"]);
    let cancelled = &entries[1];
    assert_eq!(cancelled["subject"], job.id.as_str());
    assert_eq!(cancelled["role"], "admin");
    assert!(cancelled["origin"].as_str().unwrap().starts_with("socket, uid "), "{cancelled}");
    let folder = host.path("state/audit");
    let path = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&path).unwrap();
    assert!(secret.len() > 20 && !text.contains(&secret), "{text}");
    let verified = host.cli(&["audit", "--verify"]);
    let stdout = String::from_utf8_lossy(&verified.stdout);
    assert!(stdout.contains("intact up to entry 4"), "{verified:?}");

    host.stop_daemon().await;
    fs::write(&path, text.replacen("NotFound", "Ok", 1)).unwrap();
    host.start().await;
    let verified = host.cli(&["audit", "--verify"]);
    let stderr = String::from_utf8_lossy(&verified.stderr);
    assert!(!verified.status.success() && stderr.contains("entry 3 was changed"), "{verified:?}");
}
