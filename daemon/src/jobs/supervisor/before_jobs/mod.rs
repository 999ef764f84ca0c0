//! Preparations of jobs that wait, and tests of cores that may be sick: both come before jobs get cores.

pub(crate) mod core_test;
pub(crate) mod preparation;
pub(crate) mod suspects;
