//! How others reach the daemon: gRPC, the web page, Prometheus metrics, and the conversions between
//! the daemon's types and the wire's.
//! Imports every module but `cli`, which it shares `text` with.

pub(crate) mod convert;
mod detached;
pub(crate) mod http;
pub(crate) mod job_view;
pub(crate) mod metrics;
pub(crate) mod server;
mod status;
mod strangers;
pub(crate) mod text;
pub(crate) mod web;
