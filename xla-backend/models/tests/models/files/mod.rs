//! Configs and weights on disk.

mod config;
mod fuzz;
mod published;
mod weights;
