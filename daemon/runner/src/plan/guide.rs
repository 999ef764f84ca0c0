//! The model that guides a loss of embeddings: it has the cores to itself, before the trained model is on them.

use traind_job_file::commands::{Effect, SavedBytes};
use traind_job_file::{JobFile, ModelSource};
use traind_models::{Model, ModelConfig, Role, weights};
use traind_wording::counted;

use super::{PlannedModel, memory};
use crate::error::{RunError, RunResult};
use crate::model::guide::{GuideConfig, jobs_of_guide, named};
use crate::model::shown;

const FIELD: &str = "embedding.guide";
const MIB: u64 = 1 << 20;

pub(super) struct PlannedGuide {
    /// Its folder or hub id, as the job file has it.
    source: String,
    parameters: u64,
    /// The elements that compute with each token.
    computing: usize,
    bytes_per_core: u64,
}

impl PlannedGuide {
    /// The guide of a job, if rows of the job need one. Fails where its weights do not fit its config.
    /// Its folder must have weights unless the plan may fetch them.
    pub(super) fn of_job(
        job: &JobFile,
        guide: Option<GuideConfig>,
        may_fetch: bool,
    ) -> RunResult<Option<PlannedGuide>> {
        let own = jobs_of_guide(job)?.into_iter().next();
        let planned = |(own, guide): (JobFile, GuideConfig)| {
            PlannedGuide::of(own, guide.config, job, may_fetch).map_err(named)
        };
        own.zip(guide).map(planned).transpose()
    }

    fn of(
        mut own: JobFile,
        config: ModelConfig,
        job: &JobFile,
        may_fetch: bool,
    ) -> RunResult<PlannedGuide> {
        // Programs that compute vectors are those of test data.
        own.data.test =
            own.data.train.take().or_else(|| own.data.validation.take()).or(own.data.test);
        own.train.do_train = false;
        own.resources.cores = job.resources.cores;
        let planned = PlannedModel::of_config(&own, config, may_fetch)?;
        let model = planned.model.as_ref();
        if let ModelSource::Folder(folder) = &own.model.name_or_path
            && (!may_fetch || weights::exist(folder))
        {
            weights::check(folder, model, |_| true)?;
        }
        Ok(PlannedGuide {
            parameters: model.parameters().iter().map(|it| it.shape.element_count() as u64).sum(),
            computing: computing(model),
            bytes_per_core: memory::of(&own, &planned)?.bytes_per_core,
            source: shown(&own.model.name_or_path),
        })
    }

    /// Fails where a core has too little memory.
    pub(super) fn check(&self, bytes_max: Option<u64>) -> RunResult<()> {
        match bytes_max.filter(|most| self.bytes_per_core > *most) {
            None => Ok(()),
            Some(most) => Err(RunError::Field {
                name: FIELD,
                value: self.source.clone(),
                problem: format!(
                    "it needs {} MiB on a core, which has {} MiB; lower train.per_device_eval_batch_size, or name \
                     a smaller guide",
                    self.bytes_per_core.div_ceil(MIB),
                    most / MIB
                ),
            }),
        }
    }

    /// The memory and the time that the guide takes beside the training of `trained`.
    pub(super) fn effect(&self, trained: &Model) -> Effect {
        // A step passes forward, and for the gradients of inputs and of weights backward.
        let epochs = self.computing as f64 / (3.0 * computing(trained) as f64).max(1.0);
        Effect {
            setting: format!("{FIELD}: {}", self.source),
            effect: format!(
                "a model of {} embeds all texts once, before the first step: with {} MiB per core, in about the time of \
                 {epochs:.2} epochs",
                counted(self.parameters, "parameter"),
                self.bytes_per_core.div_ceil(MIB)
            ),
            saved: SavedBytes::default(),
        }
    }
}

fn computing(model: &Model) -> usize {
    let counted = model.parameters().iter().filter(|spec| spec.role != Role::Embedding);
    counted.map(|spec| spec.shape.element_count()).sum()
}
