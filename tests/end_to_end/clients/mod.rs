//! Programs that call the daemon or read its output.

mod command_line;
mod generate;
mod grpcurl;
mod prometheus;
pub(crate) mod python_client;
mod python_package;
mod tensorboard_reader;
mod three_ways;
mod trackers;
mod web_page;
