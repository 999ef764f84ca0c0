//! One file for each service of `traind.v1`. A service checks its request, asks `control` and
//! converts the answer.

pub(super) mod admin;
pub(super) mod cores;
mod host_log;
pub(crate) mod jobs;
pub(crate) mod plans;
pub(super) mod plugins;
mod profiles;
mod programs;
mod samples;
pub(super) mod tokens;
pub(crate) mod watch;
pub(super) mod web;
