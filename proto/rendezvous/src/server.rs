//! Serves the rendezvous on host 0, on threads of its own.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_stream::wrappers::ReceiverStream;

use crate::address::{Address, host_name};
use crate::connection::Connection;
use crate::error::{RendezvousError, Result};
use crate::service::Service;
use crate::ticket::Ticket;
use crate::tls::JobKey;
use crate::watch::{HostReport, WatchSettings};
use crate::wire::rendezvous_server::RendezvousServer;

/// The largest message: a part of every host.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 30;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Handshakes that were accepted and wait for the server.
const QUEUE: usize = 64;
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
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("rendezvous")
            .enable_all()
            .build()
            .map_err(RendezvousError::Start)?;
        let port = address.map_or(0, |address| address.port);
        let listener = runtime.block_on(listen(port, may_move))?;
        let port = listener.local_addr().map_err(RendezvousError::Start)?.port();
        let service = Service::new(size, session(), settings);
        let tls = key.server_config()?;
        runtime.spawn(serve(listener, tls, service.clone()));
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

/// A number that differs between starts.
fn session() -> u64 {
    crate::client::random_number()
}

/// Listens on all interfaces, by IPv6 too where the host has it.
async fn listen(port: u16, may_move: bool) -> Result<TcpListener> {
    let bind = async |port: u16| {
        let six = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await;
        match six {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await,
        }
    };
    let listener = match bind(port).await {
        Err(_) if may_move => bind(0).await,
        result => result,
    };
    listener.map_err(|source| RendezvousError::Listen { port, source })
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

async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, service: Service) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(accept(listener, tls, sender));
    let service = RendezvousServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let mut server = tonic::transport::Server::builder().max_concurrent_streams(1024);
    // Ends with the process. Callers notice that nobody answers.
    let _ = server.add_service(service).serve_with_incoming(ReceiverStream::new(receiver)).await;
}

/// Accepts connections; handshakes run at the same time, so that a stranger's delays nobody.
async fn accept(listener: TcpListener, tls: Arc<ServerConfig>, sender: mpsc::Sender<Incoming>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (acceptor, sender) = (TlsAcceptor::from(Arc::clone(&tls)), sender.clone());
                tokio::spawn(handshake(acceptor, stream, sender));
            }
            // Usually too many open files.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
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
