//! Permissions of users and of jobs.

pub(crate) mod access;
mod audit;
mod confinement;
pub(crate) mod matrix;
pub(crate) mod network;
mod secrets;
mod switching;
mod threats;
