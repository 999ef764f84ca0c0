//! Jobs, from submission to their end.

mod draining;
mod lifecycle;
pub(crate) mod planning;
mod preempting;
mod queueing;
pub(crate) mod recovery;
mod restarting;
mod submitting;
