//! What the end-to-end tests share: a daemon of their own with the real runner and the real
//! CPU plugin, a model and data so small that a job takes a second, and readers of what jobs
//! leave behind.

// A machine on which the tests cannot run ends them as a broken product does.
#![allow(clippy::unwrap_used)]

mod binaries;
mod draft;
mod host;
mod output;
mod processes;
mod story;
mod tensorboard;

pub mod bucket;
pub mod data;
pub mod http;
pub mod hub;
pub mod model;

pub use draft::{Draft, JOB_FILE};
pub use host::{Host, PATIENCE, Said};
pub use output::{Output, TrainerState};
pub use processes::{alive, terminate};
pub use story::Story;
pub use tensorboard::{Scalar, read_scalars};
