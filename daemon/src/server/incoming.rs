//! Accepting connections, as many as there are places for.
//!
//! Past [`SERVED_MAX`] a connection is open, and its calls are refused with words; past
//! [`OPEN_MAX`] the kernel lets clients wait. A TLS handshake is done beside the others,
//! so that a client that never ends its own delays nobody.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::unconstrained;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::lateness::CROWD;
use super::quota::{Place, Quota};
use crate::settings::Limits;
use crate::tls::LiveServer;

/// Connections whose calls are served.
const SERVED_MAX: usize = 4096;
/// Connections that are open, refused ones with them.
const OPEN_MAX: usize = 16_384;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// After an error of accept, which mostly means too many open files.
const RETRY: Duration = Duration::from_millis(100);
const CHANNEL: usize = 64;

type Accepted = io::Result<Connection>;

/// The places that connections take.
#[derive(Clone)]
struct Room {
    served: Arc<Semaphore>,
    open: Arc<Semaphore>,
    of_users: Quota,
    patience: Duration,
}

/// The place of one connection among those that are served, or its want of one.
#[derive(Debug)]
pub(super) struct Seat {
    served: Arc<Semaphore>,
    of_users: Quota,
    who: String,
    taken: Mutex<Option<(OwnedSemaphorePermit, Place)>>,
}

/// A connection that is open, before it is known whose it is.
pub(super) struct Entered {
    room: Room,
    open: Option<OwnedSemaphorePermit>,
}

impl Room {
    fn new(limits: Limits) -> Room {
        Room {
            served: Arc::new(Semaphore::new(SERVED_MAX)),
            open: Arc::new(Semaphore::new(OPEN_MAX)),
            of_users: Quota::new(limits.connections_per_user),
            patience: limits.request_timeout.min(HANDSHAKE_TIMEOUT),
        }
    }

    async fn enter(&self) -> Entered {
        Entered { room: self.clone(), open: self.open.clone().acquire_owned().await.ok() }
    }
}

impl Entered {
    /// How long a client may take to begin.
    pub(super) fn patience(&self) -> Duration {
        self.room.patience
    }

    /// A seat for a connection of `who`, and what it holds for as long as it is open. One that
    /// gets no place now may get one when it calls.
    pub(super) fn seat(self, who: String) -> (Arc<Seat>, Option<OwnedSemaphorePermit>) {
        let Room { served, of_users, .. } = self.room;
        let seat = Seat { served, of_users, who, taken: Mutex::default() };
        let _ = seat.take();
        (Arc::new(seat), self.open)
    }
}

impl Seat {
    /// Takes a place unless it has one; what there is too much of, if there is none to take.
    pub(super) fn take(&self) -> Result<(), &'static str> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_none() {
            let of_user = self.of_users.take(&self.who).ok_or("connections of one user")?;
            let of_all = self.served.clone().try_acquire_owned().map_err(|_| "connections")?;
            *taken = Some((of_all, of_user));
        }
        Ok(())
    }
}

/// Accepts from all listeners until the daemon closes.
pub(super) fn accept(
    unix: UnixListener,
    network: Option<(TcpListener, Arc<LiveServer>)>,
    limits: Limits,
    closing: &CancellationToken,
) -> ReceiverStream<Accepted> {
    let (sender, receiver) = mpsc::channel(CHANNEL);
    let room = Room::new(limits);
    let accepting = accept_unix(unix, room.clone(), sender.clone());
    tokio::spawn(closing.clone().run_until_cancelled_owned(accepting));
    if let Some((listener, tls)) = network {
        let accepting = accept_network(listener, tls, room, sender);
        tokio::spawn(closing.clone().run_until_cancelled_owned(accepting));
    }
    ReceiverStream::new(receiver)
}

async fn accept_unix(listener: UnixListener, room: Room, sender: mpsc::Sender<Accepted>) {
    // Who waits now has not waited longer than since nobody did, and not at all behind nobody.
    let (mut nobody_waited, mut before) = (Instant::now(), 0);
    loop {
        let entered = room.enter().await;
        let accepted = tokio::select! {
            biased;
            accepted = unconstrained(listener.accept()) => accepted,
            () = std::future::ready(()) => {
                let accepted = listener.accept().await;
                (nobody_waited, before) = (Instant::now(), 0);
                accepted
            }
        };
        before += 1;
        let waited = if before > CROWD { nobody_waited.elapsed() } else { Duration::ZERO };
        let connected = match accepted {
            Ok((stream, _)) => Connection::unix(stream, entered, waited),
            Err(error) => {
                complain(&error).await;
                continue;
            }
        };
        match connected {
            Ok(connection) => drop(sender.send(Ok(connection)).await),
            Err(error) => tracing::debug!(%error, "learn who calls"),
        }
    }
}

async fn accept_network(
    listener: TcpListener,
    tls: Arc<LiveServer>,
    room: Room,
    sender: mpsc::Sender<Accepted>,
) {
    loop {
        let entered = room.enter().await;
        match listener.accept().await {
            Ok((stream, address)) => {
                let (acceptor, sender) = (TlsAcceptor::from(tls.now()), sender.clone());
                tokio::spawn(shake_hands(acceptor, stream, address.ip(), entered, sender));
            }
            Err(error) => complain(&error).await,
        }
    }
}

async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: IpAddr,
    entered: Entered,
    sender: mpsc::Sender<Accepted>,
) {
    // Calls are short messages back and forth; a client that is gone is of no consequence.
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => drop(sender.send(Ok(Connection::tls(stream, address, entered))).await),
        Ok(Err(error)) => tracing::debug!(%error, "shake hands"),
        Err(_) => tracing::debug!("a client did not end its handshake"),
    }
}

async fn complain(error: &io::Error) {
    tracing::warn!(%error, "accept a connection");
    tokio::time::sleep(RETRY).await;
}
