//! The meeting of a job's hosts: the launchers' variables that give each its place, and the service of host 0
//! by which they exchange values, wait for one another and notice that one is lost. MPI meets by it too.
//!
//! Host 0 serves gRPC over mutual TLS. Both sides derive one certificate from a key that is made for the job,
//! so that a process without the key can neither call nor serve.

mod address;
mod client;
mod connection;
mod error;
pub mod launchers;

mod pmi;
mod random;
mod rounds;
mod server;
mod service;
mod ticket;
mod tls;
mod values;
mod watch;

/// The package `traind.rendezvous`, generated from `rendezvous.proto`.
mod wire {
    #![allow(unreachable_pub, clippy::default_trait_access)] // generated
    tonic::include_proto!("traind.rendezvous");

    /// The largest message: a part of every host.
    pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 30;
}

pub use address::{Address, host_name, node_name};
pub use client::{Client, HostState, Meeting};
pub use error::{KEY_VARIABLE, RendezvousError, Result, TicketError};
pub use launchers::{LaunchError, Placement};

pub use pmi::{serve_pmi, serve_pmi_on_host};
pub use server::Server;
pub use ticket::{Ticket, key_of_environment};
pub use tls::JobKey;
pub use watch::{HostReport, WatchSettings};
pub use wire::Verdict;
