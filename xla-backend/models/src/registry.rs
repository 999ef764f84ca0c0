//! Makes the model of a `model_type` for a task. A new family is a file of `families/`
//! and a line in [`FAMILIES`].

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::families::decoders::{
    gemma, gemma2, gemma3, granite, llama, mistral, olmo2, olmo3, phi3, qwen2, qwen3, smollm3,
};
use crate::families::{
    albert, bart, bert, deberta_v2, distilbert, electra, eurobert, gpt2, gte, jina_embeddings_v3,
    modernbert, mpnet, nomic_bert, roberta, t5, vit, xlm_roberta_xl,
};
pub use crate::family::{Family, FamilyModel, tasks};
use crate::model::Model;
use crate::parameters::ParameterSpec;
use crate::tasks::Task;

/// Every family, by its file.
pub const FAMILIES: &[&dyn Family] = &[
    &bert::FAMILY,
    &distilbert::FAMILY,
    &roberta::FAMILY,
    &roberta::XLM_FAMILY,
    &xlm_roberta_xl::FAMILY,
    &modernbert::FAMILY,
    &eurobert::FAMILY,
    &electra::FAMILY,
    &mpnet::FAMILY,
    &nomic_bert::FAMILY,
    &gte::FAMILY,
    &jina_embeddings_v3::FAMILY,
    &albert::FAMILY,
    &deberta_v2::FAMILY,
    &gpt2::FAMILY,
    &llama::FAMILY,
    &mistral::FAMILY,
    &qwen2::FAMILY,
    &qwen3::FAMILY,
    &gemma::FAMILY,
    &gemma2::FAMILY,
    &gemma3::FAMILY,
    &phi3::FAMILY,
    &smollm3::FAMILY,
    &granite::FAMILY,
    &olmo2::FAMILY,
    &olmo3::FAMILY,
    &t5::FAMILY,
    &t5::MT5_FAMILY,
    &bart::FAMILY,
    &bart::MBART_FAMILY,
    &vit::FAMILY,
    &vit::DEIT_FAMILY,
];

/// Keys that a task reads, whatever the family.
const TASK_KEYS: &[&str] = &["id2label", "label2id", "num_labels", "problem_type"];

/// Builds the model of a config for a task. The model's config carries the
/// class name of that task as its architecture.
pub fn build(mut config: ModelConfig, task: Task) -> Result<Model> {
    let (_, model) = find_model(&config, task)?;
    check_quantization(&config)?;
    config.set("architectures", vec![model.architecture]);
    let model = (model.build)(config)?;
    check_parameters(&model)?;
    Ok(model)
}

/// Refuses a model of so many parameters that the sizes of its state, its activations and its operations might not fit
/// 64 bits.
fn check_parameters(model: &Model) -> Result<()> {
    const MAX: u128 = 1 << 50;
    let count = |parameter: &ParameterSpec| -> u128 {
        parameter.shape.dims.iter().map(|dim| *dim as u128).product()
    };
    let all: u128 = model.parameters().iter().map(count).sum();
    // The first of several.
    let largest = model.parameters().iter().rev().max_by_key(|parameter| count(parameter));
    match largest.filter(|_| all > MAX) {
        None => Ok(()),
        Some(it) => Err(model.config().error(
            &it.name,
            format!(
                "its shape is {:?}, and the model has {all} parameters; at most {MAX} are possible",
                it.shape.dims
            ),
        )),
    }
}

/// The length of the longest row that the model of a config for a task can read, without building
/// the model.
pub fn max_positions(config: &ModelConfig, task: Task) -> Result<usize> {
    let (family, _) = find_model(config, task)?;
    family.max_positions(config)
}

/// Finds the family and the model of a config for a task, and checks the overrides.
fn find_model(
    config: &ModelConfig,
    task: Task,
) -> Result<(&'static dyn Family, FamilyModel<'static>)> {
    let family = find(config)?;
    let model = family.model(task).ok_or_else(|| Error::UnsupportedTask {
        model_type: family.model_type().to_owned(),
        task: task.name().to_owned(),
        supported: tasks(family).flat_map(Task::objectives).collect(),
    })?;
    check_overrides(config, family)?;
    Ok((family, model))
}

