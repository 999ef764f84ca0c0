//! The weights that a job's model starts from, and the events about them.

use std::time::Instant;

use traind_job_file::JobFile;
use traind_models::tuning::{FrozenByTie, frozen_by_tie, load_adapter, put_adapter};
use traind_models::weights;
use traind_proto::v1::ModelLoaded;
use traind_proto::v1::event::Kind;
use traind_xla::runtime::HostArray;

use super::{OpenModel, vocabulary};
use crate::error::RunResult;
use crate::reporting::Journal;

impl OpenModel {
    /// Reads or draws the weights, in the order of the parameters.
    pub(crate) fn load_weights(
        &self,
        job: &JobFile,
        journal: &Journal,
    ) -> RunResult<Vec<HostArray>> {
        let start = Instant::now();
        let weights::Loaded { arrays, mut report } = self.start_weights(job)?;
        if job.peft.adapter_name_or_path.is_some() {
            let saved: Vec<_> = self.saved_names().collect();
            report.initialized.retain(|name| !saved.contains(&name.as_str()));
        }
        self.report(journal, &report, start)?;
        if job.train.do_train {
            self.report_trained(journal)?;
            self.report_frozen(job, journal)?;
        }
        Ok(arrays)
    }

    /// Warns of parameters that are frozen though the job names others, or none.
    fn report_frozen(&self, job: &JobFile, journal: &Journal) -> RunResult<()> {
        for frozen in frozen_by_tie(self.model.as_ref(), &job.train.freeze) {
            let FrozenByTie { entry, parameter, alias } = frozen;
            let message = format!(
                "train.freeze: {entry} also freezes {parameter}, which is {alias} too: the model ties them"
            );
            journal.warn("FROZEN_TIED", message)?;
        }
        if let Some(warning) = vocabulary::warning(self.model.as_ref()) {
            journal.warn("NEW_TOKENS_FROZEN", warning)?;
        }
        Ok(())
    }

    /// The weights that training starts from, in the order of the parameters.
    pub(crate) fn start_weights(&self, job: &JobFile) -> RunResult<weights::Loaded> {
        let mut loaded = self.base_weights(job)?;
        if let Some(folder) = &job.peft.adapter_name_or_path {
            let model = self.model.as_ref();
            put_adapter(model, &mut loaded.arrays, load_adapter(folder, model)?);
        }
        Ok(loaded)
    }

    /// The weights that training starts from, with adapters that are new.
    fn base_weights(&self, job: &JobFile) -> RunResult<weights::Loaded> {
        let (model, seed) = (self.model.as_ref(), job.train.seed);
        if job.model.from_config {
            return Ok(weights::draw(model, seed)?);
        }
        let load = match job.model.ignore_mismatched_sizes {
            true => weights::load_fitting,
            false => weights::load,
        };
        Ok(load(&self.folder, model, seed)?)
    }

    /// All weights, in the order of the parameters, from those that were saved.
    pub(crate) fn complete(
        &self,
        job: &JobFile,
        saved: Vec<HostArray>,
    ) -> RunResult<Vec<HostArray>> {
        if self.model.adapters().is_empty() {
            return Ok(saved);
        }
        let mut arrays = self.base_weights(job)?.arrays;
        put_adapter(self.model.as_ref(), &mut arrays, saved);
        Ok(arrays)
    }

    /// The names of the parameters that are saved: with adapters, those that are trained.
    fn saved_names(&self) -> impl Iterator<Item = &str> {
        let model = &self.model;
        let saved = model.parameters().iter().filter(|spec| model.adapters().saves(spec));
        saved.map(|spec| spec.name.as_str())
    }

    /// Records that the weights came from a checkpoint.
    pub(crate) fn report_resumed(&self, journal: &Journal, start: Instant) -> RunResult<()> {
        self.report(journal, &weights::LoadReport::default(), start)
    }

    /// Records how much of the model is trained, where that is not all of it.
    fn report_trained(&self, journal: &Journal) -> RunResult<()> {
        let count = |trained: bool| -> usize {
            let specs = self.model.parameters().iter();
            let counted = specs.filter(|spec| spec.trainable || !trained);
            counted.map(|spec| spec.shape.element_count()).sum()
        };
        let (trained, all) = (count(true), count(false));
        if trained == all {
            return Ok(());
        }
        let share = 100.0 * trained as f64 / all as f64;
        Ok(journal.info(format!("{trained} of {all} parameters are trained ({share:.2} %)"))?)
    }

    fn report(
        &self,
        journal: &Journal,
        report: &weights::LoadReport,
        start: Instant,
    ) -> RunResult<()> {
        if !report.missing.is_empty() {
            let message = format!(
                "the weights lack {}; they start with random values",
                report.missing.join(", ")
            );
            journal.warn("WEIGHTS_MISSING", message)?;
        }
        if !report.mismatched.is_empty() {
            let message = format!(
                "the weights have {} in other shapes; they begin with random values",
                report.mismatched.join(", ")
            );
            journal.warn("WEIGHTS_MISMATCHED", message)?;
        }
        let specs = self.model.parameters();
        let initialized =
            report.initialized.iter().chain(&report.missing).chain(&report.mismatched);
        let initialized = initialized.cloned().collect();
        Ok(journal.record(Kind::ModelLoaded(ModelLoaded {
            model_type: self.model.config().model_type()?.to_owned(),
            parameters: specs.iter().map(|spec| spec.shape.element_count() as u64).sum(),
            initialized,
            unexpected: report.unexpected.clone(),
            seconds: start.elapsed().as_secs_f64(),
        }))?)
    }
}
