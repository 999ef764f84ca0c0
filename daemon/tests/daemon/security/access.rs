//! The access file, and other users' jobs.

use std::fs;

use hyper::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;
use traind_proto::v1::{self, JobState};

use crate::soak::resident_bytes;
use crate::support::host::{Host, until_logged};
use crate::support::runner::STOPS_WHEN_ASKED;

pub(crate) fn own_user() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn host_with(access: &str) -> Host {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    fs::write(host.path("access.yaml"), access).unwrap();
    host.options = vec![format!("--access={}", host.path("access.yaml").display())];
    host.start().await;
    host
}

/// Calls with an empty message, which every call can decode.
pub(crate) async fn code_over(channel: Channel, path: &str) -> Code {
    let mut client = tonic::client::Grpc::new(channel);
    if client.ready().await.is_err() {
        return Code::Unavailable;
    }
    let codec = ProstCodec::<v1::ListPluginsRequest, v1::ListPluginsRequest>::default();
    let path: PathAndQuery = path.parse().unwrap();
    let request = Request::new(v1::ListPluginsRequest {});
    match client.server_streaming(request, path, codec).await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

#[tokio::test]
async fn another_users_job_is_hidden_except_from_admins() {
    let user = own_user();
    let mut host = host_with(&format!("users: {{{user}: submitter}}")).await;
    let own = host.submit("own", 1).await;
    let other = host.submit("other", 1).await;
    assert_eq!((own.owner.as_str(), other.owner.as_str()), (user.as_str(), user.as_str()));
    host.kill_daemon();
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    store.execute("UPDATE jobs SET owner = 'somebody' WHERE name = 'other'", []).unwrap();
    drop(store);
    host.start().await;

    let get = |id: &str| v1::GetJobRequest { job_id: id.to_owned() };
    for reference in [other.id.as_str(), &other.id[..9], "other"] {
        let status = host.jobs().await.get_job(get(reference)).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{reference}");
        let watch = v1::WatchJobRequest { job_id: reference.to_owned(), from_sequence: 0 };
        let status = host.jobs().await.watch_job(watch).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{reference}");
        assert_eq!(host.cancel(reference).await.unwrap_err().code(), Code::NotFound);
    }
    let list = host.jobs().await.list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    let names: Vec<_> = list.into_inner().jobs.into_iter().map(|job| job.name).collect();
    assert_eq!(names, ["own"]);

    host.kill_daemon();
    fs::write(host.path("access.yaml"), format!("users: {{{user}: admin}}")).unwrap();
    host.start().await;
    assert_eq!(host.get("other").await.id, other.id);
    host.cancel(&other.id).await.unwrap();
    host.until_state(&other.id, JobState::Cancelled).await;
}

#[tokio::test]
async fn an_access_file_that_cannot_be_read_keeps_the_daemon_from_starting() {
    let host = Host::new(1, STOPS_WHEN_ASKED);
    fs::write(host.path("access.yaml"), "users: {ann: root}").unwrap();
    let mut command = host.serve();
    let status = command.arg("--access").arg(host.path("access.yaml")).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(host.log().contains("access.yaml") && host.log().contains("root"), "{}", host.log());
}

#[tokio::test]
async fn quotas_of_a_group_are_refused_at_submission_or_waited_for() {
    let user = own_user();
    let access = format!(
        "users: {{{user}: admin}}\ngroups:\n  vision:\n    members: [{user}]\n    \
         limits: {{running_jobs: 1, queued_jobs: 1, priority_max: 3, disk_gib: 1}}\n"
    );
    let mut host = Host::new(2, STOPS_WHEN_ASKED);
    fs::write(host.path("access.yaml"), access).unwrap();
    host.options = vec![format!("--access={}", host.path("access.yaml").display())];
    host.start().await;
    let mut urgent = host.request("urgent", 1);
    urgent.job_file = urgent.job_file.replace("{cores: 1}", "{cores: 1, priority: 4}");
    let refused = host.create(urgent).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(format!("{refused:?}").contains("vision may have a priority of 3"), "{refused:?}");

    let runs = host.submit_with("runs", "cores: 1, priority: 3").await;
    host.until_state(&runs.id, JobState::Running).await;
    let waits = host.submit_with("waits", "cores: 1").await;
    let waits = host.until(&waits.id, |job| !job.waiting_reason.is_empty()).await;
    assert_eq!(waits.waiting_reason, "group vision runs 1 job, and may run 1 at a time");
    let refused = host.create(host.request("more", 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.message(), "group vision has 1 waiting job, and may have 1");

    // Limits hold for what is submitted or placed once they are reloaded.
    fs::write(host.path("access.yaml"), format!("users: {{{user}: admin}}")).unwrap();
    host.hang_up();
    until_logged(&host, "reloaded the access file").await;
    host.submit_with("more", "cores: 1").await;
    host.until_state(&waits.id, JobState::Running).await;
}

#[tokio::test]
async fn shares_of_groups_are_shown_with_what_they_hold() {
    let user = own_user();
    let groups = format!(
        "users: {{{user}: admin}}\ngroups:\n  a: {{members: [{user}], share: 3, limits: {{cores: 4}}}}\n  \
         b: {{members: [bob]}}\n"
    );
    let mut host = host_with(&format!("{groups}fair_shares: {{half_life_hours: 12}}")).await;
    let job = host.submit("runs", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let waits = host.submit("waits", 1).await;
    host.until(&waits.id, |job| !job.waiting_reason.is_empty()).await;
    let said = |arguments: &[&str]| String::from_utf8(host.cli(arguments).stdout).unwrap();
    let shown = said(&["shares"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("GROUP") && lines[0].contains("BORROWED"), "{shown}");
    assert!(lines[1].starts_with("a") && lines[1].contains("3 (75 %)"), "{shown}");
    assert!(lines[1].contains("1 of 4") && lines[1].ends_with("1 running, 1 waiting"), "{shown}");
    assert!(lines[2].contains(&user) && lines[2].contains("100.0 % of the group"), "{shown}");
    assert!(lines[3].starts_with("b") && lines[3].ends_with("0 running, 0 waiting"), "{shown}");
    assert_eq!(lines[4], "1 core; core time counts half after 12 hours");
    let groups_in: serde_json::Value =
        serde_json::from_str(&said(&["shares", "-o", "json"])).unwrap();
    assert_eq!(groups_in[0]["held_cores"], 1);
    assert_eq!(groups_in[0]["users"][0]["name"], user);

    fs::write(host.path("access.yaml"), groups).unwrap();
    host.kill_daemon();
    host.start().await;
    let shown = String::from_utf8(host.cli(&["shares"]).stdout).unwrap();
    assert!(!shown.contains("SHARE") && shown.contains("sets no fair shares"), "{shown}");
}

/// A job that is cancelled as soon as it runs costs as much as one that runs for five seconds, again and again, and the
/// daemon keeps next to nothing of it.
#[tokio::test]
async fn jobs_that_are_cancelled_in_a_loop_are_charged_and_leave_no_memory() {
    const LOOPS: usize = 40;
    let user = own_user();
    let groups =
        format!("users: {{{user}: admin}}\ngroups:\n  a: {{members: [{user}], share: 1}}\n");
    let host = host_with(&format!("{groups}fair_shares: {{half_life_hours: 1000}}")).await;
    let (mut after_first, pid) = (0, host.daemon_pid());
    for round in 0..LOOPS {
        let job = host.submit("wide", 1).await;
        host.until_state(&job.id, JobState::Running).await;
        host.cancel(&job.id).await.unwrap();
        host.until_state(&job.id, JobState::Cancelled).await;
        if round == LOOPS / 4 {
            after_first = resident_bytes(pid);
        }
    }
    let shown = host.cli(&["shares", "-o", "json"]).stdout;
    let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
    let charged = shown[0]["usage_core_seconds"].as_f64();
    assert!(charged.unwrap() > 4.9 * LOOPS as f64, "{shown}");
    let grown = resident_bytes(pid).saturating_sub(after_first);
    assert!(grown < 4 << 20, "{grown} bytes more");
}