fn find(config: &ModelConfig) -> Result<&'static dyn Family> {
    let model_type = config.model_type()?;
    let family = FAMILIES.iter().copied().find(|family| family.model_type() == model_type);
    family.ok_or_else(|| Error::UnknownModelType {
        path: config.path().to_owned(),
        model_type: model_type.to_owned(),
        known: FAMILIES.iter().map(|family| family.model_type()).collect(),
    })
}

/// Quantized weights are of other types, or need their scales.
fn check_quantization(config: &ModelConfig) -> Result<()> {
    const KEY: &str = "quantization_config";
    if config.keys().get(KEY).is_none_or(serde_json::Value::is_null) {
        return Ok(());
    }
    Err(config.error(KEY, "quantized weights are not read; dequantize them, and leave it out"))
}

/// An override that the file lacks and the family does not read is a slip.
fn check_overrides(config: &ModelConfig, family: &dyn Family) -> Result<()> {
    let known = || family.keys().iter().chain(TASK_KEYS);
    match config.new_keys().iter().find(|key| !known().any(|known| known == key)) {
        None => Ok(()),
        Some(key) => Err(Error::UnknownOverride {
            key: key.clone(),
            model_type: family.model_type().to_owned(),
            nearest: nearest(key, known()).map(str::to_owned),
        }),
    }
}

fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a &'static str>) -> Option<&'static str> {
    const SIMILARITY_MIN: f64 = 0.8;
    let scored = known.map(|name| (strsim::jaro_winkler(key, name), *name));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Lists outside of this package in which every family stands.
    const SCRIPTS: &[&str] = &["scripts/compare/families.py", "scripts/peers/random_model.py"];

    #[test]
    fn families_are_unique_and_have_a_model() {
        for (index, family) in FAMILIES.iter().enumerate() {
            let model_type = family.model_type();
            assert!(tasks(*family).next().is_some(), "{model_type} has no model");
            let mut others = FAMILIES[..index].iter();
            assert!(others.all(|other| other.model_type() != model_type), "{model_type} twice");
        }
    }

    /// Rows may be longer than the positions of a model without a table, as with transformers.
    #[test]
    fn rows_may_be_longer_than_the_positions_that_no_table_has() {
        let positions = |model_type: &str, task: Task, keys: serde_json::Value| {
            let mut config = serde_json::json!({
                "model_type": model_type, "max_position_embeddings": 16, "vocab_size": 12,
                "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
                "intermediate_size": 8,
            });
            let own = config.as_object_mut().unwrap();
            own.extend(keys.as_object().unwrap().clone());
            let mut config = ModelConfig::new("config.json", own.clone());
            config.ask_for_row(20);
            max_positions(&config, task).unwrap()
        };
        let decoder = |keys| positions("llama", Task::CausalLm, keys);
        assert_eq!(decoder(serde_json::json!({})), 20);
        assert_eq!(decoder(serde_json::json!({"max_position_embeddings": 32})), 32);
        let dynamic = serde_json::json!({"rope_type": "dynamic", "factor": 2.0});
        assert_eq!(decoder(serde_json::json!({"rope_scaling": dynamic})), 16);
        let encoders = [("bert", 16), ("modernbert", 20), ("nomic_bert", 20), ("deberta-v2", 20)];
        for (model_type, expect) in encoders {
            let distances = serde_json::json!({
                "relative_attention": true, "pos_att_type": "c2p", "position_biased_input": false,
            });
            assert_eq!(positions(model_type, Task::MaskedLm, distances), expect, "{model_type}");
        }
    }

    #[test]
    fn the_comparisons_know_every_family() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for script in SCRIPTS {
            let text = std::fs::read_to_string(repository.join(script)).unwrap();
            for family in FAMILIES {
                let entry = format!("\"{}\":", family.model_type());
                assert!(text.contains(&entry), "add {entry} to {script}");
            }
        }
    }
}
