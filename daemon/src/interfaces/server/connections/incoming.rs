//! Accepts connections, within the limits of `seats`.
//!
//! TLS handshakes run concurrently, so that a client that never completes its own delays no other.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::seats::{Entered, HANDSHAKE_TIMEOUT, Seats};
use crate::interfaces::server::lateness::BURST_MAX;
use crate::settings::Limits;
use crate::tls::LiveServer;

/// Delay after a failed accept, which usually means too many open files.
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
    let seats = Seats::new(limits);
    let accepting = accept_unix(unix, seats.clone(), sender.clone());
    tokio::spawn(closing.clone().run_until_cancelled_owned(accepting));
    if let Some((listener, tls)) = network {
        let accepting = accept_network(listener, tls, seats, sender);
        tokio::spawn(closing.clone().run_until_cancelled_owned(accepting));
    }
    ReceiverStream::new(receiver)
}

async fn accept_unix(listener: UnixListener, seats: Seats, sender: mpsc::Sender<Accepted>) {
    // A client has waited at most since the queue was last empty.
    let (mut last_empty, mut before) = (Instant::now(), 0);
    loop {
        seats.settled().await;
        let accepted = tokio::select! {
            biased;
            accepted = unconstrained(listener.accept()) => accepted,
            () = std::future::ready(()) => {
                let accepted = listener.accept().await;
                (last_empty, before) = (Instant::now(), 0);
                accepted
            }
        };
        before += 1;
        let waited = if before > BURST_MAX { last_empty.elapsed() } else { Duration::ZERO };
        let connected = match accepted {
            Ok((stream, _)) => Connection::unix(stream, seats.enter(), waited),
            Err(error) => {
                report_and_pause(&error).await;
                continue;
            }
        };
        match connected {
            Ok(connection) => drop(sender.send(Ok(connection)).await),
            Err(error) => tracing::debug!(%error, "identify the peer"),
        }
    }
}

async fn accept_network(
    listener: TcpListener,
    tls: Arc<LiveServer>,
    seats: Seats,
    sender: mpsc::Sender<Accepted>,
) {
    loop {
        seats.settled().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let (acceptor, sender) = (TlsAcceptor::from(tls.now()), sender.clone());
                let entered = seats.enter();
                let displaced = entered.displaced();
                let shaking = handshake(acceptor, stream, entered, sender);
                tokio::spawn(displaced.run_until_cancelled_owned(shaking));
            }
            Err(error) => report_and_pause(&error).await,
        }
    }
}

async fn handshake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    entered: Entered,
    sender: mpsc::Sender<Accepted>,
) {
    // Calls are short messages back and forth. Fails only if the client has disconnected.
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => drop(sender.send(Ok(Connection::tls(stream, entered))).await),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake"),
        Err(_) => tracing::debug!("a client did not complete its TLS handshake"),
    }
}

async fn report_and_pause(error: &io::Error) {
    tracing::warn!(%error, "accept a connection");
    tokio::time::sleep(RETRY).await;
}
