//! The parameters to save, in memory or in the files of all hosts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use traind_models::weights::{ArrayParts, PartFiles};
use traind_models::{Error as ModelError, Model};
use traind_xla::runtime::HostArray;

use crate::error::RunResult;

#[derive(Debug)]
pub(crate) enum SavedParameters {
    /// By name, where this host holds all of them.
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
