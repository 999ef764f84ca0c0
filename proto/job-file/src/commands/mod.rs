//! Requests to the runner's commands and their answers, as JSON over standard input and output: what the daemon and
//! `traind` ask without starting a job.

mod convert_weights;
mod data;
mod embed;
mod generate;
mod last_error;
mod mine;
mod plan;
mod plan_request;
mod prepare;
mod test_cores;

pub use convert_weights::{ConvertWeightsAnswer, ConvertWeightsRequest};
pub use data::{DataAnswer, DataRequest, SplitAnswer, SplitLengths};
pub use embed::{EmbedAnswer, EmbedRequest, VectorsForm};
pub use generate::{
    GenerateAnswer, GenerateJob, GenerateRefusal, GenerateRequest, GenerateSource, GeneratedText,
    GeneratedTexts,
};
pub use last_error::{error_lines, last_error};
pub use mine::{MineAnswer, MineLimits, MineRequest, MineSampling, MinedRows};
pub use plan::{
    Change, CoreMemory, Effect, MeshPlan, Misfit, MpiCost, Parallelism, Place, Plan, PlanAnswer,
    PlanViolation, PlanWarning, PlannedGroup, Processor, SavedBytes, StagePasses,
};
pub use plan_request::{MeshSearch, PlanRequest};
pub use prepare::{PrepareAnswer, PrepareRequest};
pub use test_cores::{CoreAnswer, TestCoresAnswer, TestCoresRequest};

/// The variable that names the process which asks, by its id. The runner ends with it.
pub const PARENT_VARIABLE: &str = "TRAIND_PARENT_PROCESS";
