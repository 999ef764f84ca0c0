//! Refuses jobs that a run would fail on, before they wait for cores.

pub(super) mod texts;
pub(super) mod weights;
