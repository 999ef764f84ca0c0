//! The control plane: admits jobs, decides which may start, and owns the daemon's shared state.
//! Imports `access`, `host`, `settings` and `jobs`, and knows nothing of how callers reach it.

pub(crate) mod admission;
mod adoption;
mod audit;
mod board;
pub(crate) mod charge;
pub(crate) mod daemon;
mod disk_usage;
pub(crate) mod dispatch;
mod eligibility;
pub(crate) mod error;
pub(crate) mod fences;
mod folders_in_use;
mod fork;
pub(crate) mod generator;
mod holds;
pub(crate) mod notifier;
pub(crate) mod planner;
pub(crate) mod preparer;
mod queue;
pub(crate) mod retention;
#[cfg(test)]
mod scale;
mod shares;
