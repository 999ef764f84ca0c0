//! The daemon's services besides jobs, and their limits.

mod core_tests;
mod devices;
mod energy;
mod fences;
mod limits;
mod metrics;
mod serving;
pub(crate) mod web;
