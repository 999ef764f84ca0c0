//! Values of the job file that are neither numbers nor text.

mod adapters;
pub(crate) mod data_paths;
mod early_stopping;
mod file_size;
pub(crate) mod hub_name;
mod input_tokens;
mod label_map;
mod mapping;
mod model_source;
mod offload;
mod one_or_many;
mod optim_args;
mod quantity;
mod report_to;
mod resume_from;
mod schedule_kwargs;
mod steps;
pub(crate) mod template_names;

pub use adapters::{LayerNumbers, TargetModules, TokenIndices};
pub use data_paths::Paths;
pub use early_stopping::EarlyStopping;
pub use file_size::FileSize;
pub use hub_name::DataSetUrl;
pub use input_tokens::InputTokens;
pub use label_map::{LabelMap, LabelName};
pub use mapping::Mapping;
pub use model_source::ModelSource;
pub use offload::Offload;
pub use one_or_many::OneOrMany;
pub use optim_args::{OptimArg, OptimArgs};
pub use quantity::Quantity;
pub use report_to::ReportTo;
pub use resume_from::ResumeFrom;
pub use schedule_kwargs::ScheduleKwargs;
pub use steps::StepsOrRatio;
pub use template_names::{CHAT_TEMPLATES, TOKENIZER_DEFAULT, TURN_TEMPLATES, is_chat_template};
