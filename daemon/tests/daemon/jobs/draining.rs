//! Draining: jobs stop with a checkpoint and resume later.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use traind_proto::v1::{self, JobState};

use crate::support::host::Host;
use crate::support::runner::{self, STOPS_WHEN_ASKED, STUBBORN};

/// Stops on a signal; completes in the second attempt.
const TWO_SITTINGS: &str = "
trap 'say cancelled; exit 3' TERM INT
say started
[ -e second ] && { say_steps 1 40; say completed; exit; }
touch second
while :; do sleep 0.02; done";

/// Checks that the drained daemon succeeded, and that the next one completes the job.
async fn resumes_with_the_next_daemon(host: &mut Host, job: &v1::Job) {
    assert_eq!(host.daemon_end().await, Some(0), "{}", host.log());
    assert!(runner::pids(&host.run_dir(&job.id)).is_empty());
    host.options.clear();
    host.start().await;
    let job = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((job.attempt, job.restarts), (2, 0), "an interruption is no failure");
}

#[tokio::test]
async fn drained_jobs_resume_when_the_daemon_is_back() {
    let mut host = Host::started(1, TWO_SITTINGS).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let output = host.cli(&["drain", "--reason", "new kernel"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 running\ndrained\n", "{output:?}");
    assert!(host.log().contains("new kernel"), "{}", host.log());
    resumes_with_the_next_daemon(&mut host, &job).await;
}

/// A runner that there was none of was counted.
#[tokio::test]
async fn a_daemon_without_jobs_is_drained_at_once() {
    let mut host = Host::started(1, TWO_SITTINGS).await;
    let output = host.cli(&["drain"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "drained\n", "{output:?}");
    assert_eq!(host.daemon_end().await, Some(0), "{}", host.log());
}

#[tokio::test]
async fn sigterm_drains_with_on_sigterm_drain() {
    let mut host = Host::started_with(1, TWO_SITTINGS, &["--on-sigterm", "drain"]).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    assert_eq!(host.stop_daemon().await, Some(0));
    assert!(runner::pids(&host.run_dir(&job.id)).is_empty());
    host.start().await;
    assert_eq!(host.until_state(&job.id, JobState::Completed).await.attempt, 2);
}

#[tokio::test]
async fn a_draining_daemon_accepts_and_starts_no_jobs_and_kills_stubborn_runners() {
    let mut host = Host::started(1, STUBBORN).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let second = host.submit("second", 1).await;
    let mut admin = v1::admin_client::AdminClient::new(host.channel().await);
    let mut left = admin.drain(v1::DrainRequest::default()).await.unwrap().into_inner();
    assert_eq!(left.message().await.unwrap(), Some(v1::DrainResponse { running: 1 }));
    let status = host.create(host.request("third", 1)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert_eq!(host.daemon_end().await, Some(0));

    runner::install(&host.path("other"), STOPS_WHEN_ASKED);
    std::fs::rename(host.path("other/runner"), host.path("runner")).unwrap();
    host.start().await;
    let first = host.until_state(&first.id, JobState::Running).await;
    assert_eq!(first.attempt, 2);
    assert_eq!(host.get(&second.id).await.attempt, 0);
}

#[tokio::test]
async fn a_runner_stopped_by_the_machine_is_not_a_cancelled_job() {
    let host = Host::started(1, TWO_SITTINGS).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    for pid in runner::pids(&host.run_dir(&job.id)) {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
    assert_eq!(host.until_state(&job.id, JobState::Completed).await.attempt, 2);
}

/// EC2's metadata service: answers the request lines in `notices`, and others with 404.
async fn metadata(notices: Arc<Mutex<Vec<&'static str>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
            let body = answer(&request, &notices.lock().unwrap());
            let (status, body) = body.map_or(("404 Not Found", ""), |body| ("200 OK", body));
            let length = body.len();
            let reply = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
    });
    format!("http://{address}")
}

fn answer(request: &str, notices: &[&str]) -> Option<&'static str> {
    if request.starts_with("put /latest/api/token ") {
        return request.contains("x-aws-ec2-metadata-token-ttl-seconds: 300").then_some("a-token");
    }
    let known = request.contains("x-aws-ec2-metadata-token: a-token");
    let asked = notices.iter().any(|notice| request.starts_with(&format!("get {notice} ")));
    (known && asked).then_some("{\"action\":\"terminate\",\"time\":\"2026-11-21T08:22:00Z\"}")
}

async fn check_notice(notice: &'static str, words: &str) {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let url = metadata(notices.clone()).await;
    let mut host = Host::started_with(1, TWO_SITTINGS, &["--ec2-notices", &url]).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    notices.lock().unwrap().push(notice);
    assert_eq!(host.daemon_end().await, Some(0));
    assert!(host.log().contains(words), "{}", host.log());
    host.options.clear();
    host.start().await;
    host.until_state(&job.id, JobState::Completed).await;
}

#[tokio::test]
async fn a_spot_notice_drains() {
    check_notice("/latest/meta-data/spot/instance-action", "reclaim this spot instance").await;
}

#[tokio::test]
async fn a_rebalance_notice_drains() {
    let path = "/latest/meta-data/events/recommendations/rebalance";
    check_notice(path, "recommends leaving this instance").await;
}

#[tokio::test]
async fn an_interrupted_drain_is_not_reported_as_complete() {
    let mut host = Host::started(1, STUBBORN).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let mut admin = v1::admin_client::AdminClient::new(host.channel().await);
    let mut left = admin.drain(v1::DrainRequest::default()).await.unwrap().into_inner();
    assert_eq!(left.message().await.unwrap(), Some(v1::DrainResponse { running: 1 }));
    assert_eq!(host.stop_daemon().await, Some(0));
    assert_eq!(left.message().await.unwrap_err().code(), tonic::Code::Unavailable);
    assert!(host.log().contains("stopped; jobs keep running"), "{}", host.log());
}
