//! Losses, optimizers, learning-rate schedules and other choices by name, with the settings of each; and the names of
//! files in model folders and of labels that are none.
//!
//! Two packages that do not know each other read these lists: the job file checks names and settings against them, and
//! the models declare a module for each entry. So an entry is one line here and one file there:
//!
//! ```
//! use traind_choices::{LabelsKind, Loss};
//!
//! let focal = Loss::from_name("focal").unwrap();
//! assert_eq!(focal.labels(), [LabelsKind::Classes, LabelsKind::Flags]);
//! assert_eq!(focal.settings()[0].name, "gamma");
//! ```
#![warn(missing_docs)]

#[macro_use]
mod spelled;
mod adapters;
mod embeddings;
mod fsdp;
mod losses;
mod lr_schedules;
mod model_files;
mod optimizers;
mod preferences;
mod range;
mod setting;
mod switches;
mod unlabelled;

pub use adapters::PeftBias;
pub use embeddings::{DenseActivation, PoolingMode};
pub use fsdp::Fsdp;
pub use losses::{LabelsKind, Loss};
pub use lr_schedules::LrSchedulerType;
pub use model_files::{
    COMPANION_FILES, GENERATION_CONFIG, PREPROCESSOR_CONFIG, SENTENCE_FILES, file_of_dense,
};
pub use optimizers::Optim;
pub use preferences::DpoLoss;
pub use range::Range;
pub use setting::Setting;
pub use switches::{
    KERNELS, NEURON_ANY_CORE_COUNT, NEURON_DONATION, NEURON_PREPARE, SWITCHES, Switch,
    check_switches,
};
pub use unlabelled::{doubtful_labels, may_be_no_label};
