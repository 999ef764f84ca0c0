//! The description of a training job, as `describe-training-job` prints it, or the estimator's
//! arguments beside its hyperparameters.

use serde_json::{Map, Value};

use super::instances;
use crate::draft::Draft;
use crate::sources::examples::LAUNCHED;
use crate::values::{is_off, shown};

const MANAGED: &str = "AWS's own record of the job";
const ACCESS: &str = "the daemon's access file and its own credentials say what a job may do";
const CONTAINER: &str = "no container and no script is run";
const PROFILE: &str = "events have the time of each part of a step";

/// Names that say nothing about training, with the reason.
const DROPPED: &[(&str, &str)] = &[
    ("AlgorithmSpecification", CONTAINER),
    ("RoleArn", ACCESS),
    ("role", ACCESS),
    ("VpcConfig", ACCESS),
    ("EnableNetworkIsolation", ACCESS),
    ("EnableInterContainerTrafficEncryption", ACCESS),
    ("source_dir", CONTAINER),
    ("git_config", CONTAINER),
    ("container_log_level", CONTAINER),
    ("checkpoint_local_path", CONTAINER),
    ("input_mode", "data are fetched once into the daemon's cache"),
    ("volume_size", "the daemon checks the room on its own disk"),
    ("keep_alive_period_in_seconds", "the daemon keeps compiled programs"),
    ("compiler_config", "every step is compiled"),
    ("disable_output_compression", "the output is a folder"),
    ("max_retry_attempts", "a job resumes from its newest checkpoint"),
    ("tags", "a job has a name"),
    ("debugger_hook_config", PROFILE),
    ("rules", PROFILE),
    ("profiler_config", PROFILE),
    ("disable_profiler", PROFILE),
    ("enable_sagemaker_metrics", "all metrics are recorded"),
    ("tensorboard_output_config", "TensorBoard events are in `runs` of the output folder"),
    ("image_uri", CONTAINER),
    ("py_version", CONTAINER),
    ("pytorch_version", CONTAINER),
    ("transformers_version", CONTAINER),
    ("Environment", "set variables in the daemon's environment"),
    ("environment", "set variables in the daemon's environment"),
    ("Tags", "a job has a name"),
    ("DebugHookConfig", PROFILE),
    ("DebugRuleConfigurations", PROFILE),
    ("ProfilerConfig", PROFILE),
    ("ProfilerRuleConfigurations", PROFILE),
    ("MetricDefinitions", "all metrics are recorded"),
    ("metric_definitions", "all metrics are recorded"),
    ("ExperimentConfig", "train.report_to names the places of metrics"),
    ("TensorBoardOutputConfig", "TensorBoard events are in `runs` of the output folder"),
    ("RetryStrategy", "a job resumes from its newest checkpoint"),
];

/// Names that AWS adds when a job has run.
const RECORDS: [&str; 17] = [
    "TrainingJobArn",
    "TrainingJobStatus",
    "SecondaryStatus",
    "SecondaryStatusTransitions",
    "ModelArtifacts",
    "CreationTime",
    "TrainingStartTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "FinalMetricDataList",
    "TrainingTimeInSeconds",
    "BillableTimeInSeconds",
    "ProfilingStatus",
    "ResponseMetadata",
    "DebugRuleEvaluationStatuses",
    "ProfilerRuleEvaluationStatuses",
    "WarmPoolStatus",
];

/// Names that are read, here and with the hyperparameters.
const READ: [&str; 20] = [
    "distribution",
    "entry_point",
    "inputs",
    "hyperparameters",
    "HyperParameters",
    "TrainingJobName",
    "OutputDataConfig",
    "CheckpointConfig",
    "ResourceConfig",
    "StoppingCondition",
    "EnableManagedSpotTraining",
    "InputDataConfig",
    "instance_type",
    "instance_count",
    "max_run",
    "max_wait",
    "use_spot_instances",
    "output_path",
    "checkpoint_s3_uri",
    "base_job_name",
];

/// Reads what is beside the hyperparameters.
pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    instance(settings, draft);
    limits(settings, draft);
    for key in settings.keys().filter(|key| !READ.contains(&key.as_str())) {
        let known = DROPPED.iter().find(|(name, _)| name == key).map(|(_, reason)| *reason);
        let is_record = RECORDS.contains(&key.as_str());
        match known.or(is_record.then_some(MANAGED)) {
            _ if settings.get(key).is_some_and(is_off) => {}
            Some(_) if is_record => {}
            Some(reason) => draft.note(key, format!("dropped: {reason}")),
            None => draft.refuse(key, "is not known here; remove it, if the job does not need it"),
        }
    }
}

/// A value of the description, or the estimator's of the same meaning, with its key.
fn either<'a>(
    settings: &'a Map<String, Value>,
    section: &str,
    name: &str,
    argument: &str,
) -> Option<(String, &'a Value)> {
    let of_section = settings.get(section).and_then(|it| it.get(name));
    let found = of_section.map(|value| (format!("{section}.{name}"), value));
    let found = found.or_else(|| Some((argument.to_owned(), settings.get(argument)?)));
    found.filter(|(_, value)| !value.is_null())
}

