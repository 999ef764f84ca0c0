//! Jobs, from submission to their end.

pub(crate) mod adopting;
mod draining;
mod generating;
mod lifecycle;
pub(crate) mod planning;
mod preempting;
mod preparing;
mod queueing;
pub(crate) mod recovery;
mod restarting;
mod submitting;
mod upgrading;
