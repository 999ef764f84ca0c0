//! Jobs, from their plan to their end.

mod converting;
mod core_metrics;
mod core_tests;
mod forking;
mod generating;
mod gguf;
mod notifying;
mod outliving;
mod planning;
mod preparing;
mod profiling;
mod programs;
mod queueing;
mod stopping;
mod submitters;
mod whole_job;
