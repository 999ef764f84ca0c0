//! Serves the rendezvous on host 0, on threads of its own.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_stream::wrappers::ReceiverStream;

use crate::address::{Address, host_name};
use crate::connection::Connection;
use crate::error::{RendezvousError, Result};
use crate::random::random_number;
use crate::service::Service;
use crate::ticket::Ticket;
use crate::tls::JobKey;
use crate::watch::{HostReport, WatchSettings};
use crate::wire::MESSAGE_BYTES_MAX;
use crate::wire::rendezvous_server::RendezvousServer;

const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Connections that may wait to be accepted, since all hosts may come at once. One beyond them, or beyond the
/// system's own limit, is tried again by the host's kernel after a second.
const BACKLOG: u32 = 4096;
/// Handshakes that were accepted and wait for the server.
const QUEUE: usize = 64;
/// Handshakes at a time besides those of all hosts: strangers can connect, too.
const STRANGERS_MAX: u32 = 128;
/// Files that a process opens besides the connections of hosts and strangers.
const OTHER_FILES: u64 = 512;
/// The time between two checks whether all others have left.
const POLL: Duration = Duration::from_millis(20);

type Incoming = std::io::Result<Connection>;

/// The service of host 0. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    service: Service,
    ticket: Ticket,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Server {
    /// Serves `size` hosts at `address`, or at any port of this host. A port that is in use is replaced by
    /// another where `may_move`.
    pub fn start(
        size: u32,
        address: Option<&Address>,
        may_move: bool,
        key: JobKey,
        settings: WatchSettings,
    ) -> Result<Server> {
        // Accepting fails, and waits, where a limit that cannot be raised is reached.
        let _ = setrlimit(Resource::Nofile, raised(getrlimit(Resource::Nofile), size));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("rendezvous")
            .enable_all()
            .build()
            .map_err(RendezvousError::Start)?;
        let port = address.map_or(0, |address| address.port);
        let listener = runtime.block_on(async { listen(port, may_move) })?;
        let port = listener.local_addr().map_err(RendezvousError::Start)?.port();
        let service = Service::new(size, session(), settings);
        let tls = key.server_config()?;
        let handshakes = Handshakes::new(size);
        runtime.spawn(serve(listener, tls, handshakes, service.clone()));
        let ticket = Ticket { addresses: addresses(address, port), key };
        Ok(Server { service, ticket, runtime: Some(runtime) })
    }

    /// The addresses and the key by which others join.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Takes the warnings that other hosts have sent.
    pub fn take_warnings(&self) -> Vec<String> {
        self.service.take_warnings()
    }

    /// The newest reports of the hosts that are there, by rank.
    pub fn reports(&self) -> Vec<HostReport> {
        self.service.reports()
    }

    /// Waits until all other hosts have left, at most for `wait`.
    pub fn wait_until_alone(&self, wait: Duration) {
        let start = Instant::now();
        while !self.service.is_alone() && start.elapsed() < wait {
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The limit of open files with room for a connection of each host, and for all handshakes, as far as the hard limit
/// permits.
fn raised(limit: Rlimit, size: u32) -> Rlimit {
    let wanted = 2 * u64::from(size) + u64::from(STRANGERS_MAX) + OTHER_FILES;
    let permitted = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let current = limit.current.map(|current| current.max(permitted));
    Rlimit { current, ..limit }
}

/// A number that differs between starts.
fn session() -> u64 {
    random_number()
}

/// Listens on all interfaces, by IPv6 too where the host has it.
fn listen(port: u16, may_move: bool) -> Result<TcpListener> {
    let bind_any = |port: u16| {
        let six = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        six.or_else(|_| bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
    };
    let listener = match bind_any(port) {
        Err(_) if may_move => bind_any(0),
        result => result,
    };
    listener.map_err(|source| RendezvousError::Listen { port, source })
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    // Closed connections of a job that was here before keep the port for a minute.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The addresses at which others may reach this host, the likeliest first. A wrong one does no harm, since
/// nobody else has the key.
fn addresses(given: Option<&Address>, port: u16) -> Vec<Address> {
    let mut hosts: Vec<String> = given.map(|address| address.host.clone()).into_iter().collect();
    hosts.extend([host_name()].into_iter().filter(|name| !name.is_empty()));
    hosts.extend(primary_address());
    hosts.push(Ipv4Addr::LOCALHOST.to_string());
    hosts.dedup();
    hosts.into_iter().map(|host| Address { host, port }).collect()
}

/// The address from which this host would reach others. Nothing is sent.
fn primary_address() -> Option<String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address for documentation (RFC 5737).
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    handshakes: Handshakes,
    service: Service,
) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(accept(listener, tls, handshakes, sender));
    let service = RendezvousServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let mut server = tonic::transport::Server::builder().max_concurrent_streams(1024);
    // Ends with the process. Callers notice that nobody answers.
    let _ = server.add_service(service).serve_with_incoming(ReceiverStream::new(receiver)).await;
}

/// Accepts connections; handshakes run at the same time, so that a stranger's delays nobody.
async fn accept(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    mut handshakes: Handshakes,
    sender: mpsc::Sender<Incoming>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (acceptor, sender) = (TlsAcceptor::from(Arc::clone(&tls)), sender.clone());
                let begun = tokio::spawn(handshake(acceptor, stream, sender));
                handshakes.add(begun.abort_handle());
            }
            // Usually too many open files.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The handshakes that run, the oldest first. One too many ends the oldest, so that strangers who never complete theirs
/// do not take the files that the run needs.
struct Handshakes {
    max: usize,
    running: VecDeque<AbortHandle>,
}

impl Handshakes {
    fn new(size: u32) -> Handshakes {
        Handshakes { max: (size + STRANGERS_MAX) as usize, running: VecDeque::new() }
    }

    fn add(&mut self, handshake: AbortHandle) {
        self.running.push_back(handshake);
        while let Some(oldest) = self.running.front()
            && (oldest.is_finished() || self.running.len() > self.max)
        {
            oldest.abort();
            self.running.pop_front();
        }
    }
}

async fn handshake(acceptor: TlsAcceptor, stream: TcpStream, sender: mpsc::Sender<Incoming>) {
    // Fails only if the caller has disconnected.
    let _ = stream.set_nodelay(true);
    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
        let _ = sender.send(Ok(Connection(stream))).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// Beyond the backlog that listeners have by themselves.
    #[test]
    fn all_hosts_may_come_at_once() {
        const HOSTS: u32 = 1200;
        let text = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        if text.trim().parse::<u32>().unwrap() < HOSTS {
            return eprintln!("skipped: the system's own limit is {text}");
        }
        let _ = setrlimit(Resource::Nofile, raised(getrlimit(Resource::Nofile), 2 * HOSTS));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(async { bind(any) }).unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody accepts them.
        let patience = Duration::from_secs(60);
        let hosts = (0..HOSTS).map(|_| TcpStream::connect_timeout(&address, patience));
        let hosts = hosts.collect::<std::io::Result<Vec<_>>>().unwrap();
        assert_eq!(hosts.len(), HOSTS as usize);
    }

    #[test]
    fn every_host_may_have_a_connection() {
        let raised = |current, maximum, size| raised(Rlimit { current, maximum }, size).current;
        assert_eq!(raised(Some(1024), Some(4096), 1024), Some(2688));
        assert_eq!(raised(Some(1024), Some(1200), 1024), Some(1200), "no more than is permitted");
        assert_eq!(raised(Some(4096), None, 1024), Some(4096), "enough already");
        assert_eq!(raised(None, None, 1024), None);
    }

    /// Strangers took all files of the runner, whose job then failed.
    #[tokio::test]
    async fn handshakes_that_never_end_make_room_for_others() {
        let mut handshakes = Handshakes { max: 2, running: VecDeque::new() };
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let task = tokio::spawn(std::future::pending::<()>());
            handshakes.add(task.abort_handle());
            tasks.push(task);
        }
        assert!(tasks.remove(0).await.is_err_and(|error| error.is_cancelled()));
        assert!(tasks.remove(0).await.is_err_and(|error| error.is_cancelled()));
        assert!(tasks.iter().all(|task| !task.is_finished()) && handshakes.running.len() == 2);
        for task in tasks {
            task.abort();
            assert!(task.await.is_err());
        }
        handshakes.add(tokio::spawn(std::future::pending::<()>()).abort_handle());
        assert_eq!(handshakes.running.len(), 1, "those that have ended do not count");
    }
}
