//! One connection of a client, from a unix socket or through TLS, and what is known of
//! the other end. Both serve the same calls.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::incoming::{Entered, Places};
use crate::account::Account;
use crate::tls;

/// Who is at the other end, before any call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A process of this host; the kernel vouches for its user.
    User(Account),
    /// A client on the network, with its certificate's name if it showed one.
    Network { name: Option<String> },
}

/// What every call knows of its connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    pub(super) peer: Peer,
    /// Of what there is too much for its calls to be served.
    pub(super) refused: Option<&'static str>,
}

pub(super) struct Connection {
    stream: Stream,
    /// Until it has said that it speaks HTTP/2.
    greeting: Option<Greeting>,
    info: ConnectionInfo,
    /// Counts the connection for as long as it is open.
    _places: Places,
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
    pub(super) fn unix(stream: UnixStream, entered: Entered) -> io::Result<Connection> {
        let credentials = stream.peer_cred()?;
        let account = Account { uid: credentials.uid(), gid: credentials.gid() };
        let peer = Peer::User(account);
        let greeting = Greeting::within(entered.patience());
        let (places, refused) = entered.seat(&account.uid.to_string());
        let info = ConnectionInfo { peer, refused };
        Ok(Connection { stream: Stream::Unix(stream), greeting, info, _places: places })
    }

    pub(super) fn tls(
        stream: TlsStream<TcpStream>,
        address: IpAddr,
        entered: Entered,
    ) -> Connection {
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let name = shown.and_then(tls::common_name);
        let greeting = Greeting::within(entered.patience());
        // Who has a token says so with each call; till then a host counts as a user.
        let (places, refused) = match &name {
            Some(name) => entered.seat(name),
            None => entered.seat(&address.to_string()),
        };
        let info = ConnectionInfo { peer: Peer::Network { name }, refused };
        Connection { stream: Stream::Tls(Box::new(stream)), greeting, info, _places: places }
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
