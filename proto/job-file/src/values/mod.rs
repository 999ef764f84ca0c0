//! Values of the job file that are neither numbers nor text.

mod data_files;
mod early_stopping;
mod file_size;
pub(crate) mod hub_name;
mod input_tokens;
mod label_map;
mod layer_numbers;
mod mapping;
mod model_source;
mod offload;
mod optim_args;
mod quantity;
mod report_to;
mod resume_from;
mod schedule_kwargs;
mod steps;
mod target_modules;
pub(crate) mod template_names;

pub use data_files::{DataFiles, Paths};
pub use early_stopping::EarlyStopping;
pub use file_size::FileSize;
pub use hub_name::DataSetUrl;
pub use input_tokens::InputTokens;
pub use label_map::LabelMap;
pub use layer_numbers::LayerNumbers;
pub use mapping::Mapping;
pub use model_source::ModelSource;
pub use offload::Offload;
pub use optim_args::OptimArgs;
pub use quantity::Quantity;
pub use report_to::ReportTo;
pub use resume_from::ResumeFrom;
pub use schedule_kwargs::ScheduleKwargs;
pub use steps::StepsOrRatio;
pub use target_modules::TargetModules;
pub use template_names::{CHAT_TEMPLATES, TOKENIZER_DEFAULT, TURN_TEMPLATES, is_chat_template};
