//! The frozen model that a trained one is compared with: the weights that training starts from, or those of
//! another model. The first shares the parameters that are not trained.

use traind_job_file::JobFile;
use traind_models::{Model, ParameterSpec};

/// The weights of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The parameters that the job starts from, without adapters: new ones change nothing yet.
    WithoutAdapters,
    /// The same with the adapters that the job starts from.
    WithAdapters,
    /// The parameters of another model, which has no adapters.
    Named,
}

impl Reference {
    /// The reference of a job, if it has one.
    pub(crate) fn of_job(job: &JobFile) -> Option<Reference> {
        let dpo = &job.dpo;
        job.has_reference().then_some(match (&dpo.ref_model_name_or_path, &job.peft) {
            (Some(_), _) => Reference::Named,
            (None, peft) if peft.adapter_name_or_path.is_some() => Reference::WithAdapters,
            (None, _) => Reference::WithoutAdapters,
        })
    }

    /// Whether it has a copy of its own of a parameter.
    pub(super) fn copies(self, model: &dyn Model, spec: &ParameterSpec) -> bool {
        let is_adapter = model.adapters().owns(&spec.name);
        match self {
            Reference::WithoutAdapters => spec.trainable && !is_adapter,
            Reference::WithAdapters => spec.trainable,
            Reference::Named => !is_adapter,
        }
    }
}
