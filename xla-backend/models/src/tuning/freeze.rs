//! Freezing parameters by name.

use super::nearest;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::parameters::ParameterSpec;

const FIELD: &str = "train.freeze";

/// Freezes the parameters whose names have one of `entries`: a run of whole dotted parts, such as
/// `embeddings`, `encoder.layer.0` or a full name. An entry without a match is an error, and so is
/// a model with nothing left to train.
pub fn freeze(model: &mut Model, entries: &[String]) -> Result<()> {
    let mut specs = model.parameters().to_vec();
    for entry in entries {
        let mut matched = specs.iter_mut().filter(|spec| is_named(spec, entry)).peekable();
        if matched.peek().is_none() {
            let nearest = nearest_run(&specs, entry);
            return Err(Error::NoSuchModule { field: FIELD, name: entry.clone(), nearest });
        }
        matched.for_each(|spec| spec.trainable = false);
    }
    if specs.iter().all(|spec| !spec.trainable) {
        return Err(Error::NothingToTrain { field: FIELD });
    }
    let adapters = model.adapters().clone();
    model.tune(specs, adapters);
    Ok(())
}

/// A parameter that an entry freezes only because it is tied to one that the entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrozenByTie<'a> {
    /// The entry.
    pub entry: &'a str,
    /// The name of the parameter.
    pub parameter: &'a str,
    /// The name that the parameter has too, which the entry names.
    pub alias: &'a str,
}

/// The parameters that `entries` freeze only because they are tied to one that an entry names.
pub fn frozen_by_tie<'a>(
    model: &'a Model,
    entries: &'a [String],
) -> impl Iterator<Item = FrozenByTie<'a>> {
    entries.iter().flat_map(move |entry| {
        let others = model.parameters().iter().filter(|spec| !has_run(&spec.name, entry));
        others.filter_map(move |spec| {
            let alias = spec.tied.iter().find(|name| has_run(name, entry))?;
            Some(FrozenByTie { entry, parameter: &spec.name, alias })
        })
    })
}

fn is_named(spec: &ParameterSpec, entry: &str) -> bool {
    std::iter::once(&spec.name).chain(&spec.tied).any(|name| has_run(name, entry))
}

/// Returns whether the dotted parts of `run` stand one behind the other in `name`.
fn has_run(name: &str, run: &str) -> bool {
    format!(".{name}.").contains(&format!(".{run}."))
}

/// The run of as many parts as `entry` has that is most similar to it.
fn nearest_run(specs: &[ParameterSpec], entry: &str) -> Option<String> {
    let length = entry.split('.').count();
    let runs: Vec<String> = specs
        .iter()
        .flat_map(|spec| {
            let parts: Vec<&str> = spec.name.split('.').collect();
            parts.windows(length).map(|run| run.join(".")).collect::<Vec<_>>()
        })
        .collect();
    nearest(entry, runs.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Map;

    use super::*;
    use crate::{ModelConfig, Task, registry};

    /// The embedding of T5 is `encoder.embed_tokens` and `decoder.embed_tokens` too.
    #[test]
    fn parameters_that_are_frozen_by_a_tie_are_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/t5-seq2seq-lm");
        let config = ModelConfig::load(&folder, &Map::new()).unwrap();
        let mut model = registry::build(config, Task::Seq2SeqLm).unwrap();
        let entries = ["encoder", "shared"].map(str::to_owned);
        freeze(&mut model, &entries).unwrap();
        let found: Vec<_> = frozen_by_tie(&model, &entries).collect();
        let (entry, parameter) = ("encoder", "shared.weight");
        assert_eq!(found, [FrozenByTie { entry, parameter, alias: "encoder.embed_tokens.weight" }]);
        assert!(
            model.parameters().iter().all(|spec| spec.name != "shared.weight" || !spec.trainable)
        );
    }

    #[test]
    fn an_entry_is_a_run_of_whole_parts() {
        let name = "bert.encoder.layer.1.output.dense.weight";
        for run in ["bert", "encoder.layer.1", "weight", "output.dense", name] {
            assert!(has_run(name, run), "{run}");
        }
        for run in ["ber", "layer.11", "layer", "encoder.layer.10", "dense.bias", "encoder.1"] {
            assert_eq!(has_run(name, run), run == "layer", "{run}");
        }
    }
}
