//! The training daemon `traind`: control plane and command line.
//!
//! The daemon takes jobs over gRPC, keeps them in a store that loses nothing, gives
//! each its cores, and starts, follows and ends one runner process a job. It never
//! loads a PJRT plugin and never parses a user's data, weights or tokenizer: what can
//! crash on them is in the runner, which outlives the daemon.
//!
//! A request goes down `cli` -> `server` -> `daemon` -> `admission` and `store`; from
//! there `dispatch` asks `scheduler` and hands placed jobs to `supervisor`.

mod access;
mod account;
mod admission;
mod board;
pub mod cli;
mod clock;
mod confine;
mod convert;
mod daemon;
mod discovery;
mod dispatch;
mod doctor;
mod error;
mod holding;
mod host;
mod http;
mod job_id;
mod live_access;
mod lock;
mod metrics;
mod paths;
mod planner;
mod plugins;
mod queue;
mod record;
mod scheduler;
mod server;
mod settings;
mod size;
mod spot;
mod state;
mod status;
mod store;
mod supervisor;
mod tls;
mod tokens;
mod web;
