//! Hosts of one process, over real connections.

use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;

use super::*;
use crate::server::Server;
use crate::ticket::Ticket;

const PATIENCE: Duration = Duration::from_secs(60);
const NOW: Option<Duration> = Some(Duration::ZERO);

fn meeting(folder: &Path, rank: u32, size: u32) -> Meeting {
    Meeting {
        rank,
        size,
        host: format!("node{rank}"),
        coordinator: None,
        folder: Some(folder.to_owned()),
        key: None,
        patience: PATIENCE,
    }
}

/// Serves `size` hosts, and publishes the ticket in `folder`.
fn serve(folder: &Path, size: u32, settings: WatchSettings) -> Server {
    let server = Server::start(size, None, true, JobKey::generate().unwrap(), settings).unwrap();
    server.ticket().write(folder).unwrap();
    server
}

fn serve_quietly(folder: &Path, size: u32) -> Server {
    serve(folder, size, WatchSettings::default())
}

fn refusal<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("the call was answered"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn hosts_come_early_and_late() {
    let folder = tempfile::tempdir().unwrap();
    let early = meeting(folder.path(), 1, 2);
    // Comes before there is a server, and waits for host 0.
    let early = thread::spawn(move || {
        let client = Client::join(early).unwrap();
        client.put("from", b"node1".to_vec()).unwrap();
        client.barrier("met", Some(PATIENCE)).unwrap();
        client.gather_all("names", b"b".to_vec()).unwrap()
    });
    let _server = serve_quietly(folder.path(), 2);
    let late = Client::join(meeting(folder.path(), 0, 2)).unwrap();
    late.barrier("met", Some(PATIENCE)).unwrap();
    assert_eq!(late.try_get("from").unwrap().unwrap(), b"node1");
    let names = late.gather_all("names", b"a".to_vec()).unwrap();
    assert_eq!(names, [b"a", b"b"]);
    assert_eq!(early.join().unwrap(), names);
}

#[test]
fn values_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve_quietly(folder.path(), 2);
    let client = Client::join(meeting(folder.path(), 0, 2)).unwrap();
    assert_eq!(client.try_get("key").unwrap(), None);
    let error = refusal(client.get("key", Duration::from_millis(1)));
    assert!(error.contains("\"key\""), "{error}");
    let waiting = client.clone();
    let waiting = thread::spawn(move || waiting.get("key", PATIENCE).unwrap());
    Client::join(meeting(folder.path(), 1, 2)).unwrap().put("key", vec![7]).unwrap();
    assert_eq!(waiting.join().unwrap(), [7]);
}

#[test]
fn missing_hosts_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve_quietly(folder.path(), 20);
    let client = Client::join(meeting(folder.path(), 0, 20)).unwrap();
    Client::join(meeting(folder.path(), 3, 20)).unwrap().barrier("met", NOW).unwrap_err();
    let error = refusal(client.barrier("met", NOW));
    assert!(error.contains("18 of 20 hosts did not come to \"met\""), "{error}");
    assert!(error.contains(": host 1, host 2, host 4,") && error.contains("2 more"), "{error}");
    // Nobody serves at the address any more.
    let patient = Meeting { patience: Duration::ZERO, ..meeting(folder.path(), 1, 20) };
    drop(_server);
    let error = refusal(Client::join(patient));
    assert!(error.contains("host 1 did not reach host 0 at "), "{error}");
    let patient = Meeting { patience: Duration::ZERO, ..meeting(Path::new("/nonexistent"), 1, 20) };
    assert!(refusal(Client::join(patient)).contains("has not published its address"));
}

#[test]
fn a_restarted_host_is_taken_until_the_hosts_have_met() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve_quietly(folder.path(), 2);
    let join = |rank| Client::join(meeting(folder.path(), rank, 2));
    let old = join(1).unwrap();
    old.barrier("met", NOW).unwrap_err();
    let new = join(1).unwrap();
    assert!(refusal(old.put("key", Vec::new())).contains("another start"));
    let first = join(0).unwrap();
    let error = refusal(first.barrier("met", NOW));
    assert!(error.contains("1 of 2") && error.contains("host 1"), "{error}");
    new.barrier("met", Some(PATIENCE)).unwrap();
    first.barrier("elsewhere", NOW).unwrap_err();
    assert!(refusal(join(1)).contains("start all hosts again"));
}

#[test]
fn hosts_that_count_differently_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve_quietly(folder.path(), 2);
    let error = refusal(Client::join(meeting(folder.path(), 1, 3)));
    assert!(error.contains("host 1 counts 3 hosts, and host 0 counts 2"), "{error}");
}

#[test]
fn large_parts_reach_host_0_alone() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve_quietly(folder.path(), 2);
    let part = |rank: u32| vec![rank as u8 + 1; (PIECE_BYTES + 5) * rank as usize + 3];
    let [first, second] = [0, 1].map(|rank| {
        let client = Client::join(meeting(folder.path(), rank, 2)).unwrap();
        thread::spawn(move || {
            let gathered = client.gather("outputs", &part(rank)).unwrap();
            (gathered, client.broadcast("metrics", vec![rank as u8]).unwrap())
        })
    });
    let (gathered, metrics) = first.join().unwrap();
    assert_eq!(gathered.unwrap(), [part(0), part(1)]);
    assert_eq!((second.join().unwrap(), metrics), ((None, vec![0]), vec![0]));
}

