//! The training loop: hands steps to the cores, reads their results back, and evaluates, logs and
//! saves when the schedule says so.
//!
//! Imports every room but `run` and `plan`.

mod trainer;

pub(crate) use trainer::{OpenStep, Trainer};
