//! This machine: its cores and devices, its PJRT plugins, its processes and EC2's notices about it.
//! Imports no other module.

mod cores;
pub(crate) mod discovery;
pub(crate) mod meter;
pub(crate) mod pipes;
pub(crate) mod plugins;
pub(crate) mod process;
pub(crate) mod readiness;
pub(crate) mod spot;

pub(crate) use cores::{Host, admits_any_count, neuron_counts_of_clusters};
pub(crate) use discovery::Faults;
