//! The parameters to save, in memory or in the files of all hosts, and the files that they are saved in.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use traind_job_file::JobFile;
use traind_models::tuning::{merged, save_adapter, save_adapter_with_generator};
use traind_models::weights::{self, ArrayOf, ArrayParts, PartFiles};
use traind_models::{Error as ModelError, Model, ModelConfig, ParameterSpec};
use traind_xla::runtime::HostArray;

use super::OpenModel;
use crate::error::RunResult;

/// Writes a whole model, as [`weights::save_from`] does.
type SaveModel =
    fn(&Path, &ModelConfig, &[ParameterSpec], &ArrayOf<'_>, u64) -> Result<Vec<String>, ModelError>;

#[derive(Debug)]
pub(crate) enum SavedParameters {
    /// All parameters by name, where this host holds them.
    Whole(BTreeMap<String, HostArray>),
    /// Read when they are written, one at a time.
    Parts(PartFiles),
}

impl SavedParameters {
    /// The parameters whose parts are all of them.
    pub(crate) fn of_parts(parts: ArrayParts) -> RunResult<SavedParameters> {
        let arrays = parts.into_iter().map(|(name, part)| Ok((name, part.into_array()?)));
        arrays.collect::<RunResult<_>>().map(SavedParameters::Whole)
    }

    /// The parameter `name`.
    pub(super) fn array(&self, name: &str) -> Result<Cow<'_, HostArray>, ModelError> {
        let missing = || ModelError::MissingWeight { name: name.to_owned() };
        match self {
            SavedParameters::Whole(arrays) => {
                arrays.get(name).map(Cow::Borrowed).ok_or_else(missing)
            }
            SavedParameters::Parts(files) => files.array(name).map(Cow::Owned),
        }
    }

    /// All that are saved of `model`, in its order.
    pub(super) fn arrays(&self, model: &Model) -> Result<Vec<HostArray>, ModelError> {
        let saved = model.parameters().iter().filter(|spec| model.adapters().saves(spec));
        saved.map(|spec| self.array(&spec.name).map(Cow::into_owned)).collect()
    }
}

impl OpenModel {
    /// Writes config and weights, or adapters, into a folder, and returns the names of the files. A whole model is
    /// taken from `saved` one parameter at a time.
    pub(crate) fn save_weights(
        &self,
        folder: &Path,
        saved: &SavedParameters,
    ) -> RunResult<Vec<String>> {
        let model = self.model.as_ref();
        if model.adapters().is_empty() {
            return self.save_whole(weights::save_from, folder, saved);
        }
        let arrays = saved.arrays(model)?;
        Ok(save_adapter(folder, model, self.model_task, &self.base, &arrays)?)
    }

    /// Writes config and weights, or adapters, into the job's output, in which modules beside the model have files of
    /// their own.
    pub(crate) fn save_output(
        &self,
        folder: &Path,
        saved: &SavedParameters,
    ) -> RunResult<Vec<String>> {
        let model = self.model.as_ref();
        if model.adapters().is_empty() {
            return self.save_whole(weights::save_with_modules, folder, saved);
        }
        let (arrays, bases) = (saved.arrays(model)?, [&*self.base, &*self.generator_base]);
        Ok(save_adapter_with_generator(folder, model, self.model_task, bases, &arrays)?)
    }

    fn save_whole(
        &self,
        save: SaveModel,
        folder: &Path,
        saved: &SavedParameters,
    ) -> RunResult<Vec<String>> {
        let (config, specs) = (self.model.config(), self.model.parameters());
        let array = |place: usize| saved.array(&specs[place].name);
        Ok(save(folder, config, specs, &array, self.max_shard_bytes)?)
    }

    /// Writes a whole model with the adapters added to its weights, and returns the names of the files.
    pub(crate) fn save_merged(
        &self,
        folder: &Path,
        job: &JobFile,
        saved: &SavedParameters,
    ) -> RunResult<Vec<String>> {
        let arrays = self.complete(job, saved.arrays(self.model.as_ref())?)?;
        let (specs, arrays) = merged(self.model.as_ref(), &arrays)?;
        let (config, array) =
            (self.model.config(), |place: usize| Ok(Cow::Borrowed(&arrays[place])));
        Ok(weights::save_with_modules(folder, config, &specs, &array, self.max_shard_bytes)?)
    }
}
