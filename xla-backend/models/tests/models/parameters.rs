//! Roles and partitions: what the fixtures' parameters are, and how they may be divided.

use std::collections::{BTreeMap, BTreeSet};

use traind_models::{ParameterSpec, Partition, Role, registry};

use crate::fixture::{config_of, folder_of};
use crate::fixtures::FIXTURES;

/// The names of the parameters that the Trainer decays, by fixture.
pub(crate) fn decayed() -> BTreeMap<String, BTreeSet<String>> {
    serde_json::from_slice(&std::fs::read(folder_of("decayed.json")).unwrap()).unwrap()
}

/// Names decide as well: T5's `relative_attention_bias` is an embedding, and its name that of a bias.
#[test]
fn the_trainer_decays_the_same_parameters() {
    let expected = decayed();
    for (folder, task) in FIXTURES {
        let model = registry::build(config_of(&folder_of(folder), *task), *task).unwrap();
        let decayed =
            model.parameters().iter().filter(|spec| spec.trainable && spec.weight_decay());
        let names: BTreeSet<String> = decayed.map(|spec| spec.name.clone()).collect();
        assert_eq!(names, expected[*folder], "{folder}");
    }
}

fn parameters() -> impl Iterator<Item = ParameterSpec> {
    FIXTURES.iter().flat_map(|(folder, task)| {
        let config = config_of(&folder_of(folder), *task);
        registry::build(config, *task).unwrap().parameters().to_vec()
    })
}

/// Transformers leaves these modules out of `floating_point_ops`.
#[test]
fn embeddings_are_those_of_transformers() {
    for spec in parameters() {
        let module = spec.name.strip_suffix(".weight").unwrap_or_default();
        let module = module.rsplit('.').next().unwrap();
        let expect = module.ends_with("_embeddings") || EMBEDDINGS.contains(&module);
        assert_eq!(spec.role == Role::Embedding, expect, "{}", spec.name);
    }
}

/// Modules that are `nn.Embedding` in transformers, besides those whose names end with `_embeddings`.
const EMBEDDINGS: [&str; 6] =
    ["embed_positions", "embed_tokens", "relative_attention_bias", "shared", "wpe", "wte"];

/// The dimension of a parameter that is divided, by the suffix of its name.
#[rustfmt::skip]
const DIVIDED: &[(&str, usize, Partition)] = &[
    ("word_embeddings.weight", 0, Partition::Vocabulary),
    ("cls.predictions.bias", 0, Partition::Vocabulary),
    ("self.query.weight", 0, heads(2, 1)),
    ("self.query.bias", 0, heads(2, 1)),
    ("attention.output.dense.weight", 1, heads(2, 1)),
    ("attention.out_lin.weight", 1, heads(2, 1)),
    ("intermediate.dense.weight", 0, features(1)),
    ("intermediate.dense.bias", 0, features(1)),
    (".lin2.weight", 1, features(1)),
    ("attn.c_attn.weight", 1, heads(2, 3)),
    ("attn.c_attn.bias", 0, heads(2, 3)),
    ("attn.c_proj.weight", 0, heads(2, 1)),
    ("mlp.c_fc.weight", 1, features(1)),
    ("mlp.c_proj.weight", 0, features(1)),
    ("wte.weight", 0, Partition::Vocabulary),
    ("lm_head.weight", 0, Partition::Vocabulary),
    ("embed_tokens.weight", 0, Partition::Vocabulary),
    ("self_attn.q_proj.weight", 0, heads(4, 1)),
    ("self_attn.o_proj.weight", 1, heads(4, 1)),
    ("attention.o_proj.weight", 1, heads(2, 1)),
    ("gate_up_proj.weight", 0, features(2)),
    ("Wi.weight", 0, features(2)),
    ("mlp.Wo.weight", 1, features(1)),
    ("attn.Wo.weight", 1, heads(2, 1)),
    (".gate_proj.weight", 0, features(1)),
    ("up_gate_proj.weight", 0, features(2)),
    (".up_proj.weight", 0, features(1)),
    ("down_proj.weight", 1, features(1)),
];

const fn features(projections: usize) -> Partition {
    Partition::Features { projections }
}

const fn heads(num_heads: usize, projections: usize) -> Partition {
    Partition::Heads { num_heads, projections }
}

#[test]
fn at_most_one_dimension_is_divided() {
    let specs: Vec<ParameterSpec> = parameters().collect();
    for spec in &specs {
        assert_eq!(spec.partitions.len(), spec.shape.rank(), "{}", spec.name);
        let divided = spec.partitions.iter().filter(|it| **it != Partition::Replicated);
        assert!(divided.count() <= 1, "{}", spec.name);
        // Only the norms of all heads together have parts of them (OLMo 2).
        let of_heads = ["q_norm.weight", "k_norm.weight"].iter().any(|it| spec.name.ends_with(it));
        let is_norm = spec.role == Role::Norm && !of_heads;
        let whole = spec.name.ends_with("output.dense.bias") || is_norm;
        assert!(!whole || spec.partitions == [Partition::Replicated], "{}", spec.name);
    }
    for (suffix, dimension, partition) in DIVIDED {
        // Encoder-decoders share names with decoders, and have other numbers of heads.
        let is_decoders = |spec: &&ParameterSpec| !spec.name.contains("coder.layers.");
        let named = specs.iter().filter(|spec| spec.name.ends_with(suffix));
        let mut named = named.filter(is_decoders).peekable();
        assert!(named.peek().is_some(), "{suffix}");
        for spec in named {
            assert_eq!(spec.partitions[*dimension], *partition, "{}", spec.name);
        }
    }
}
