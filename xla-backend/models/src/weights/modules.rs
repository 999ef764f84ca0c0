//! Modules beside a model, whose weights stand in folders of their own: below such a folder's name in the parameters'
//! names, and without it in its files.

use std::path::{Path, PathBuf};

use crate::config::{GENERATOR, ModelConfig};
use crate::parameters::ParameterSpec;
use crate::sentence;

/// The folder of the module that has a parameter, where it is not the model itself.
pub(super) fn module_of(parameter: &str) -> Option<&str> {
    let (folder, _) = parameter.split_once('.')?;
    if folder == GENERATOR { Some(folder) } else { sentence::module_of(parameter) }
}

/// The folder with the weights of a module of the model in `folder`.
pub(super) fn folder_of(module: &str, folder: &Path, config: &ModelConfig) -> PathBuf {
    let own = config.generator_config().filter(|_| module == GENERATOR);
    let named = own.and_then(|config| config.path().parent());
    named.map_or_else(|| folder.join(module), Path::to_owned)
}

/// The modules that have a parameter, with its name there: its own, and those with a parameter that is tied to it.
pub(super) fn places_of(spec: &ParameterSpec) -> Vec<(Option<&str>, String)> {
    let mut places: Vec<(Option<&str>, String)> = Vec::new();
    for name in std::iter::once(&spec.name).chain(&spec.tied) {
        let module = module_of(name);
        // Other names in the same module are never saved.
        if places.iter().all(|(known, _)| *known != module) {
            let below = module.and_then(|module| name.strip_prefix(module)?.strip_prefix('.'));
            places.push((module, below.unwrap_or(name).to_owned()));
        }
    }
    places
}
