//! Many clients at once, some of whom never read.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use tonic::Code;
use tonic::transport::Channel;
use traind_proto::v1;
use traind_proto::v1::jobs_client::JobsClient;

use super::{count, is_long, percentile};
use crate::host::Host;
use crate::runner::STOPS_WHEN_ASKED;

/// 1,000 calls a second.
const STEADY_PERIOD: Duration = Duration::from_millis(1);
const MEMORY_MAX: u64 = 512 * 1024 * 1024;
/// HTTP/2: the preface and an empty SETTINGS frame.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A PING frame, which wants an answer that nobody reads.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";

/// Connects like a client, writes what makes work, and reads nothing.
fn silent(host: &Host) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(host.socket()).ok()?;
    stream.set_nonblocking(true).ok()?;
    stream.write_all(HELLO).ok()?;
    for _ in 0..100 {
        let _ = stream.write(PING);
    }
    Some(stream)
}

/// Everybody goes on to call, one after another at an even pace; how long those waited who are
/// served. The others are told that there is too much.
async fn steady_calls(channels: &[Channel]) -> Vec<Duration> {
    let count = count("TRAIND_SOAK_STEADY", 500);
    let mut ticks = tokio::time::interval(STEADY_PERIOD);
    let mut calls = Vec::with_capacity(count);
    for channel in channels.iter().cycle().take(count) {
        ticks.tick().await;
        let mut jobs = JobsClient::new(channel.clone());
        calls.push(tokio::spawn(async move {
            let start = Instant::now();
            match jobs.list_jobs(v1::ListJobsRequest::default()).await {
                Ok(_) => Some(start.elapsed()),
                Err(status) if status.code() == Code::ResourceExhausted => None,
                Err(other) => panic!("{other:?}"),
            }
        }));
    }
    let mut answered = Vec::new();
    for call in calls {
        answered.extend(call.await.unwrap());
    }
    answered
}

fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_costs_little_and_the_excess_is_told_so() {
    let clients = count("TRAIND_SOAK_CLIENTS", 150);
    let readers = count("TRAIND_SOAK_SILENT", 50);
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let host = Host::started_with(
        1,
        STOPS_WHEN_ASKED,
        &["--connections-per-user=4096", "--calls-per-user=4096"],
    )
    .await;
    let silent: Vec<UnixStream> = (0..readers).filter_map(|_| silent(&host)).collect();
    assert_eq!(silent.len(), readers);
    let mut channels = Vec::with_capacity(clients);
    for _ in 0..clients {
        channels.push(host.channel().await);
    }
    let calls = channels.iter().map(|channel| {
        let mut jobs = JobsClient::new(channel.clone());
        tokio::spawn(async move {
            let start = Instant::now();
            let code = jobs.list_jobs(v1::ListJobsRequest::default()).await.err().map(|s| s.code());
            (code, start.elapsed())
        })
    });
    let (mut served, mut refused) = (Vec::new(), 0);
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            (None, took) => served.push(took),
            (Some(Code::ResourceExhausted), _) => refused += 1,
            (Some(other), _) => panic!("{other:?}"),
        }
    }
    let mut steady = steady_calls(&channels).await;
    let resident = resident_bytes(host.daemon_pid());
    let (all, p99) = (percentile(&mut served, 99), percentile(&mut steady, 99));
    println!(
        "{clients} clients and {readers} that never read: {} served all at once (p99 {all:?}), \
         {refused} refused; then {} answered of those who go on (p99 {p99:?}); resident {} MiB",
        served.len(),
        steady.len(),
        resident >> 20
    );
    assert!(resident < MEMORY_MAX, "{resident}");
    assert!(!is_long() || p99 <= Duration::from_millis(100), "{p99:?}");
    assert!(!is_long() || refused > 0);
    drop(silent);
}
