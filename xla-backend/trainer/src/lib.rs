//! A training step of Hugging Face models on the cores of one or several hosts, as a library.
//!
//! - [`step`]: records the programs: forward and backward pass, collectives, clipping and update.
//! - [`state`]: the variables on the cores that last from step to step.
//! - [`session`]: compiles the programs, and launches them.

mod error;
pub mod session;
pub mod state;
pub mod step;

pub use error::{Division, Error, Result};
