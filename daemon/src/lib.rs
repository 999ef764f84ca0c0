//! The training daemon `traind`: control plane and command line.
//!
//! The daemon accepts jobs over gRPC, keeps them in a durable store, gives each its
//! cores, and starts, follows and ends one runner process per job. It never loads a
//! PJRT plugin and never parses a user's data, weights or tokenizer: code that can
//! crash on them is in the runner, which outlives the daemon.
//!
//! A request passes `cli` -> `interfaces::server` -> `control::daemon`, which asks
//! `control::admission` and `jobs::store`; `control::dispatch` runs the scheduler and
//! hands placed jobs to `jobs::supervisor`.
//!
//! The modules, each importing only those above it: `access`, `host`, `settings`, `jobs`,
//! `control`, `interfaces`, `cli`.

mod access;
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "commands print their results")]
pub mod cli;
mod clock;
mod control;
mod hex;
mod host;
mod interfaces;
mod job_id;
mod jobs;
mod notification;
mod paths;
mod percent;
mod settings;
mod size;
mod tls;
