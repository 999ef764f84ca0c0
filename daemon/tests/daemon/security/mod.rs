//! Permissions of users and of jobs.

pub(crate) mod access;
mod audit;
mod confinement;
mod long_texts;
pub(crate) mod matrix;
pub(crate) mod network;
mod secrets;
mod switching;
mod threats;
