//! Keys that sentence-transformers adds to TrainingArguments, and those of its losses, which a script's file may have.

use serde_json::{Map, Value, json};

use crate::draft::Draft;
use crate::rule::{Rule, Table, ValueProblem};

const SCALES: &str = "losses that compare rows compare those of all cores in any case, as with gather_across_devices";

pub(super) const TABLE: Table = &[
    ("batch_sampler", Rule::Own),
    ("multi_dataset_batch_sampler", Rule::Own),
    ("prompts", Rule::Changed("data.prompts", prompts, "")),
    (
        "router_mapping",
        Rule::Refused("a job trains one model for all columns; a Router has one for each"),
    ),
    (
        "learning_rate_mapping",
        Rule::Changed(
            "train.param_groups",
            groups,
            "train.param_groups, whose patterns are found in transformers' names of parameters",
        ),
    ),
    ("directions", Rule::Field("embedding.directions")),
    ("partition_mode", Rule::Field("embedding.partition_mode")),
    ("hardness_mode", Rule::Field("embedding.hardness_mode")),
    ("hardness_strength", Rule::Field("embedding.hardness_strength")),
    ("gather_across_devices", Rule::Dropped(SCALES)),
];

/// Reads the samplers, whose defaults say nothing.
pub(super) fn read_samplers(settings: &Map<String, Value>, draft: &mut Draft) {
    const SAMPLER: &str = "batch_sampler";
    const SETS: &str = "multi_dataset_batch_sampler";
    match settings.get(SAMPLER).and_then(Value::as_str) {
        None | Some("batch_sampler") => {}
        Some("no_duplicates_hashed") => {
            draft.note(SAMPLER, "no_duplicates, which makes the same batches");
            draft.set("embedding.batch_sampler", "no_duplicates".into(), SAMPLER);
        }
        Some(other) => draft.set("embedding.batch_sampler", other.into(), SAMPLER),
    }
    match settings.get(SETS).and_then(Value::as_str) {
        None => {}
        Some("proportional") => {
            draft.note(
                SETS,
                "dropped: one data set needs none; several take data.mixing: proportional",
            );
        }
        Some(other) => draft.set("data.mixing", other.into(), SETS),
    }
}

/// Prompts by column. They may also be one text for all columns, or have those of each data set.
fn prompts(value: &Value) -> Result<Value, ValueProblem> {
    let is_by_column = |prompts: &Map<String, Value>| prompts.values().all(Value::is_string);
    match value {
        Value::Object(prompts) if is_by_column(prompts) => Ok(value.clone()),
        _ => Err(ValueProblem::NoPrompts),
    }
}

/// The last pattern that fits a parameter counts, and of groups the first.
fn groups(value: &Value) -> Result<Value, ValueProblem> {
    let rates = value.as_object().ok_or(ValueProblem::NoRates)?;
    let groups = rates.iter().rev();
    Ok(groups.map(|(pattern, rate)| json!({"match": pattern, "learning_rate": rate})).collect())
}
