//! A client's connection, over the unix socket or TLS, and the identity of the peer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use super::seats::{Entered, Seat};
use crate::access::account::Account;
use crate::access::tokens::is_user_name;
use crate::tls;

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this host, with the user that the kernel reports.
    User(Account),
    /// A client on the network, with the name in its certificate, if it presented one.
    Network { name: Option<String> },
}

/// Connection details that every call gets.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    /// The connection's seat, which is dropped with it.
    seat: Weak<Seat>,
    /// How long the first call waited for the connection to be accepted.
    delay: Arc<Mutex<Duration>>,
}

impl ConnectionInfo {
    fn new(peer: Peer, seat: &Arc<Seat>, delay: Duration) -> ConnectionInfo {
        ConnectionInfo { peer, seat: Arc::downgrade(seat), delay: Arc::new(Mutex::new(delay)) }
    }

    /// The exceeded limit for which a call of `user` is refused, if any.
    pub(crate) fn refused(&self, user: &str) -> Option<&'static str> {
        self.seat.upgrade().and_then(|seat| seat.take(user).err())
    }

    /// Returns how long the call waited for its connection: zero for all but the first call.
    pub(crate) fn take_delay(&self) -> Duration {
        std::mem::take(&mut *self.delay.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Connection {
    stream: Stream,
    /// Present until the client has sent the HTTP/2 preface.
    preface: Option<Preface>,
    info: ConnectionInfo,
    /// Counts the connection while it is open.
    _seat: Arc<Seat>,
    /// Resolves when a new connection takes the place of this one.
    displaced: Pin<Box<WaitForCancellationFutureOwned>>,
}

enum Stream {
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The expected HTTP/2 preface, with a deadline that disconnects idle clients.
struct Preface {
    bytes_left: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Preface {
    /// Length of `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`.
    const BYTES: usize = 24;

    fn within(timeout: Duration) -> Option<Preface> {
        let deadline = Box::pin(tokio::time::sleep(timeout));
        Some(Preface { bytes_left: Preface::BYTES, deadline })
    }
}

impl Connection {
    /// `delay`: how long the client may have waited to be accepted.
    pub(super) fn unix(
        stream: UnixStream,
        entered: Entered,
        delay: Duration,
    ) -> io::Result<Connection> {
        let credentials = stream.peer_cred()?;
        let account = Account { uid: credentials.uid(), gid: credentials.gid() };
        let preface = Preface::within(entered.timeout());
        // A client that has not sent anything did not wait for a response.
        let has_sent = ioctl_fionread(&stream).is_ok_and(|bytes| bytes > 0);
        let delay = if has_sent { delay } else { Duration::ZERO };
        let displaced = Box::pin(entered.displaced().cancelled_owned());
        let seat = entered.seat(Some(account.uid.to_string()));
        let info = ConnectionInfo::new(Peer::User(account), &seat, delay);
        Ok(Connection { stream: Stream::Unix(stream), preface, info, _seat: seat, displaced })
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>, entered: Entered) -> Connection {
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        // The name appears in logs and on terminals.
        let name = shown.and_then(tls::common_name).filter(|name| is_user_name(name));
        let preface = Preface::within(entered.timeout());
        let displaced = Box::pin(entered.displaced().cancelled_owned());
        // Tokens come with calls; until then, the connection is a stranger's.
        let seat = entered.seat(name.clone());
        // Nothing can be sent before the handshake.
        let info = ConnectionInfo::new(Peer::Network { name }, &seat, Duration::ZERO);
        let stream = Stream::Tls(Box::new(stream));
        Connection { stream, preface, info, _seat: seat, displaced }
    }

    /// Returns what is not pending, or an error once the connection is to make room for a new one.
    fn unless_displaced<T>(
        &mut self,
        done: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if done.is_pending() && self.displaced.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        done
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
        let read = self.unless_displaced(read, context);
        let Some(preface) = &mut self.preface else { return read };
        let received = buffer.filled().len() - before;
        preface.bytes_left = preface.bytes_left.saturating_sub(received);
        if preface.bytes_left == 0 {
            self.preface = None;
        } else if read.is_pending() && preface.deadline.as_mut().poll(context).is_ready() {
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
        let done = match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.unless_displaced(done, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        };
        self.unless_displaced(done, context)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        self.unless_displaced(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
