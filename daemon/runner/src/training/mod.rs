//! The conductor of the trainer's loop: gives it batches and rates, and evaluates, logs and saves when the timetable
//! says so.
//!
//! Imports every module but `run` and `plan`.

mod batches;
mod ledger;
mod loss_scale;
mod pauses;
mod rows;
mod step_log;
mod trainer;
mod updates;

#[cfg(test)]
mod tests;

pub(crate) use batches::prefetch;
pub(crate) use ledger::Ledger;
pub(crate) use pauses::EvaluationsAndCheckpoints;
pub(crate) use rows::{FirstBatches, TrainRows};
pub(crate) use step_log::StepLog;
pub(crate) use trainer::Trainer;
pub(crate) use updates::Updates;