fn instance(settings: &Map<String, Value>, draft: &mut Draft) {
    let section = "ResourceConfig";
    if let Some((key, value)) = either(settings, section, "InstanceType", "instance_type") {
        match instances::devices(&shown(value)) {
            Some((platform, cores)) => {
                draft.set("resources.platform", platform.into(), &key);
                // A launcher's number of processes comes first.
                if draft.get("resources.cores").is_none() {
                    draft.set("resources.cores", cores.into(), &key);
                }
            }
            None if draft.get("resources.platform").is_some() => {}
            None => draft.refuse(
                &key,
                format!(
                    "{} is no instance type that is known here; give resources.platform and \
                    resources.cores by --set",
                    shown(value)
                ),
            ),
        }
    }
    if settings.get(section).is_some_and(|it| it.get("InstanceGroups").is_some_and(|g| !is_off(g)))
    {
        draft.refuse(
            "ResourceConfig.InstanceGroups",
            "all hosts of a job are alike; give resources.platform, resources.cores and \
            resources.hosts by --set, and leave the groups out",
        );
    }
    let Some((key, value)) = either(settings, section, "InstanceCount", "instance_count") else {
        return;
    };
    match value.as_u64() {
        Some(0 | 1) => {}
        Some(_) => {
            draft.set("resources.hosts", value.clone(), &key);
            if draft.get("resources.engine").is_none() {
                draft.note("resources.hosts", LAUNCHED);
            }
        }
        None => draft.refuse(&key, format!("must be a number, not {}", shown(value))),
    }
}

/// SageMaker's longest wait covers waiting and running.
fn limits(settings: &Map<String, Value>, draft: &mut Draft) {
    let section = "StoppingCondition";
    let seconds = |name, argument| {
        let (key, value) = either(settings, section, name, argument)?;
        Some((key, value.as_u64()?))
    };
    let run = seconds("MaxRuntimeInSeconds", "max_run");
    if let Some((key, run)) = &run {
        draft.set("resources.max_run_seconds", (*run).into(), key);
    }
    if let Some((key, wait)) = seconds("MaxWaitTimeInSeconds", "max_wait") {
        let run = run.map_or(0, |(_, run)| run);
        let wait = wait.saturating_sub(run).max(1);
        draft.note(&key, "resources.max_wait_seconds is the wait alone, without the run");
        draft.set("resources.max_wait_seconds", wait.into(), &key);
    }
    let spot = ["EnableManagedSpotTraining", "use_spot_instances"];
    if let Some(key) = spot.iter().find(|key| settings.get(**key).is_some_and(|it| !is_off(it))) {
        draft.note(
            key,
            "dropped: run the daemon on a spot instance with `serve --ec2-notices`; a job resumes from \
            its newest checkpoint",
        );
    }
}

/// The address of each channel: of a description, or of `inputs`, as `fit` has them.
pub(super) fn channels(settings: &Map<String, Value>) -> Vec<(String, String)> {
    if let Some(inputs) = settings.get("inputs").and_then(Value::as_object) {
        let location = |value: &Value| value.as_str().map(|it| it.trim_end_matches('/').to_owned());
        return inputs
            .iter()
            .filter_map(|(name, it)| Some((name.clone(), location(it)?)))
            .collect();
    }
    let inputs = settings.get("InputDataConfig").and_then(Value::as_array);
    let channel = |input: &Value| {
        let name = input.get("ChannelName")?.as_str()?;
        let url = input.pointer("/DataSource/S3DataSource/S3Uri")?.as_str()?;
        Some((name.to_owned(), url.trim_end_matches('/').to_owned()))
    };
    inputs.into_iter().flatten().filter_map(channel).collect()
}

/// Channels as splits, where no hyperparameter names files of them. A prefix of a bucket stands for the
/// Arrow files below it, as in the estimator.
pub(super) fn splits(channels: &[(String, String)], draft: &mut Draft) {
    let has = |wanted: &[&str]| channels.iter().any(|(name, _)| wanted.contains(&name.as_str()));
    const VALIDATION: [&str; 5] = ["validation", "valid", "val", "eval", "dev"];
    let has_validation = has(&VALIDATION);
    for (name, url) in channels {
        let key = format!("InputDataConfig.{name}");
        let path = match name.as_str() {
            "train" | "training" => "data.train",
            "test" if has_validation => "data.test",
            "test" => "data.validation",
            name if VALIDATION.contains(&name) => "data.validation",
            _ => {
                draft.note(&key, format!("dropped: it is no split; give {url} by --set, if it is"));
                continue;
            }
        };
        let last = url.rsplit('/').next().unwrap_or_default();
        if !url.starts_with("s3://") || last.contains(['.', '*']) {
            draft.set(path, url.clone().into(), &key);
        } else if draft.get(path).is_none() {
            draft.note(
                &key,
                "the Arrow files below the prefix, as save_to_disk writes them; give \
                others by --set, such as s3://bucket/train/*.csv",
            );
            draft.set(path, format!("{url}/*.arrow").into(), &key);
        }
    }
}
