//! Many concurrent clients, some of which never read.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};

use super::frames::{Answer, Crowd, HELLO, PING};
use super::{count, is_long, percentile};
use crate::support::host::Host;
use crate::support::runner::STOPS_WHEN_ASKED;

/// 1,000 calls a second.
const STEADY_PERIOD: Duration = Duration::from_millis(1);
const MEMORY_MAX: u64 = 512 * 1024 * 1024;

/// Connects like a client and writes frames that require answers, which it does not read.
fn silent(host: &Host) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(host.socket()).ok()?;
    stream.set_nonblocking(true).ok()?;
    stream.write_all(HELLO).ok()?;
    for _ in 0..100 {
        let _ = stream.write(PING);
    }
    Some(stream)
}

pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// The number of served calls, their 99th percentile, and the number of refused calls.
fn summary(answers: &[Answer]) -> (usize, Duration, usize) {
    let served = answers.iter().filter(|answer| answer.served);
    let mut served: Vec<Duration> = served.map(|answer| answer.took).collect();
    let refused = answers.len() - served.len();
    (served.len(), percentile(&mut served, 99), refused)
}

#[tokio::test]
async fn many_clients_are_served_and_the_excess_is_refused() {
    let clients = count("TRAIND_SOAK_CLIENTS", 150);
    let readers = count("TRAIND_SOAK_SILENT", 50);
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let options = ["--connections-per-user=4096", "--calls-per-user=4096"];
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &options).await;
    let silent: Vec<UnixStream> = (0..readers).filter_map(|_| silent(&host)).collect();
    assert_eq!(silent.len(), readers);
    host.until_answered().await;

    let (mut crowd, mut all_refused) = (Crowd::new(), 0);
    let mut report = |when: &str, answers: Vec<Answer>| {
        let (served, p99, refused) = summary(&answers);
        println!("{when}: {served} served, p99 {p99:?}; {refused} refused");
        assert!(!is_long() || p99 <= Duration::from_millis(100), "{when}: {p99:?}");
        all_refused += refused;
    };
    println!("{clients} clients and {readers} that never read");
    report("all connect and call at once", crowd.enter(&host.socket(), clients));
    report("all call at once", crowd.call());
    let steady = count("TRAIND_SOAK_STEADY", 500);
    report("one after another", crowd.call_in_turn(steady, STEADY_PERIOD));
    let resident = resident_bytes(host.daemon_pid());
    println!("resident {} MiB", resident >> 20);
    assert!(resident < MEMORY_MAX, "{resident}");
    assert!(!is_long() || all_refused > 0);
    drop(silent);
}
