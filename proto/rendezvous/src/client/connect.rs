//! Reaches host 0: reads its ticket anew before each attempt, since a ticket of an earlier start may lie
//! there.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::{Meeting, is_refusal};
use crate::address::Address;
use crate::error::{RendezvousError, Result};
use crate::random::random_number;
use crate::ticket::Ticket;
use crate::tls;
use crate::wire::rendezvous_client::RendezvousClient;
use crate::wire::{JoinRequest, JoinResponse, MESSAGE_BYTES_MAX, Member};

const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The time in which a server must be reached at one of its addresses, and answer.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The connection of a host that has joined.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub member: Member,
    channel: Channel,
}

impl Joined {
    pub(super) fn calls(&self) -> RendezvousClient<Channel> {
        RendezvousClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}

/// Why one attempt failed.
enum Attempt {
    /// The server does not want this host.
    Refused(String),
    Failed(String),
}

/// Joins with retries until the meeting's patience ends.
pub(super) async fn join(meeting: &Meeting) -> Result<Joined> {
    let (start, mut delay) = (Instant::now(), RETRY_FIRST);
    let member = Member { rank: meeting.rank, incarnation: random_number(), session: 0 };
    loop {
        let (address, problem) = match ticket(meeting)? {
            None => (String::new(), "host 0 has not published its address".to_owned()),
            Some(ticket) => match attempt(meeting, &ticket, member).await {
                Ok(joined) => return Ok(joined),
                Err(Attempt::Refused(problem)) => return Err(RendezvousError::Refused(problem)),
                Err(Attempt::Failed(problem)) => {
                    let names: Vec<String> =
                        ticket.addresses.iter().map(Address::to_string).collect();
                    (names.join(" or "), problem)
                }
            },
        };
        let waited = start.elapsed();
        if waited >= meeting.patience {
            let rank = meeting.rank;
            return Err(RendezvousError::Unreachable { rank, address, waited, problem });
        }
        tokio::time::sleep(delay).await;
        delay = (2 * delay).min(RETRY_MAX);
    }
}

/// The addresses and the key that are known now.
fn ticket(meeting: &Meeting) -> Result<Option<Ticket>> {
    let of_folder = meeting.folder.as_deref().map(Ticket::read).transpose()?.flatten();
    let known = meeting.coordinator.iter().cloned();
    Ok(match (of_folder, meeting.key.clone()) {
        (Some(ticket), None) => Some(ticket),
        (of_folder, Some(key)) => {
            let published = of_folder.into_iter().flat_map(|ticket| ticket.addresses);
            let addresses: Vec<Address> = published.chain(known).collect();
            (!addresses.is_empty()).then_some(Ticket { addresses, key })
        }
        (None, None) => None,
    })
}

async fn attempt(
    meeting: &Meeting,
    ticket: &Ticket,
    member: Member,
) -> std::result::Result<Joined, Attempt> {
    let failed = |error: &dyn std::fmt::Display| Attempt::Failed(error.to_string());
    let tls = ticket.key.client_config().map_err(|error| failed(&error))?;
    let channel = channel(ticket.addresses.clone(), tls);
    let mut joined = Joined { member, channel };
    let request = || {
        let (member, host) = (Some(member), meeting.host.clone());
        let mut request = tonic::Request::new(JoinRequest { member, size: meeting.size, host });
        request.set_timeout(CONNECT_MAX);
        request
    };
    let answered = joined.calls().join(request()).await;
    let JoinResponse { session } = match answered {
        Ok(response) => response.into_inner(),
        Err(status) if is_refusal(&status) => {
            return Err(Attempt::Refused(status.message().to_owned()));
        }
        Err(status) => return Err(failed(&chain(&status))),
    };
    joined.member.session = session;
    Ok(joined)
}

/// A channel that connects to the first address that answers with the job's certificate.
fn channel(addresses: Vec<Address>, tls: Arc<ClientConfig>) -> Channel {
    let connector = service_fn(move |_: Uri| {
        let (addresses, tls) = (addresses.clone(), Arc::clone(&tls));
        async move { connect(&addresses, &tls).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://traind-rendezvous").connect_timeout(CONNECT_MAX);
    endpoint.connect_with_connector_lazy(connector)
}

async fn connect(
    addresses: &[Address],
    tls: &Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let mut last = io::Error::other("no address is known");
    for address in addresses {
        let connecting = handshake(address, Arc::clone(tls));
        match tokio::time::timeout(CONNECT_MAX, connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn handshake(address: &Address, tls: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let name = tls::server_name().map_err(io::Error::other)?;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(tls).connect(name, stream).await
}

/// A status with its causes, of which tonic's own text has none.
fn chain(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
