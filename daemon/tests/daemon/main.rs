//! Tests of the real binary over a real unix socket, with shell scripts as runners.

// Failed helpers fail the test.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod access;
mod answers;
mod command_line;
mod confinement;
mod devices;
mod doctor;
mod draining;
mod host;
mod http;
mod lifecycle;
mod limits;
mod matrix;
mod metrics;
mod network;
mod planning;
mod preempting;
mod queueing;
mod raw;
mod recovery;
mod restarting;
mod runner;
mod secrets;
mod serving;
mod soak;
mod submitting;
mod switching;
mod terminal;
mod top;
mod web;
