//! Requests to the runner's commands and their answers, as JSON over standard input and output: what the daemon and
//! `traind` ask without starting a job.

mod data;
mod plan;

pub use data::{DataAnswer, DataRequest, SplitAnswer, SplitLengths};
pub use plan::{
    Change, CoreMemory, Effect, MeshPlan, Misfit, MpiCost, Parallelism, Place, Plan, PlanAnswer,
    PlanViolation, PlannedGroup, Processor, SavedBytes, StagePasses,
};
