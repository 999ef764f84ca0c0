//! The run's link to the world outside: the event journal, live status and its gRPC service, stop
//! requests, and downloads that a stop request abandons.
//!
//! Imports `error` and `profile`.

mod activity;
mod bubbles;
mod downloads;
mod echo;
mod journal;
mod reporter;
mod rows_so_far;
mod service;
mod step_gates;
mod stop;
mod window;
mod work;

pub(crate) use activity::{Activity, CoreStages};
pub(crate) use downloads::Downloads;
pub(crate) use journal::{Journal, print_line};
pub(crate) use reporter::Reporter;
pub(crate) use rows_so_far::RowsSoFar;
pub(crate) use service::RunnerService;
pub(crate) use step_gates::StepGates;
pub(crate) use stop::{Stop, StopReason};
