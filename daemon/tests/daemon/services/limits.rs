//! Limits on clients, one at a time: excess is refused with an error, and the next call succeeds.

use std::io::ErrorKind::WouldBlock;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_types::StatusExt;
use traind_proto::v1;
use traind_proto::v1::jobs_client::JobsClient;

use crate::soak::frames::{HELLO, PING};
use crate::support::host::{Host, PATIENCE, until_logged};
use crate::support::http::request;
use crate::support::runner::STOPS_WHEN_ASKED;

/// Waits until the metrics have a series with these labels.
async fn until_counted(host: &Host, labels: &str) {
    let address = until_logged(host, "serve metrics address=").await;
    let start = Instant::now();
    while !request(&address, "GET", "/metrics", &[]).await.body.contains(labels) {
        assert!(start.elapsed() < PATIENCE, "no {labels}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn list() -> v1::ListJobsRequest {
    v1::ListJobsRequest::default()
}

/// A client whose connection the daemon serves. Connections that were closed just before, that of
/// the host's own readiness check among them, count until the daemon has seen it.
async fn served(host: &Host) -> JobsClient<Channel> {
    let start = Instant::now();
    loop {
        let mut jobs = host.jobs().await;
        if jobs.list_jobs(list()).await.is_ok() {
            return jobs;
        }
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn connections_per_user_are_limited_and_returned() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--connections-per-user=3"]).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(served(&host).await);
    }
    let refused = host.jobs().await.list_jobs(list()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "BUSY");
    assert!(details.retry_info().unwrap().retry_delay > Some(Duration::ZERO));
    assert!(refused.message().contains("connections of one user"), "{refused}");
    clients[0].list_jobs(list()).await.unwrap();
    drop(clients);
    served(&host).await;
}

#[tokio::test]
async fn a_command_retries_when_the_daemon_is_busy() {
    let host = Host::started_with(
        1,
        STOPS_WHEN_ASKED,
        &["--connections-per-user=1", "--metrics-address=127.0.0.1:0"],
    )
    .await;
    let first = served(&host).await;
    let ls = host.traind().arg("ls").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The metrics have the refusal of the command's first call.
    let refused = r#"grpc_method="ListJobs",grpc_type="unary",grpc_code="ResourceExhausted""#;
    until_counted(&host, refused).await;
    drop(first);
    let listed = tokio::task::spawn_blocking(move || ls.wait_with_output().unwrap()).await.unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}

#[tokio::test]
async fn calls_per_user_are_limited_including_streams() {
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
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn oversized_headers_are_refused() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let mut request = Request::new(list());
    request.metadata_mut().insert("x-filler", "x".repeat(32 * 1024).parse().unwrap());
    let refused = host.jobs().await.list_jobs(request).await.unwrap_err();
    assert_ne!(refused.code(), Code::Ok);
    host.jobs().await.list_jobs(list()).await.unwrap();
}

#[tokio::test]
async fn a_stalled_call_times_out() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--request-timeout=1"]).await;
    // An incomplete message: five bytes announce one of a hundred.
    let (sender, body) = tokio::sync::mpsc::channel::<Vec<u8>>(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(body);
    let mut client = tonic::client::Grpc::new(host.channel().await);
    client.ready().await.unwrap();
    let path = "/traind.v1.Jobs/ListJobs".parse().unwrap();
    let start = Instant::now();
    let call = client.streaming(Request::new(stream), path, crate::support::raw::Raw);
    let ended = tokio::time::timeout(PATIENCE, call).await.unwrap();
    let code = ended.err().map(|status| status.code());
    assert!(matches!(code, Some(Code::Cancelled | Code::DeadlineExceeded)), "{code:?}");
    assert!(start.elapsed() >= Duration::from_secs(1));
    drop(sender);
}

/// Calls whose requests do not end, one after the other.
async fn unfinished(channel: Channel) {
    loop {
        let (sender, parts) = tokio::sync::mpsc::channel::<Vec<u8>>(1);
        sender.send(b"x".to_vec()).await.unwrap();
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let parts = tokio_stream::wrappers::ReceiverStream::new(parts);
        let path = "/traind.v1.Jobs/GetJob".parse().unwrap();
        let _ = client.streaming(Request::new(parts), path, crate::support::raw::Raw).await;
        drop(sender);
    }
}

/// More calls than are handled at a time, each of which held up all others until its request had arrived.
#[tokio::test]
async fn nobody_waits_for_requests_that_do_not_arrive() {
    const CALLS: usize = 100;
    // They and one more.
    let options = ["--calls-per-user=101", "--request-timeout=600"];
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &options).await;
    let channels = [host.channel().await, host.channel().await];
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        calls.spawn(unfinished(channels[number % channels.len()].clone()));
    }
    let (start, mut jobs, mut cores) = (Instant::now(), host.jobs().await, host.cores().await);
    loop {
        assert!(start.elapsed() < PATIENCE, "not all calls have begun");
        let request = v1::WatchCoresRequest { period_ms: 60_000, ..Default::default() };
        let Ok(_stream) = cores.watch_cores(request).await else { continue };
        let refused = jobs.list_jobs(list()).await.err();
        if refused.is_some_and(|status| status.message().contains("calls of one user")) {
            break;
        }
    }
    for _ in 0..20 {
        served(&host).await;
    }
}

