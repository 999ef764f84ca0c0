//! One run of a command, with the notification on its standard input.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::NotifyError;
use crate::host::process::ProcessGroup;
use crate::jobs::store::Delivery;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Variables of the daemon that a command gets.
const PASSED: [&str; 6] = ["HOME", "LANG", "LOGNAME", "PATH", "TZ", "USER"];

/// Runs the command through `traind notify`, which opens a session and becomes the job's user. Dropping the future ends
/// the command with all that it started.
pub(super) async fn run(delivery: &Delivery, words: &[String]) -> Result<(), NotifyError> {
    let program = words.first().cloned().unwrap_or_default();
    let own = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| PASSED.contains(&name)));
    let child = Command::new("/proc/self/exe")
        .arg("notify")
        .args(delivery.account.map(|account| format!("--run-as={account}")))
        .arg("--")
        .args(words)
        .env_clear()
        .envs(own)
        .env("TRAIND_JOB_ID", &delivery.job)
        .env("TRAIND_JOB_STATE", &delivery.state)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn();
    let mut child = child.map_err(|source| NotifyError::Start { program, source })?;
    // The session of the command, with what it started.
    let group = ProcessGroup::of(&child);
    let ended = tokio::time::timeout(TIMEOUT, feed(&mut child, &delivery.body)).await;
    match ended {
        Ok(_) => group.release(),
        Err(_) => {
            drop(group);
            let _ = child.wait().await;
        }
    }
    ended.unwrap_or(Err(NotifyError::Timeout(TIMEOUT)))
}

async fn feed(child: &mut Child, body: &str) -> Result<(), NotifyError> {
    if let Some(mut input) = child.stdin.take() {
        // A command need not read its input.
        let _ = input.write_all(body.as_bytes()).await;
    }
    let wait = |source| NotifyError::Start { program: "the command".to_owned(), source };
    let status = child.wait().await.map_err(wait)?;
    if status.success() { Ok(()) } else { Err(NotifyError::Failed(status)) }
}
