//! Configs and weights on disk.

mod config;
mod fuzz;
mod weights;
