//! Hyperparameters of SageMaker's estimator, alone or in the description of a training job, as the
//! estimator in Python reads them.

mod channels;
mod description;
mod distribution;
mod instances;

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{Table, is_field};
use crate::shared::{Keys, TABLES, plain_of};
use crate::sources::examples::{self, Script};
use crate::values::{is_off, shown};
use channels::Channels;

const CONTAINER: &str = "it says where SageMaker's container has its folders";

/// The hyperparameter with which the service hands a job's name to the container.
const JOB_NAME: &str = "sagemaker_job_name";

/// Names that the scripts of notebooks have, and SageMaker's own.
static HYPERPARAMETERS: Keys = LazyLock::new(|| TABLES.hyperparameters.keys());

pub(crate) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let inner = settings.get("hyperparameters").or_else(|| settings.get("HyperParameters"));
    let given = inner.and_then(Value::as_object).unwrap_or(settings);
    // Null says nothing, and the service hands values over as JSON in text.
    let read = |(key, value): (&String, &Value)| (key.clone(), plain_of(key, &unquoted(value)));
    let parameters: Map<String, Value> =
        given.iter().filter(|(_, value)| !value.is_null()).map(read).collect();
    let is_whole = inner.is_some();
    let outer = if is_whole { settings.clone() } else { Map::new() };
    description::fields(&outer, draft);
    let script = script(&parameters, &outer, draft);
    output(&parameters, draft);
    distribution::read_parameters(&parameters, draft);
    distribution::read(outer.get("distribution").unwrap_or(&Value::Null), draft);
    buckets(&outer, &parameters, draft);
    let channels = Channels::of(&outer, draft);
    // A field that is named by its path comes before what the instance has.
    for path in ["resources.platform", "resources.cores"] {
        if let Some(value) = parameters.get(path) {
            draft.set(path, value.clone(), "");
        }
    }
    description::read(&outer, draft);
    distribution::shards(&parameters, &outer, draft);
    for (key, value) in &parameters {
        hyperparameter(key, value, script, &channels, draft);
    }
    if draft.get("data.train").is_none() && !parameters.contains_key("dataset_name") {
        channels.splits(draft);
    }
    match script {
        Some(script) if script.unsupported.is_some() => {}
        Some(script) => {
            script.read_together(&parameters, draft);
            script.read_phases(&parameters, draft);
        }
        None => examples::read_other(&parameters, draft),
    }
}

/// The example script that is the entry point, with the task that it trains.
fn script(
    parameters: &Map<String, Value>,
    outer: &Map<String, Value>,
    draft: &mut Draft,
) -> Option<Script> {
    let key = if parameters.contains_key("sagemaker_program") {
        "sagemaker_program"
    } else {
        "entry_point"
    };
    let program = parameters.get("sagemaker_program").or_else(|| outer.get("entry_point"))?;
    let script = examples::script_of(&shown(program));
    match script {
        Some(Script { unsupported: Some(_), .. }) if draft.get("model.task").is_some() => {
            draft.note(key, "dropped: no script is run");
            return None;
        }
        Some(Script { unsupported: Some(sentence), .. }) => draft.refuse(key, sentence),
        Some(script) => draft.imply("model.task", script.task),
        None => draft.note(key, "dropped: no script is run; model.task says what is trained"),
    }
    script
}

/// The output folder, unless it is the container's, which is none of the daemon's host.
fn output(parameters: &Map<String, Value>, draft: &mut Draft) {
    let Some(folder) = parameters.get("output_dir") else { return };
    if shown(folder).starts_with("/opt/ml") {
        draft.note("output_dir", format!("dropped: {CONTAINER}"));
    } else {
        draft.set("output_dir", folder.clone(), "output_dir");
    }
}

fn hyperparameter(
    key: &str,
    value: &Value,
    script: Option<Script>,
    channels: &Channels,
    draft: &mut Draft,
) {
    let value = match channels.file(value) {
        Some(file) => file.into(),
        None if shown(value).starts_with(channels::FOLDER) => {
            return channels::refuse_folder(key, value, draft);
        }
        None => value.clone(),
    };
    if let Some(path) = field(key) {
        return draft.set(path, value, "");
    }
    rhythm(key, &value, draft);
    let task = draft.get("model.task").map(shown).unwrap_or_default();
    let task = script.map_or(task.as_str(), |script| script.task);
    let tables: [Table; 4] =
        [&HYPERPARAMETERS, examples::of_task(task), &examples::MODEL, &examples::DATA];
    apply(&tables, key, &value, draft);
}

/// A field path as the name of a hyperparameter; entries of mappings such as `data.label_map` are theirs.
fn field(key: &str) -> Option<&str> {
    let outer = key.rsplit_once('.').map(|(outer, _)| outer);
    (outer.is_some() && (is_field(key) || outer.is_some_and(is_field))).then_some(key)
}

/// Sets the fields of `strategy` and `steps`, the names of notebooks' scripts for both evaluations and
/// checkpoints.
fn rhythm(key: &str, value: &Value, draft: &mut Draft) {
    if matches!(key, "strategy" | "steps") && !is_off(value) {
        for what in ["eval", "save"] {
            draft.set(&format!("train.{what}_{key}"), value.clone(), key);
        }
    }
}

/// Reads where a training job's description has its name, its output and its checkpoints. The name that the estimator's
/// user chose is only the beginning of the job's.
fn buckets(outer: &Map<String, Value>, parameters: &Map<String, Value>, draft: &mut Draft) {
    let text = |pointer: [&str; 2]| outer.get(pointer[0])?.get(pointer[1])?.as_str();
    let argument = |name: &str| outer.get(name).and_then(Value::as_str);
    let named = |key: &'static str| Some((key, argument(key)?));
    let of_service = || Some((JOB_NAME, parameters.get(JOB_NAME)?.as_str()?));
    let name = named("TrainingJobName").or_else(|| named("job_name")).or_else(of_service);
    let name = name.or_else(|| named("base_job_name"));
    if let (Some((key, name)), None) = (name, draft.get("name")) {
        draft.set("name", name.into(), key);
    }
    let output = ["OutputDataConfig", "S3OutputPath"];
    if let (Some(url), None) = (text(output).or(argument("output_path")), draft.get("output_dir")) {
        let name = name.map_or("output", |(_, name)| name);
        let folder = format!("{}/{name}", url.trim_end_matches('/'));
        draft.set("output_dir", folder.into(), &output.join("."));
    }
    let checkpoints = ["CheckpointConfig", "S3Uri"];
    if let Some(url) = text(checkpoints).or(argument("checkpoint_s3_uri")) {
        draft.set("checkpoint_dir", url.into(), &checkpoints.join("."));
        draft.set("train.resume_from_checkpoint", "auto".into(), &checkpoints.join("."));
    }
}

/// SageMaker hands hyperparameters to its service as JSON in text.
fn unquoted(value: &Value) -> Value {
    let inner = value.as_str().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    inner.map_or_else(|| value.clone(), Value::from)
}
