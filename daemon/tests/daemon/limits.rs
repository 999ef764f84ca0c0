//! How much a client may ask for, each limit by itself: what is beyond is refused with words,
//! and the daemon answers the next.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tonic::{Code, Request};
use tonic_types::StatusExt;
use traind_proto::v1;

use crate::host::Host;
use crate::runner::STOPS_WHEN_ASKED;

fn list() -> v1::ListJobsRequest {
    v1::ListJobsRequest::default()
}

#[tokio::test]
async fn one_user_has_so_many_connections_and_gets_them_back() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--connections-per-user=3"]).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut jobs = host.jobs().await;
        jobs.list_jobs(list()).await.unwrap();
        clients.push(jobs);
    }
    let refused = host.jobs().await.list_jobs(list()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "BUSY");
    assert!(details.retry_info().unwrap().retry_delay > Some(Duration::ZERO));
    assert!(refused.message().contains("connections of one user"), "{refused}");
    clients[0].list_jobs(list()).await.unwrap();
    drop(clients);
    let start = Instant::now();
    while host.jobs().await.list_jobs(list()).await.is_err() {
        assert!(start.elapsed() < crate::host::PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_command_that_is_refused_for_now_asks_again() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--connections-per-user=1"]).await;
    let mut first = host.jobs().await;
    first.list_jobs(list()).await.unwrap();
    let leaves = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(first);
    });
    let mut ls = host.traind();
    let listed = tokio::task::spawn_blocking(move || ls.arg("ls").output().unwrap()).await.unwrap();
    leaves.await.unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}

#[tokio::test]
async fn one_user_has_so_many_calls_under_way_streams_with_them() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--calls-per-user=3"]).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let request = v1::WatchCoresRequest { period_ms: 60_000, ..Default::default() };
        streams.push(host.cores().await.watch_cores(request).await.unwrap().into_inner());
    }
    let mut jobs = host.jobs().await;
    let refused = jobs.list_jobs(list()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("calls of one user"), "{refused}");
    drop(streams);
    let start = Instant::now();
    while jobs.list_jobs(list()).await.is_err() {
        assert!(start.elapsed() < crate::host::PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let mut request = Request::new(list());
    request.metadata_mut().insert("x-filler", "x".repeat(32 * 1024).parse().unwrap());
    let refused = host.jobs().await.list_jobs(request).await.unwrap_err();
    assert_ne!(refused.code(), Code::Ok);
    host.jobs().await.list_jobs(list()).await.unwrap();
}

#[tokio::test]
async fn a_call_that_gets_no_further_is_ended() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--request-timeout=1"]).await;
    // A message that was begun and never sent: five bytes announce one of a hundred.
    let (sender, body) = tokio::sync::mpsc::channel::<Vec<u8>>(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(body);
    let mut client = tonic::client::Grpc::new(host.channel().await);
    client.ready().await.unwrap();
    let path = "/traind.v1.Jobs/ListJobs".parse().unwrap();
    let start = Instant::now();
    let call = client.streaming(Request::new(stream), path, crate::raw::Raw);
    let ended = tokio::time::timeout(Duration::from_secs(20), call).await.unwrap();
    let code = ended.err().map(|status| status.code());
    assert!(matches!(code, Some(Code::Cancelled | Code::DeadlineExceeded)), "{code:?}");
    assert!(start.elapsed() >= Duration::from_secs(1));
    drop(sender);
}

#[tokio::test]
async fn a_client_that_is_no_http2_keeps_no_connection() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--connections-per-user=1"]).await;
    let mut stranger = UnixStream::connect(host.socket()).unwrap();
    stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let start = Instant::now();
    while host.jobs().await.list_jobs(list()).await.is_err() {
        assert!(start.elapsed() < crate::host::PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_keeps_no_connection() {
    let options = ["--connections-per-user=1", "--request-timeout=1"];
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &options).await;
    let silent = UnixStream::connect(host.socket()).unwrap();
    let start = Instant::now();
    let mut served = loop {
        let mut jobs = host.jobs().await;
        if jobs.list_jobs(list()).await.is_ok() {
            break jobs;
        }
        assert!(start.elapsed() < crate::host::PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    drop(silent);
    // Who has begun may then be silent as long as it likes.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    served.list_jobs(list()).await.unwrap();
}