/// Requests of a megabyte on each of a thousand connections, which nobody reads, took a gigabyte.
#[tokio::test]
async fn a_connection_may_send_little_that_is_not_read() {
    /// Kinds of frames, and the setting of a call's window.
    const SETTINGS: u8 = 4;
    const PONG: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let mut stream = UnixStream::connect(host.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[HELLO, PING].concat()).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).unwrap();
        assert_ne!(head[3], WINDOW_UPDATE, "more than the least: {payload:?}");
        if head[3] == SETTINGS {
            let window = payload.chunks(6).find(|it| it[..2] == INITIAL_WINDOW_SIZE);
            let bytes = window.map(|it| u32::from_be_bytes(it[2..].try_into().unwrap()));
            assert!(bytes.is_none_or(|bytes| bytes <= 65_535), "{payload:?}");
        }
        // It follows everything that the daemon says at first.
        if head[3] == PONG {
            break;
        }
    }
}

#[tokio::test]
async fn a_client_without_http2_is_disconnected() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &["--connections-per-user=1"]).await;
    let mut stranger = UnixStream::connect(host.socket()).unwrap();
    stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    served(&host).await;
}

#[tokio::test]
async fn a_silent_client_is_disconnected() {
    let options = ["--connections-per-user=1", "--request-timeout=1"];
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &options).await;
    let silent = UnixStream::connect(host.socket()).unwrap();
    let mut client = served(&host).await;
    drop(silent);
    // After the preface a client may stay silent for longer than the timeout. This waits for another
    // silent connection, which the daemon closes when that has passed.
    let mut later = UnixStream::connect(host.socket()).unwrap();
    let closed =
        tokio::task::spawn_blocking(move || std::io::copy(&mut later, &mut std::io::sink()));
    let _ = tokio::time::timeout(PATIENCE, closed).await.unwrap().unwrap();
    client.list_jobs(list()).await.unwrap();
}

/// Starts the daemon with a limit on open files, as `ulimit` sets it.
async fn start_with_files(host: &mut Host, ulimit: &str) {
    let serve = host.serve();
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", &format!("ulimit {ulimit}; exec \"$@\""), "sh"]);
    limited.arg(serve.get_program()).args(serve.get_args());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let log = std::fs::File::create(host.path("daemon.log")).unwrap();
    limited.current_dir(host.path("")).stdin(Stdio::null()).stderr(log);
    host.start_with(limited).await;
}

/// Connections that exhausted all descriptors kept everyone out, although their calls would have been refused.
#[tokio::test]
async fn idle_connections_beyond_the_limit_make_room_for_new_ones() {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    host.options.push("--connections-per-user=2".to_owned());
    start_with_files(&mut host, "-n 256").await;
    let idle = || {
        let mut stream = UnixStream::connect(host.socket()).unwrap();
        // One that was displaced already is closed.
        let _ = stream.write_all(HELLO);
        stream
    };
    let _served = [served(&host).await, served(&host).await];
    let mut crowd: Vec<UnixStream> = (0..400).map(|_| idle()).collect();
    let answered = tokio::time::timeout(PATIENCE, host.jobs().await.list_jobs(list())).await;
    let refused = answered.unwrap().unwrap_err();
    assert!(refused.message().contains("connections of one user"), "{refused}");
    let mut oldest = crowd.swap_remove(0);
    let closed = tokio::task::spawn_blocking(move || {
        oldest.set_read_timeout(Some(PATIENCE)).unwrap();
        // The daemon's own greeting comes first; what was not read may be lost.
        !std::io::copy(&mut oldest, &mut std::io::sink()).is_err_and(|it| it.kind() == WouldBlock)
    });
    assert!(closed.await.unwrap(), "the daemon closed the oldest one");
    assert!(!host.log().contains("accept a connection"), "{}", host.log());
}

/// A shell's usual soft limit is 1,024, which a few hundred clients exhaust.
#[tokio::test]
async fn the_daemon_raises_its_limit_on_open_files() {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    start_with_files(&mut host, "-Sn 128").await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", host.daemon_pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [soft, hard] = numbers[..] else { panic!("{line}") };
    assert!(soft == hard && soft > 128, "{line}");
}