#[test]
fn a_stranger_without_the_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_quietly(folder.path(), 2);
    let Ticket { addresses, .. } = server.ticket().clone();
    let stranger = |key| Meeting {
        coordinator: addresses.last().cloned(),
        folder: None,
        key: Some(key),
        patience: Duration::ZERO,
        ..meeting(folder.path(), 1, 2)
    };
    let error = refusal(Client::join(stranger(JobKey::generate().unwrap())));
    assert!(error.contains("certificate"), "{error}");
    // Nor does the server talk to a client without TLS.
    let mut plain = TcpStream::connect(("127.0.0.1", addresses[0].port)).unwrap();
    std::io::Write::write_all(&mut plain, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP") && answer.len() < 16, "{answer:?}");
    // The one with the key is accepted.
    Client::join(stranger(server.ticket().key.clone())).unwrap();
}

fn state() -> HostState {
    HostState { phase: "COMPUTE".to_owned(), step: 7, cores: vec![0, 1], ..HostState::default() }
}

/// Follows on two hosts; returns the clients and what they will be given.
fn followed(
    folder: &Path,
    settings: WatchSettings,
) -> [(Client, std::sync::mpsc::Receiver<Verdict>); 2] {
    let (reported, reports) = channel();
    let hosts = [0, 1].map(|rank| {
        let client = Client::join(meeting(folder, rank, 2)).unwrap();
        let (sender, receiver) = channel();
        let reported = reported.clone();
        let state = move || {
            let _ = reported.send(rank);
            state()
        };
        client.follow(settings, state, move |verdict| sender.send(verdict).unwrap());
        (client, receiver)
    });
    // Each has reported twice, so that host 0 knows of the first time.
    let mut counts = [0; 2];
    while counts.iter().any(|count| *count < 2) {
        counts[reports.recv().unwrap() as usize] += 1;
    }
    hosts
}

/// A watch that waits for nothing but connections.
fn impatient() -> WatchSettings {
    WatchSettings { absence_max: Duration::ZERO, ..WatchSettings::default() }
}

#[test]
fn a_host_whose_process_ends_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path(), 2, impatient());
    let [(_first, verdict), lost] = followed(folder.path(), impatient());
    thread::spawn(move || drop(lost)).join().unwrap();
    let verdict = verdict.recv().unwrap();
    assert_eq!((verdict.rank, verdict.step, verdict.transient), (1, Some(7), true));
    let expected = "host 1 (node1, cores 0 to 1) lost its connection to host 0; it was last seen in phase \
                    COMPUTE of step 7";
    assert_eq!(verdict.message, expected);
}

#[test]
fn host_0_is_watched_by_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, WatchSettings::default());
    let [_first, (_client, verdict)] = followed(folder.path(), impatient());
    drop(server);
    let verdict = verdict.recv().unwrap();
    assert_eq!((verdict.rank, verdict.transient), (0, true));
    assert!(verdict.message.starts_with("host 0 (node0, cores 0 to 1) "), "{verdict:?}");
}

#[test]
fn the_failure_of_a_host_reaches_all() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_quietly(folder.path(), 2);
    let hosts = followed(folder.path(), WatchSettings::default());
    let failure = Verdict { reason: "DATA_EMPTY".to_owned(), ..Verdict::default() };
    hosts[1].0.leave(Some(failure.clone())).unwrap();
    for (_, verdict) in &hosts {
        assert_eq!(verdict.recv().unwrap(), Verdict { rank: 1, ..failure.clone() });
    }
    hosts[1].0.leave(None).unwrap();
    server.wait_until_alone(PATIENCE);
}

/// The figure of the design: 1,024 hosts meet within two seconds. It is printed, since a busy machine is slower.
#[test]
fn many_hosts_meet() {
    const SIZE: u32 = 1024;
    let folder = tempfile::tempdir().unwrap();
    let _server = serve_quietly(folder.path(), SIZE);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let start = Instant::now();
    let hosts = (0..SIZE).map(|rank| {
        let meeting = meeting(folder.path(), rank, SIZE);
        runtime.spawn(async move {
            let joined = join(&meeting).await.unwrap();
            let request = ExchangeRequest {
                member: Some(joined.member),
                channel: "met".to_owned(),
                part: rank.to_le_bytes().to_vec(),
                receives: rank == 0,
                wait_ms: 10_000,
                ..ExchangeRequest::default()
            };
            loop {
                let response = joined.calls().exchange(request.clone()).await.unwrap().into_inner();
                if response.complete {
                    return response.parts;
                }
            }
        })
    });
    let hosts: Vec<_> = hosts.collect();
    let parts = runtime.block_on(async {
        let mut first = Vec::new();
        for host in hosts {
            let parts = host.await.unwrap();
            first = if first.is_empty() { parts } else { first };
        }
        first
    });
    println!("{SIZE} hosts met within {:.2} s", start.elapsed().as_secs_f64());
    let expected: Vec<Vec<u8>> = (0..SIZE).map(|rank| rank.to_le_bytes().to_vec()).collect();
    assert_eq!(parts, expected);
}
