//! End-to-end tests: the real binaries, real unix sockets, the real CPU plugin, and jobs that train.

// A failed helper fails its test.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod accumulation;
mod arguments;
mod bad_input;
mod checkpoints;
mod command_line;
mod converting;
mod core_metrics;
mod data_parallel;
mod documents;
mod evaluation;
mod examples;
mod faults;
mod grpcurl;
mod outliving;
mod planning;
mod prometheus;
mod python_client;
mod python_package;
mod queueing;
mod remote;
mod shards;
mod stopping;
mod submitters;
mod tasks;
mod tensorboard_reader;
mod warm_start;
mod web_page;
mod whole_job;
