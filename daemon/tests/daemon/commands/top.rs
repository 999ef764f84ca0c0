//! `traind top` and the progress bar on a pseudo-terminal.

use traind_proto::v1::{CoreUsage, JobState, Phase};

use crate::support::answers::answer_as_runner;
use crate::support::host::Host;
use crate::support::runner::{STOPS_WHEN_ASKED, WAITS_FOR_GO};
use crate::support::terminal::Terminal;

fn top(host: &Host) -> Terminal {
    let mut command = host.traind();
    command.arg("top");
    Terminal::run(&command)
}

#[tokio::test]
async fn jobs_are_shown_and_open_with_their_events() {
    let host = Host::started(2, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until(&job.id, |job| job.progress.as_ref().is_some_and(|step| step.step == 20)).await;
    let mut terminal = top(&host);
    terminal.until_shows(&job.id).await;
    terminal.until_shows("1 of 2 cores held").await;
    terminal.press("\r");
    terminal.until_shows("step 20 of 40").await;
    terminal.until_shows("step 17/40").await;
    terminal.press("qq");
    assert_eq!(terminal.end().await, Some(0));
}

#[tokio::test]
async fn a_job_is_cancelled_from_the_screen() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let mut terminal = top(&host);
    terminal.until_shows(&job.id).await;
    terminal.press("c");
    terminal.until_shows("cancel first").await;
    terminal.press("y");
    host.until_state(&job.id, JobState::Cancelled).await;
    terminal.until_shows("cancelled").await;
    terminal.press("q");
    assert_eq!(terminal.end().await, Some(0));
}

#[tokio::test]
async fn without_a_terminal_or_daemon_it_fails_with_an_error() {
    let host = Host::new(1, STOPS_WHEN_ASKED);
    let said = host.cli(&["top"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("no daemon answers"), "{text}");
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let said = host.cli(&["top"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("`traind cores` and `traind ls`"), "{text}");
}

#[tokio::test]
async fn the_progress_bar_moves_between_two_logs() {
    let host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until(&job.id, |job| job.progress.as_ref().is_some_and(|step| step.step == 20)).await;
    let usage =
        CoreUsage { step: 33, max_steps: 40, phase: Phase::Compute.into(), ..Default::default() };
    answer_as_runner(&host, &job.id, usage);
    let mut command = host.traind();
    command.args(["watch", &job.id]);
    let mut terminal = Terminal::run(&command);
    terminal.until_shows("33/40").await;
    std::fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    terminal.until_shows("completed").await;
    assert_eq!(terminal.exit().await, Some(0));
}
