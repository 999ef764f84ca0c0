//! The daemon's services besides jobs, and their limits.

mod devices;
mod limits;
mod metrics;
mod serving;
pub(crate) mod web;
