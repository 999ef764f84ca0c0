//! The daemon's services besides jobs, and their limits.

mod devices;
mod energy;
mod fences;
mod limits;
mod metrics;
mod serving;
pub(crate) mod web;
