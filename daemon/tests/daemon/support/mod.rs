//! The host of a test, its runners, and clients of its daemon.

pub(crate) mod answers;
pub(crate) mod host;
pub(crate) mod http;
pub(crate) mod kubernetes;
pub(crate) mod raw;
pub(crate) mod runner;
pub(crate) mod slurm;
pub(crate) mod terminal;
