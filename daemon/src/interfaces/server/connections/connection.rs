//! One connection of a client, from a unix socket or through TLS, and what is known of
//! the other end. Both serve the same calls.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::seats::{Entered, Seat};
use crate::access::account::Account;
use crate::access::tokens::is_user_name;
use crate::tls;

/// Who is at the other end, before any call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this host; the kernel vouches for its user.
    User(Account),
    /// A client on the network, with its certificate's name if it showed one.
    Network { name: Option<String> },
}

/// What every call knows of its connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    /// Gone when the connection is.
    seat: Weak<Seat>,
    /// How long its first call waited for the connection to be accepted.
    delay: Arc<Mutex<Duration>>,
}

impl ConnectionInfo {
    fn new(peer: Peer, seat: &Arc<Seat>, delay: Duration) -> ConnectionInfo {
        ConnectionInfo { peer, seat: Arc::downgrade(seat), delay: Arc::new(Mutex::new(delay)) }
    }

    /// Of what there is too much for the connection's calls to be served, if there is.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        self.seat.upgrade().and_then(|seat| seat.take().err())
    }

    /// How long a call waited before its connection was there: none but the first did.
    pub(crate) fn take_delay(&self) -> Duration {
        std::mem::take(&mut *self.delay.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Connection {
    stream: Stream,
    /// Until it has said that it speaks HTTP/2.
    greeting: Option<Greeting>,
    info: ConnectionInfo,
    /// Count the connection for as long as it is open.
    _seat: Arc<Seat>,
    _open: Option<OwnedSemaphorePermit>,
}

enum Stream {
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a client sends before all else; who does not holds a place for nothing.
struct Greeting {
    bytes_left: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Greeting {
    /// `PRI * HTTP/2.0` and two empty lines around `SM`.
    const BYTES: usize = 24;

    fn within(patience: Duration) -> Option<Greeting> {
        let deadline = Box::pin(tokio::time::sleep(patience));
        Some(Greeting { bytes_left: Greeting::BYTES, deadline })
    }
}

impl Connection {
    /// `delay`: how long the client may have waited to be let in.
    pub(super) fn unix(
        stream: UnixStream,
        entered: Entered,
        delay: Duration,
    ) -> io::Result<Connection> {
        let credentials = stream.peer_cred()?;
        let account = Account { uid: credentials.uid(), gid: credentials.gid() };
        let greeting = Greeting::within(entered.patience());
        // Who has not said anything yet did not wait for an answer.
        let has_spoken = ioctl_fionread(&stream).is_ok_and(|bytes| bytes > 0);
        let delay = if has_spoken { delay } else { Duration::ZERO };
        let (seat, open) = entered.seat(account.uid.to_string());
        let info = ConnectionInfo::new(Peer::User(account), &seat, delay);
        Ok(Connection { stream: Stream::Unix(stream), greeting, info, _seat: seat, _open: open })
    }

    pub(super) fn tls(
        stream: TlsStream<TcpStream>,
        address: IpAddr,
        entered: Entered,
    ) -> Connection {
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        // It comes to stand in logs and on terminals.
        let name = shown.and_then(tls::common_name).filter(|name| is_user_name(name));
        let greeting = Greeting::within(entered.patience());
        // Who has a token says so with each call; till then a host counts as a user.
        let (seat, open) = entered.seat(name.clone().unwrap_or_else(|| address.to_string()));
        // Nobody could speak before hands were shaken.
        let info = ConnectionInfo::new(Peer::Network { name }, &seat, Duration::ZERO);
        let stream = Stream::Tls(Box::new(stream));
        Connection { stream, greeting, info, _seat: seat, _open: open }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        let Some(greeting) = &mut self.greeting else { return read };
        let received = buffer.filled().len() - before;
        greeting.bytes_left = greeting.bytes_left.saturating_sub(received);
        if greeting.bytes_left == 0 {
            self.greeting = None;
        } else if read.is_pending() && greeting.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
