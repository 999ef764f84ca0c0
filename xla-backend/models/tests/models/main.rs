//! Models on the CPU plugin and checkpoints on disk.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a test may print its measurements")]

mod accuracy;
mod activations;
mod clip;
mod config;
mod dropout;
mod embedding;
mod empty_slots;
mod fixture;
mod fixtures;
mod flops;
mod fuzz;
mod initial;
mod label_smoothing;
mod losses;
mod optimizers;
mod parameters;
mod precision;
mod stages;
mod support;
mod training;
mod weights;
