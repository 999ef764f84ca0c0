//! Connections from the command line to a daemon: over its unix socket, or over TLS to another host.

pub(crate) mod client;
pub(crate) mod remote;
