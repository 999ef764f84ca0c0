//! Refuses jobs that a run would fail on, before they wait for cores.

pub(super) mod generation;
pub(super) mod metrics;
pub(super) mod texts;
pub(super) mod vocabulary;
pub(super) mod weights;

#[cfg(test)]
mod tests;
