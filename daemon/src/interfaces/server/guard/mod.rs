//! Layers in front of every service: who calls, whether they may, whether there is capacity, and how
//! the call ended.

mod arrivals;
pub(super) mod audited;
mod body;
pub(super) mod layer;
pub(super) mod observe;
pub(super) mod peer;
pub(crate) mod rights;
