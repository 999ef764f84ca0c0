//! The frozen model that a trained one is compared with: the weights that training starts from. It
//! shares the parameters that are not trained.

use traind_job_file::JobFile;
use traind_models::{Model, ParameterSpec};

/// The adapters of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// None: adapters that are new change nothing yet.
    WithoutAdapters,
    /// Those that the job starts from.
    WithAdapters,
}

impl Reference {
    /// The reference of a job, if it has one.
    pub(crate) fn of_job(job: &JobFile) -> Option<Reference> {
        job.has_reference().then_some(match job.peft.adapter_name_or_path {
            None => Reference::WithoutAdapters,
            Some(_) => Reference::WithAdapters,
        })
    }

    /// Whether it has a copy of its own of a parameter.
    pub(super) fn copies(self, model: &dyn Model, spec: &ParameterSpec) -> bool {
        let is_left_out = self == Reference::WithoutAdapters && model.adapters().owns(&spec.name);
        spec.trainable && !is_left_out
    }
}
