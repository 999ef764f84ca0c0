//! Tests of the real binary over a real unix socket, with shell scripts as runners.

// Failed helpers fail the test.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod clusters;
mod commands;
mod jobs;
mod security;
mod services;
mod soak;
mod support;
