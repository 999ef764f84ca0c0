//! The binding over the real CPU plugin: one process, since a plugin is loaded once.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod analysis;
mod buffers;
mod collectives;
mod compile;
mod deferred_kernels;
mod devices;
mod donation;
mod errors;
mod events;
mod kernels;
mod key_value_store;
mod loading;
mod serialization;
mod support;
mod threads;
mod topology;
