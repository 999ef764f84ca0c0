//! traind as its users meet it: the real binaries, real unix sockets, the real CPU plugin, and
//! jobs that train.

// A helper that cannot do its work fails its test.
#![allow(clippy::unwrap_used)]

mod accumulation;
mod arguments;
mod bad_input;
mod checkpoints;
mod command_line;
mod core_figures;
mod data_parallel;
mod evaluation;
mod faults;
mod grpcurl;
mod main_story;
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
