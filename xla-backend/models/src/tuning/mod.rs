//! The parts of a model that are trained: all of it, all but parameters that are frozen, or adapters beside
//! frozen weights. [`ParameterSpec::trainable`](crate::ParameterSpec) is decided here and nowhere
//! else, after a family has built its model.

mod adapter_files;
mod adapter_keys;
mod adapters;
mod dtype;
mod freeze;
mod lora;
mod lora_config;
mod merge;
mod module_names;
mod targets;
mod token_rows;

pub use traind_choices::PeftBias;

pub use adapter_files::{
    check_adapter, load_adapter, load_lora, load_lora_of, put_adapter, save_adapter,
    save_adapter_with_generator,
};
pub use adapters::Adapters;
pub(crate) use adapters::{Applied, LayerParts};
pub use dtype::store_frozen_as;
pub use freeze::{FrozenByTie, freeze, frozen_by_tie};
pub use lora::add_lora;
pub use lora_config::{Lora, TargetModules};
pub use merge::{initialize_adapters, merged};
pub use token_rows::TokenIndices;

/// The whole dotted parts of a name from its first one on: `a.b.c` gives `a`, `a.b` and `a.b.c`.
fn beginnings(name: &str) -> impl Iterator<Item = &str> {
    let dots = name.match_indices('.').map(|(at, _)| &name[..at]);
    dots.chain(std::iter::once(name))
}

/// The one of `known` that `name` most likely stands for.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const SIMILARITY_MIN: f64 = 0.5;
    let scored =
        known.into_iter().map(|known| (strsim::normalized_damerau_levenshtein(name, known), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= SIMILARITY_MIN).then(|| best.1.to_owned())
}
