//! Connections of clients: the unix socket, TLS handshakes, and how many may be open and served.

pub(super) mod connection;
pub(super) mod incoming;
mod seats;
pub(super) mod socket;
