//! The job file, in which a user describes a training job.
//!
//! YAML is processed in four steps, each a module: `node` (text to a tree with line
//! numbers), `aliases` (old names to current ones), `section` (tree to typed
//! structs, every key, type and range checked) and `checks` (fields against each
//! other). All faults are reported at once. The result is resolved: paths
//! are absolute and defaults are filled in, so that the daemon and the
//! runner read the same values.
//!
//! A new argument is one more field in `schema`: its documentation, its default
//! and its range stand there and nowhere else.

mod aliases;
mod checks;
pub mod commands;
mod document;
mod field_doc;
mod field_type;
mod foreign;
mod new_tokens;
mod node;
mod overrides;
mod parse;
mod paths;
mod problems;
mod run_spec;
mod schema;
mod section;
mod spelled;
mod supported;
mod training_arguments;
mod values;
mod violation;

pub use traind_choices::{
    DenseActivation, DpoLoss, Fsdp, Loss, LrSchedulerType, Optim, PeftBias, PoolingMode,
};

pub use document::markdown;
pub use field_doc::FieldDoc;
pub use foreign::{Tool, tool_of};
pub use parse::Parsed;
pub use run_spec::{PREPARATION_FOLDER, RUN_SPEC_FILE, RunSpec, RunSpecError};
pub use schema::columns::{CastType, Columns};
pub use schema::data::{Data, LabelFormat, OnBadLines, PackingStrategy, Quoting};
pub use schema::data_files::DataFiles;
pub use schema::data_set::DataSet;
pub use schema::generation::GenerationConfig;
pub use schema::kubernetes::{Kubernetes, TaintEffect, Toleration, TolerationOperator};
pub use schema::layout::{
    DataLayout, ExcessLength, Mixing, PromptStyle, PromptTemplate, RowFields, TrainOn,
};
pub use schema::model::{AttnImplementation, Model, ProblemType, TaskName, WeightDtype};
pub use schema::notify::Notify;
pub use schema::objectives::dpo::{Dpo, DpoDivergence};
pub use schema::objectives::embedding::{
    BatchSampler, DistanceMetric, Embedding, EmbeddingDirection, EmbeddingLoss,
    EmbeddingSimilarity, HardnessMode, MarginStrategy, PartitionMode,
};
pub use schema::objectives::preferences::{Cpo, CpoLoss, Kto, KtoLoss, Orpo, Reward};
pub use schema::objectives::replaced_tokens::ReplacedTokenDetection;
pub use schema::objectives::reranker::{ReductionLog, Reranker, RerankerLoss, WeightingScheme};
pub use schema::optimizers::ParamGroup;
pub use schema::parallel::{CorePlacement, Parallel};
pub use schema::peft::{Peft, PeftMethod};
pub use schema::resources::{Engine, Platform, Resources, cost, energy};
pub use schema::slurm::Slurm;
pub use schema::train::{
    EvalStrategy, HubStrategy, LoggingStrategy, SaveStrategy, Train, TrainSamplingStrategy,
};
pub use schema::vocabulary::SpecialTokens;
pub use schema::{JobFile, fields};
pub use section::nearest_key;
pub use training_arguments::{
    Argument, MAPPINGS, Misspelling, Sharding, Treatment, fsdp_of_words, misspelled_flag,
    misspellings, training_argument, training_arguments,
};
pub use values::{
    CHAT_TEMPLATES, DataSetUrl, EarlyStopping, FileSize, InputTokens, LabelMap, LabelName,
    LayerNumbers, Mapping, ModelSource, Offload, OneOrMany, OptimArg, OptimArgs, Paths, Prefix,
    Quantity, ReportTo, ResumeFrom, ScheduleKwargs, StepsOrRatio, TOKENIZER_DEFAULT,
    TURN_TEMPLATES, TargetModules, TokenIndices, is_chat_template,
};
pub use violation::{Violation, Warning};
