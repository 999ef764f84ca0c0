//! The run's link to the world outside: the event journal, live status and its gRPC service, stop
//! requests, and downloads that a stop request abandons.
//!
//! Imports `error` alone.

mod activity;
mod context;
pub(crate) mod fetching;
mod journal;
pub(crate) mod service;
mod step_gates;
mod stop;
pub(crate) mod work;

pub(crate) use activity::Activity;
pub(crate) use context::Context;
pub(crate) use journal::{Journal, say};
pub(crate) use step_gates::StepGates;
pub(crate) use stop::{Stop, StopReason};
