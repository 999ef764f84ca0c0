//! Hyperparameters of SageMaker's estimator, alone or in the description of a training job.

mod description;
mod distribution;
mod instances;

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::rule::{Rule, Table, apply};
use crate::sources::examples;
use crate::values::{is_off, plain, shown};

const CONTAINER: &str = "it says where SageMaker's container has its folders";
const LAUNCHER: &str = "no script is launched";

/// Names that the scripts of notebooks have, and SageMaker's own.
const TABLE: Table = &[
    ("epochs", Rule::Field("train.num_train_epochs")),
    ("num_epochs", Rule::Field("train.num_train_epochs")),
    ("train_batch_size", Rule::Field("train.per_device_train_batch_size")),
    ("batch_size", Rule::Field("train.per_device_train_batch_size")),
    ("eval_batch_size", Rule::Field("train.per_device_eval_batch_size")),
    ("lr", Rule::Field("train.learning_rate")),
    ("model_name", Rule::Field("model.name_or_path")),
    ("model_id", Rule::Field("model.name_or_path")),
    ("num_labels", Rule::Field("model.num_labels")),
    ("task", Rule::Field("model.task")),
    ("strategy", Rule::Own),
    ("steps", Rule::Own),
    ("hub_token", Rule::Dropped("the daemon's HF_TOKEN is used")),
    ("output_dir", Rule::Own),
    ("model_dir", Rule::Dropped(CONTAINER)),
    ("output_data_dir", Rule::Dropped(CONTAINER)),
    ("sagemaker_program", Rule::Own),
    ("sagemaker_submit_directory", Rule::Dropped(LAUNCHER)),
    ("sagemaker_container_log_level", Rule::Dropped(LAUNCHER)),
    ("sagemaker_job_name", Rule::Field("name")),
    ("sagemaker_region", Rule::Dropped(LAUNCHER)),
    (
        "sagemaker_distributed_dataparallel_enabled",
        Rule::Dropped("jobs are data-parallel over their cores"),
    ),
    (
        "sagemaker_torch_distributed_enabled",
        Rule::Dropped("jobs are data-parallel over their cores"),
    ),
    ("mp_parameters", Rule::Own),
    ("sagemaker_mpi_num_of_processes_per_host", Rule::Own),
    ("sagemaker_mpi_enabled", Rule::Dropped(LAUNCHER)),
    ("sagemaker_mpi_custom_mpi_options", Rule::Dropped(LAUNCHER)),
    ("sagemaker_distributed_dataparallel_custom_mpi_options", Rule::Dropped(LAUNCHER)),
    (
        "sagemaker_instance_type",
        Rule::Dropped("resources.platform and resources.cores say what to train on"),
    ),
];

pub(crate) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let inner = settings.get("hyperparameters").or_else(|| settings.get("HyperParameters"));
    let parameters = inner.and_then(Value::as_object).unwrap_or(settings);
    let entry_point = settings.get("entry_point").filter(|_| inner.is_some());
    let program = parameters.get("sagemaker_program").or(entry_point).cloned().unwrap_or_default();
    let script = examples::script_of(&shown(&unquoted(&program)));
    if let Some(script) = script {
        if let Some(sentence) = script.unsupported {
            draft.refuse("sagemaker_program", sentence);
        } else {
            draft.imply("model.task", script.task);
        }
    } else if entry_point.is_some() {
        draft.note("entry_point", "dropped: no script is run; model.task says what is trained");
    }
    if let Some(folder) = parameters.get("output_dir").map(unquoted) {
        // The container's folder is none of the daemon's host.
        if shown(&folder).starts_with("/opt/ml") {
            draft.note("output_dir", format!("dropped: {CONTAINER}"));
        } else {
            draft.set("output_dir", folder, "output_dir");
        }
    }
    let distribution = settings.get("distribution").filter(|_| inner.is_some());
    distribution::read(distribution.unwrap_or(&Value::Null), draft);
    distribution::read_parameters(parameters, draft);
    read_buckets(settings, draft);
    let channels = if inner.is_some() { description::channels(settings) } else { Vec::new() };
    let names_files =
        parameters.values().any(|value| channel_file(&unquoted(value), &channels).is_some());
    if inner.is_some() {
        description::read(settings, draft);
    }
    for (key, value) in parameters {
        let mut value = plain(&unquoted(value));
        if let Some(file) = channel_file(&value, &channels) {
            value = file.into();
        } else if shown(&value).starts_with("/opt/ml/input/data/") {
            let advice = format!(
                "{} is a folder of SageMaker's container; give data.train and \
                data.validation by --set",
                shown(&value)
            );
            if !gives_data(draft) {
                draft.refuse(key, advice);
            }
            continue;
        }
        rhythm(key, &value, draft);
        let own = script.map_or(&[][..], examples::Script::arguments);
        apply(&[TABLE, own, examples::MODEL, examples::DATA], key, &value, draft);
    }
    if !names_files && draft.get("data.train").is_none() && !parameters.contains_key("dataset_name")
    {
        description::splits(&channels, draft);
    }
    let plain: Map<String, Value> =
        parameters.iter().map(|(key, value)| (key.clone(), plain(&unquoted(value)))).collect();
    match script {
        Some(script) if script.unsupported.is_some() => {}
        Some(script) => script.read_together(&plain, draft),
        None => examples::read_other(&plain, draft),
    }
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

/// Reads where a training job's description has its output and its checkpoints.
fn read_buckets(settings: &Map<String, Value>, draft: &mut Draft) {
    let text = |pointer: [&str; 2]| settings.get(pointer[0])?.get(pointer[1])?.as_str();
    let argument = |name: &str| settings.get(name).and_then(Value::as_str);
    let output = ["OutputDataConfig", "S3OutputPath"];
    if let (Some(url), None) = (text(output).or(argument("output_path")), draft.get("output_dir")) {
        let name = argument("TrainingJobName").or(argument("base_job_name")).unwrap_or("output");
        let folder = format!("{}/{name}", url.trim_end_matches('/'));
        draft.set("output_dir", folder.into(), &output.join("."));
    }
    let checkpoints = ["CheckpointConfig", "S3Uri"];
    if let Some(url) = text(checkpoints).or(argument("checkpoint_s3_uri")) {
        draft.set("checkpoint_dir", url.into(), &checkpoints.join("."));
        draft.set("train.resume_from_checkpoint", "auto".into(), &checkpoints.join("."));
    }
}

/// The address of a file that the container would find in the folder of a channel.
fn channel_file(value: &Value, channels: &[(String, String)]) -> Option<String> {
    let rest = value.as_str()?.strip_prefix("/opt/ml/input/data/")?;
    let (name, file) = rest.split_once('/').unwrap_or((rest, ""));
    let (_, url) = channels.iter().find(|(channel, _)| channel == name)?;
    Some(if file.is_empty() { url.clone() } else { format!("{url}/{file}") })
}

fn gives_data(draft: &Draft) -> bool {
    draft.get("data.train").is_some()
}

/// SageMaker hands hyperparameters to its service as JSON in text.
fn unquoted(value: &Value) -> Value {
    let inner = value.as_str().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    inner.map_or_else(|| value.clone(), Value::from)
}
