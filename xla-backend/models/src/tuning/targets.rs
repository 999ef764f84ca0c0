//! The linear layers of a model that get an adapter, chosen by PEFT's rules.

use std::collections::BTreeSet;

use super::lora_config::{Lora, TargetModules};
use super::module_names::ModuleNames;
use super::nearest;
use crate::error::{Error, Result};
use crate::parameters::{ParameterSpec, Partition, Role};

const FIELD: &str = "peft.target_modules";
const WEIGHT: &str = ".weight";

/// A linear layer: its path in weight files and as a module, and its matrix.
pub(super) struct Target<'a> {
    pub path: &'a str,
    module: String,
    pub weight: &'a ParameterSpec,
}

impl Target<'_> {
    /// Returns whether either path is `name`, or ends with it behind a dot.
    fn is_named(&self, name: &str) -> bool {
        is_suffix(&self.module, name) || is_suffix(self.path, name)
    }

    /// The number of the layer, which an encoder's and a decoder's layer share: as in PEFT, the first
    /// number in the module's path.
    fn layer(&self) -> Option<usize> {
        self.module.split('.').find_map(|part| part.parse().ok())
    }

    fn is_in(&self, layers: Option<&[usize]>) -> bool {
        layers.is_none_or(|layers| self.layer().is_some_and(|layer| layers.contains(&layer)))
    }
}

/// The targets of `lora` in the order of the parameters. Modules that are trained whole have no
/// adapters.
pub(super) fn targets<'a>(
    specs: &'a [ParameterSpec],
    module_names: ModuleNames,
    lora: &Lora,
) -> Result<Vec<Target<'a>>> {
    let named = match &lora.target_modules {
        TargetModules::Named(names) => Some(names.as_slice()),
        TargetModules::AllLinear => None,
    };
    let layers = || linear_layers(specs, module_names);
    check_names(specs, &layers().collect::<Vec<_>>(), named.unwrap_or_default())?;
    check_layers(&layers().collect::<Vec<_>>(), lora)?;
    let is_target = |target: &Target<'_>| match named {
        Some(names) => names.iter().any(|name| target.is_named(name)),
        None => !is_vocabulary(target.weight),
    };
    let targets: Vec<Target<'_>> = layers()
        .filter(|target| !target.weight.trainable)
        .filter(|target| target.is_in(lora.layers_to_transform.as_deref()))
        .filter(is_target)
        .collect();
    match targets.is_empty() {
        true => Err(Error::NothingToTrain { field: FIELD }),
        false => Ok(targets),
    }
}

fn linear_layers(
    specs: &[ParameterSpec],
    module_names: ModuleNames,
) -> impl Iterator<Item = Target<'_>> {
    let matrices = specs.iter().filter(|spec| is_matrix(spec));
    matrices.filter_map(move |weight| {
        let path = weight.name.strip_suffix(WEIGHT)?;
        Some(Target { path, module: module_names.module(path), weight })
    })
}

fn is_matrix(spec: &ParameterSpec) -> bool {
    matches!(spec.role, Role::Projection | Role::TransposedProjection) && spec.shape.rank() == 2
}

/// Refuses names without any linear layer: a slip, or an embedding, whose adapters are not supported.
fn check_names(specs: &[ParameterSpec], layers: &[Target<'_>], names: &[String]) -> Result<()> {
    let is_known = |name: &&String| layers.iter().any(|layer| layer.is_named(name));
    let Some(name) = names.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let mut modules = specs.iter().filter_map(|spec| spec.name.strip_suffix(WEIGHT));
    if modules.any(|module| is_suffix(module, name)) {
        return Err(Error::NotLinear { field: FIELD, name: name.clone() });
    }
    let known: BTreeSet<&str> =
        layers.iter().filter_map(|layer| layer.module.rsplit('.').next()).collect();
    let nearest = nearest(name, known);
    Err(Error::NoSuchModule { field: FIELD, name: name.clone(), nearest })
}

fn check_layers(linear: &[Target<'_>], lora: &Lora) -> Result<()> {
    let mut layers = lora.layers_to_transform.iter().flatten();
    let is_missing = |layer: &&usize| linear.iter().all(|target| target.layer() != Some(**layer));
    let Some(layer) = layers.find(is_missing) else { return Ok(()) };
    let (field, name) = ("peft.layers_to_transform", layer.to_string());
    Err(Error::NoSuchModule { field, name, nearest: None })
}

/// Returns whether `path` is `name`, or ends with it behind a dot.
pub(super) fn is_suffix(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Returns whether a layer gives the logits of tokens, which `all-linear` leaves out.
fn is_vocabulary(weight: &ParameterSpec) -> bool {
    weight.partitions.contains(&Partition::Vocabulary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_of_whole_parts() {
        for (module, name, expect) in [
            ("h.0.attn.c_attn", "c_attn", true),
            ("h.0.attn.c_attn", "attn.c_attn", true),
            ("score", "score", true),
            ("h.0.attn.c_attn", "attn", false),
        ] {
            assert_eq!(is_suffix(module, name), expect, "{module} {name}");
        }
    }
}
