//! The linear layers of a model that get an adapter, chosen by PEFT's rules.

use std::collections::BTreeSet;

use super::lora::{Lora, TargetModules};
use super::nearest;
use crate::error::{Error, Result};
use crate::parameters::{ParameterSpec, Partition, Role, Stage};

const FIELD: &str = "peft.target_modules";
const WEIGHT: &str = ".weight";

/// A linear layer: its path and its matrix.
pub(super) struct Target<'a> {
    pub module: &'a str,
    pub weight: &'a ParameterSpec,
}

/// The targets of `lora` in the order of the parameters. Modules that are trained whole have no
/// adapters.
pub(super) fn targets<'a>(specs: &'a [ParameterSpec], lora: &Lora) -> Result<Vec<Target<'a>>> {
    let named = match &lora.target_modules {
        TargetModules::Named(names) => Some(names.as_slice()),
        TargetModules::AllLinear => None,
    };
    check_names(specs, lora, named.unwrap_or_default())?;
    let is_target = |target: &Target<'_>| match named {
        Some(names) => names.iter().any(|name| is_suffix(target.module, name)),
        None => !is_vocabulary(target.weight),
    };
    let targets: Vec<Target<'_>> = linear_layers(specs)
        .filter(|target| !target.weight.trainable)
        .filter(|target| is_in_layers(target.weight, lora.layers_to_transform.as_deref()))
        .filter(is_target)
        .collect();
    match targets.is_empty() {
        true => Err(Error::NothingToTrain { field: FIELD }),
        false => Ok(targets),
    }
}

fn linear_layers(specs: &[ParameterSpec]) -> impl Iterator<Item = Target<'_>> {
    let matrices = specs.iter().filter(|spec| is_matrix(spec));
    matrices.filter_map(|weight| {
        let module = weight.name.strip_suffix(WEIGHT)?;
        Some(Target { module, weight })
    })
}

fn is_matrix(spec: &ParameterSpec) -> bool {
    matches!(spec.role, Role::Projection | Role::TransposedProjection) && spec.shape.rank() == 2
}

/// A name without any linear layer is a slip, or an embedding, whose adapters are not supported.
fn check_names(specs: &[ParameterSpec], lora: &Lora, names: &[String]) -> Result<()> {
    let is_known = |name: &String| linear_layers(specs).any(|layer| is_suffix(layer.module, name));
    match names.iter().find(|name| !is_known(name)) {
        None => check_layers(specs, lora),
        Some(name) => {
            let last = |layer: Target<'_>| layer.module.rsplit('.').next().map(str::to_owned);
            let known: BTreeSet<String> = linear_layers(specs).filter_map(last).collect();
            let nearest = nearest(name, known.iter().map(String::as_str));
            Err(Error::NoSuchModule { field: FIELD, name: name.clone(), nearest })
        }
    }
}

fn check_layers(specs: &[ParameterSpec], lora: &Lora) -> Result<()> {
    let layers = lora.layers_to_transform.iter().flatten();
    for layer in layers {
        if !specs.iter().any(|spec| spec.stages.contains(&Stage::Layer(*layer))) {
            let (field, name) = ("peft.layers_to_transform", layer.to_string());
            return Err(Error::NoSuchModule { field, name, nearest: None });
        }
    }
    Ok(())
}

/// Returns whether `module` is called `name`, or ends with it behind a dot.
fn is_suffix(module: &str, name: &str) -> bool {
    module.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_in_layers(weight: &ParameterSpec, layers: Option<&[usize]>) -> bool {
    layers.is_none_or(|layers| {
        layers.iter().any(|layer| weight.stages.contains(&Stage::Layer(*layer)))
    })
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
