//! Accepting connections, as many as there are places for.
//!
//! Past [`SERVED_MAX`] a connection is open, and its calls are refused with words; past
//! [`OPEN_MAX`] the kernel lets clients wait. A TLS handshake is done beside the others,
//! so that a client that never ends its own delays nobody.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::seats::{Entered, HANDSHAKE_TIMEOUT, Room};
use crate::interfaces::server::lateness::CROWD;
use crate::settings::Limits;
use crate::tls::LiveServer;

/// After an error of accept, which mostly means too many open files.
const RETRY: Duration = Duration::from_millis(100);
const CHANNEL: usize = 64;

type Accepted = io::Result<Connection>;

/// Accepts from all listeners until the daemon closes.
pub(crate) fn accept(
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
