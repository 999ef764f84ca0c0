//! End-to-end tests: the real binaries, real unix sockets, the real CPU plugin, and jobs that train.

// A failed helper fails its test.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bad_input;
mod checkpoints;
mod clients;
mod documents;
mod examples;
mod faults;
mod folders;
mod host_pipelines;
mod hosts;
mod jobs;
mod remote;
mod tasks;
mod training;
