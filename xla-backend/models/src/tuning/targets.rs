//! The linear layers of a model that get an adapter, chosen by PEFT's rules.

use std::collections::BTreeSet;
use std::ops::Range;

use super::lora_config::{Lora, TargetModules};
use super::module_names::ModuleNames;
use super::nearest;
use crate::error::{Error, Result};
use crate::parameters::{ParameterSpec, Partition, Role};

const FIELD: &str = "peft.target_modules";
const WEIGHT: &str = ".weight";

/// A linear layer: its path, as a module too, and its matrix in weight files.
pub(super) struct Target<'a> {
    /// The path of the matrix, the last part of which is the module's name where the matrix is of several.
    pub path: String,
    module: String,
    pub weight: &'a ParameterSpec,
    /// The run of the matrix's rows that is the layer's, where it has not all of them.
    pub run: Option<Run>,
}

/// One of several equal runs of a matrix's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub index: usize,
    pub count: usize,
}

impl Run {
    /// The part of `size` elements that is the run's.
    pub(super) fn of(self, size: usize) -> Range<usize> {
        let width = size / self.count;
        self.index * width..(self.index + 1) * width
    }
}

impl Target<'_> {
    /// Returns whether the path of the module, or that of the matrix, is `name` or ends with it behind a dot.
    fn is_named(&self, name: &str) -> bool {
        let matrix = self.weight.name.strip_suffix(WEIGHT).unwrap_or_default();
        [&self.module, self.path.as_str(), matrix].iter().any(|path| is_suffix(path, name))
    }

    /// The outputs of the layer.
    pub(super) fn outputs(&self, whole: usize) -> usize {
        self.run.map_or(whole, |run| whole / run.count)
    }

    /// The division of the layer's outputs over cores.
    pub(super) fn output_partition(&self, whole: Partition) -> Partition {
        self.run.map_or(whole, |run| whole.of_projection(run.index))
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
    matrices.flat_map(move |weight| targets_of(weight, module_names))
}

/// The layers that have the rows of one matrix.
fn targets_of(weight: &ParameterSpec, module_names: ModuleNames) -> Vec<Target<'_>> {
    let Some(matrix) = weight.name.strip_suffix(WEIGHT) else { return Vec::new() };
    let target =
        |path: String, run| Target { module: module_names.module(&path), path, weight, run };
    let modules = module_names.modules_of(matrix);
    if modules.is_empty() {
        return vec![target(matrix.to_owned(), None)];
    }
    let parent = matrix.rsplit_once('.').map_or("", |(parent, _)| parent);
    let runs = (0..).map(|index| Some(Run { index, count: modules.len() }));
    let modules = modules.iter().zip(runs);
    modules.map(|(module, run)| target(format!("{parent}.{module}"), run)).collect()
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
