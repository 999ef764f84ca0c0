//! Shared parts of the end-to-end tests: a private daemon with the real runner and CPU plugin, a
//! model and data small enough for a job to take a second, and readers of what jobs write.

// A machine that cannot run the tests fails them.
#![allow(clippy::unwrap_used)]

mod binaries;
mod draft;
mod gate;
mod history;
mod host;
mod network;
mod output;
mod processes;
mod runners;
mod tensorboard;
mod wait;

pub mod bucket;
pub mod data;
pub mod http;
pub mod hub;
pub mod images;
pub mod mlflow;
pub mod model;
pub mod repositories;

pub use binaries::traind;
pub use draft::{Draft, JOB_FILE};
pub use gate::Gate;
pub use history::History;
pub use host::{CommandOutput, Host, UNOPTIMIZED};
pub use network::Network;
pub use output::{Output, TrainerState};
pub use processes::{alive, terminate};
pub use runners::Runners;
pub use tensorboard::{Scalar, read_scalars};
pub use wait::{POLL, timeout, until};
