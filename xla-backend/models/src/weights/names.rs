//! Which stored tensor is which parameter: by name, with the differences that
//! transformers bridges. A checkpoint of the base model lacks the prefix that
//! models with a head give it, and the other way round; old ones call the
//! scale and shift of a layer norm `gamma` and `beta`. A parameter that has a
//! tied twin may be stored under either name, or both.

use std::collections::{BTreeSet, HashMap};

use super::modules::module_of;
use crate::model::Model;
use crate::parameters::ParameterSpec;

/// Tensors that old versions of transformers stored and no model reads.
const IGNORED_SUFFIXES: &[&str] = &[
    "position_ids",
    ".attn.bias",
    ".attn.masked_bias",
    ".EncDecAttention.relative_attention_bias.weight",
];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// The stored name of each parameter, in the parameters' order.
    pub stored: Vec<Option<String>>,
    /// Stored tensors that are no parameter's, sorted.
    pub unexpected: Vec<String>,
}

pub(super) fn match_names(specs: &[ParameterSpec], stored: &[&str], prefix: &str) -> Matched {
    let by_name: HashMap<String, &str> = stored.iter().map(|name| (modern(name), *name)).collect();
    let found: Vec<Option<&str>> = specs
        .iter()
        .map(|spec| {
            let tied = spec.tied.iter().flat_map(|name| candidates(name, prefix));
            let mut names = candidates(&spec.name, prefix).into_iter().chain(tied);
            names.find_map(|name| by_name.get(&name).copied())
        })
        .collect();
    let used: BTreeSet<&str> = found.iter().flatten().copied().collect();
    let all: BTreeSet<&str> = stored.iter().copied().collect();
    let unexpected =
        all.difference(&used).filter(|name| !is_ignored(name) && !is_tied(specs, name));
    Matched {
        unexpected: unexpected.map(|name| (*name).to_owned()).collect(),
        stored: found.into_iter().map(|name| name.map(str::to_owned)).collect(),
    }
}

fn is_ignored(stored: &str) -> bool {
    IGNORED_SUFFIXES.iter().any(|suffix| stored.ends_with(suffix))
}

/// Returns whether a stored tensor is the other name of a tied parameter.
fn is_tied(specs: &[ParameterSpec], stored: &str) -> bool {
    let name = modern(stored);
    specs.iter().any(|spec| spec.tied.contains(&name))
}

/// The rest of `name` below the module `prefix`.
pub(super) fn strip<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_prefix('.')
}

/// Returns whether the parameter `name` belongs to the base of a model, not to its head. A model that is itself a base
/// has no head but a pooler.
pub(super) fn is_of_base(model: &Model, name: &str) -> bool {
    if module_of(name).is_some() {
        return false;
    }
    let is_below = |name: &str| strip(name, model.base_model_prefix()).is_some();
    let has_head = || model.parameters().iter().any(|spec| is_below(&spec.name));
    is_below(name) || !(name.starts_with("pooler.") || has_head())
}

/// The names that a parameter may be stored under, best first.
fn candidates(name: &str, prefix: &str) -> [String; 2] {
    let other = match strip(name, prefix) {
        Some(base) => base.to_owned(),
        None => format!("{prefix}.{name}"),
    };
    [name.to_owned(), other]
}

fn modern(name: &str) -> String {
    name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
}

#[cfg(test)]
mod tests {
    use traind_xla::{DType, Shape};

    use super::*;
    use crate::parameters::{Init, PartialGradient, Partition, Role, Stage};

    fn check(parameters: &[&str], stored: &[&str], expect: &[Option<&str>], unexpected: &[&str]) {
        let shape = Shape::new(DType::F32, [1]);
        let spec = |name: &&str| ParameterSpec {
            name: (*name).to_owned(),
            shape: shape.clone(),
            init: Init::Zeros,
            role: Role::Bias,
            trainable: true,
            partitions: vec![Partition::Replicated],
            partial_gradient: PartialGradient::Never,
            stages: vec![Stage::Head],
            tied: name.ends_with("words").then(|| "decoder".to_owned()).into_iter().collect(),
        };
        let specs: Vec<ParameterSpec> = parameters.iter().map(spec).collect();
        let matched = match_names(&specs, stored, "bert");
        let found: Vec<Option<&str>> = matched.stored.iter().map(Option::as_deref).collect();
        assert_eq!(found, expect);
        assert_eq!(matched.unexpected, unexpected);
    }

    #[test]
    fn prefixes_are_added_and_removed() {
        check(&["bert.a", "classifier.b"], &["a"], &[Some("a"), None], &[]);
        check(&["a"], &["bert.a", "classifier.b"], &[Some("bert.a")], &["classifier.b"]);
    }

    #[test]
    fn the_exact_name_wins() {
        check(&["bert.a"], &["a", "bert.a"], &[Some("bert.a")], &["a"]);
    }

    #[test]
    fn old_layer_norms_and_buffers_are_known() {
        check(
            &["bert.LayerNorm.weight", "bert.LayerNorm.bias"],
            &["bert.LayerNorm.gamma", "bert.LayerNorm.beta", "bert.embeddings.position_ids"],
            &[Some("bert.LayerNorm.gamma"), Some("bert.LayerNorm.beta")],
            &[],
        );
    }

    #[test]
    fn a_tied_twin_stands_in_and_is_never_unexpected() {
        check(&["bert.words"], &["decoder"], &[Some("decoder")], &[]);
        check(&["bert.words"], &["decoder", "words"], &[Some("words")], &[]);
    }

    #[test]
    fn causal_masks_of_old_checkpoints_are_known() {
        check(&["bert.a"], &["h.0.attn.bias", "h.0.attn.masked_bias"], &[None], &[]);
    }

    #[test]
    fn a_prefix_ends_at_a_dot() {
        check(&["bert.a"], &["berta"], &[None], &["berta"]);
    }
}
