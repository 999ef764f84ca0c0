//! The error of a meeting.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The variable that holds the key where hosts share no folder.
pub const KEY_VARIABLE: &str = "TRAIND_RENDEZVOUS_KEY";

pub type Result<T> = std::result::Result<T, RendezvousError>;

#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    #[error(transparent)]
    Ticket(#[from] TicketError),

    #[error("make the job's certificate: {0}")]
    Key(String),

    #[error("serve the rendezvous on port {port}: {source}")]
    Listen { port: u16, source: std::io::Error },

    #[error("start the rendezvous: {0}")]
    Start(std::io::Error),

    #[error("host {rank} did not reach host 0 at {address} within {} s: {problem}", .waited.as_secs())]
    Unreachable { rank: u32, address: String, waited: Duration, problem: String },

    #[error(
        "{} of {size} hosts did not come to {channel:?} within {} s: {}",
        .missing.len(), .waited.as_secs(), hosts(.missing)
    )]
    Missing { channel: String, missing: Vec<u32>, size: u32, waited: Duration },

    #[error("no host gave {key:?} within {} s", .waited.as_secs())]
    NoValue { key: String, waited: Duration },

    /// The server refused a call.
    #[error("{0}")]
    Refused(String),
}

impl RendezvousError {
    /// Whether the hosts may meet if the job is started again.
    pub fn may_pass(&self) -> bool {
        !matches!(self, RendezvousError::Key(_) | RendezvousError::Ticket(TicketError::Key { .. }))
    }
}

/// Lists hosts: at most 16 by number.
pub(crate) fn hosts(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(|rank| format!("host {rank}")).collect();
    match ranks.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Why a host cannot write or read the ticket.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    #[error("{action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },

    #[error("{} does not name addresses and a key", path.display())]
    Invalid { path: PathBuf },

    #[error("{} can be read by others than its owner", path.display())]
    Exposed { path: PathBuf },

    #[error("{KEY_VARIABLE}: {problem}")]
    Key { problem: String },
}
