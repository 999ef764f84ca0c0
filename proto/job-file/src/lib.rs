//! The job file: what a user writes to have a model trained.
//!
//! YAML goes through four steps, each a module: `node` (text to a tree that knows
//! its lines), `aliases` (old names to today's), `section` (tree to typed
//! structs, every key, type and range checked) and `checks` (fields against each
//! other). All that is wrong is reported at once. The result is resolved: paths
//! are absolute and everything left out is filled in, so that the daemon and the
//! runner read the same values. Nothing here looks at the environment or at files.
//!
//! A new argument is one more field in `schema`: its documentation, its default
//! and its range stand there and nowhere else.

mod aliases;
mod checks;
mod document;
mod field_type;
mod node;
mod overrides;
mod parse;
mod paths;
mod problems;
mod range;
mod run_spec;
mod schema;
mod section;
mod spelled;
mod supported;
mod task_checks;
mod training_arguments;
mod values;

pub use document::markdown;
pub use parse::Parsed;
pub use problems::{Violation, Warning};
pub use run_spec::{RUN_SPEC_FILE, RunSpec, RunSpecError};
pub use schema::columns::{CastType, Columns};
pub use schema::data::{Data, LabelFormat};
pub use schema::model::{Model, ProblemType, TaskName};
pub use schema::parallel::{CorePlacement, Parallel};
pub use schema::resources::{Platform, Resources};
pub use schema::train::{
    EvalStrategy, LoggingStrategy, LrSchedulerType, Optim, SaveStrategy, Train,
    TrainSamplingStrategy,
};
pub use schema::{JobFile, fields};
pub use section::FieldDoc;
pub use training_arguments::{Argument, Treatment, training_argument};
pub use values::{
    DataFiles, DataSetUrl, FileSize, LabelMap, Mapping, ModelSource, ReportTo, ResumeFrom,
    StepsOrRatio,
};
