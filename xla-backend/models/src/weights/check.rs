//! Checks that the weights of a folder fit a model, by their files' headers alone.

use std::path::Path;

use super::{Checkpoint, names, vocabulary};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::parameters::ParameterSpec;

/// Refuses weights that a model cannot be loaded from. Parameters that the folder lacks are drawn, so their absence is
/// no error. `is_checked` says whether a parameter must have the stored shape.
pub fn check(
    folder: &Path,
    model: &Model,
    is_checked: impl Fn(&ParameterSpec) -> bool,
) -> Result<()> {
    let checkpoint = Checkpoint::open(folder)?.with_modules(folder, model)?;
    let prefix = model.base_model_prefix();
    let matched = names::match_names(model.parameters(), &checkpoint.names(), prefix);
    for (spec, stored) in model.parameters().iter().zip(&matched.stored) {
        let Some(stored) = stored.as_deref().filter(|_| is_checked(spec)) else { continue };
        let file = checkpoint.file(stored)?;
        let stored_spec = vocabulary::stored(model.config(), spec, file.shape(stored)?);
        check_tensor(file, stored, &stored_spec)?;
    }
    Ok(())
}

/// Refuses a tensor of another shape than a parameter's, and one that holds no numbers.
pub(crate) fn check_tensor(
    file: &super::SafetensorsFile,
    name: &str,
    spec: &ParameterSpec,
) -> Result<()> {
    let found = file.shape(name)?;
    if found != spec.shape.dims {
        return Err(Error::WeightShape {
            path: file.path().to_owned(),
            tensor: name.to_owned(),
            found: found.to_vec(),
            expected: spec.shape.dims.clone(),
        });
    }
    file.check_dtype(name)
}

/// Returns whether a parameter is one of the model's head.
pub fn is_of_head(model: &Model, spec: &ParameterSpec) -> bool {
    !names::is_of_base(model, &spec.name)
}
