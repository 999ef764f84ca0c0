//! SageMaker's `distribution`, and the hyperparameters that its service makes of it, as the estimator in
//! Python reads them.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::rule::{Rule, unknown};
use crate::shared::{Keys, TABLES};
use crate::values::{is_flag, is_off, plain, shown};

static MODEL_PARALLEL: Keys = LazyLock::new(|| TABLES.model_parallel.keys());

/// Parameters for the number of cores that share weights.
const SHARDS: [&str; 2] = ["sharded_data_parallel_degree", "hybrid_shard_degree"];
const TENSOR: &str = "tensor_parallel_degree";
const PRESCALED: &str = "prescaled_batch";

/// Number of processes on each host, as a launcher's option, and as the service hands it to the container.
const PROCESSES: &str = "processes_per_host";
const PROCESSES_OF_MPI: &str = "sagemaker_mpi_num_of_processes_per_host";

/// Entry of `distribution` for SageMaker's own libraries.
const OWN_LIBRARIES: &str = "smdistributed";

const ADVICE: &str = "leave it out";

/// Reads the estimator's `distribution`.
pub(super) fn read(distribution: &Value, draft: &mut Draft) {
    for (name, options) in mapping("distribution", distribution, draft) {
        let key = format!("distribution.{name}");
        if name == OWN_LIBRARIES {
            libraries(&key, mapping(&key, options, draft), draft);
        } else if TABLES.distribution.launchers.contains(name) {
            let options = mapping(&key, options, draft);
            let known = &TABLES.distribution.launcher_options;
            if reads_as_enabled(&key, options, known, draft) {
                let of_launcher = options.get(PROCESSES);
                processes(&format!("{key}.{PROCESSES}"), of_launcher, draft);
            }
        } else {
            let launchers = TABLES.distribution.launchers.iter();
            let known = launchers.map(String::as_str).chain([OWN_LIBRARIES]);
            let advice = "jobs are data-parallel over their cores by themselves; leave it out";
            draft.refuse(&key, unknown(name, known, advice));
        }
    }
}

/// Checks the options of a launcher or a library; returns whether its values are to be read, which they
/// also are where `enabled` is wrong, so that all mistakes are reported.
fn reads_as_enabled(
    within: &str,
    options: &Map<String, Value>,
    known: &[String],
    draft: &mut Draft,
) -> bool {
    let mut has_unknown = false;
    for (name, value) in options {
        let key = format!("{within}.{name}");
        if !known.contains(name) {
            has_unknown = true;
            draft.refuse(&key, unknown(name, known.iter().map(String::as_str), ADVICE));
        } else if let Some(reason) = TABLES.distribution.dropped.get(name)
            && !is_off(value)
        {
            draft.note(&key, format!("dropped: {reason}"));
        }
    }
    match options.get("enabled") {
        Some(value) => {
            check_flag(&format!("{within}.enabled"), value, draft);
            !is_off(value)
        }
        None if options.is_empty() => false,
        None => {
            if !has_unknown {
                draft.refuse(
                    within,
                    "has options, but not `enabled: true`; add it, or leave the entry out",
                );
            }
            true
        }
    }
}

/// Refuses a value that is neither true nor false, also as text.
fn check_flag(key: &str, value: &Value, draft: &mut Draft) {
    if !is_flag(value) {
        draft.refuse(key, format!("must be true or false, not {}", shown(value)));
    }
}

/// Reads `mp_parameters` and the number of MPI's processes, which the service hands to the container.
pub(super) fn read_parameters(parameters: &Map<String, Value>, draft: &mut Draft) {
    if let Some(given) = parameters.get("mp_parameters").filter(|value| !is_off(value)) {
        model_parallel("mp_parameters", &parsed(given), draft);
    }
    processes(PROCESSES_OF_MPI, parameters.get(PROCESSES_OF_MPI), draft);
}

/// Reads the number of cores that share weights, once platform, cores and hosts are known.
pub(super) fn shards(
    parameters: &Map<String, Value>,
    outer: &Map<String, Value>,
    draft: &mut Draft,
) {
    const POINTER: &str = "/distribution/smdistributed/modelparallel";
    let given = parameters.get("mp_parameters").map(parsed);
    let outer = Value::Object(outer.clone());
    let library = outer.pointer(POINTER).and_then(Value::as_object).filter(|it| is_enabled(it));
    let of_library = library.and_then(|library| library.get("parameters"));
    for given in [given.as_ref(), of_library].into_iter().flatten() {
        for key in SHARDS {
            if let Some(degree) = given.get(key).map(plain) {
                sharded(key, &degree, draft);
            }
        }
    }
}

/// A mapping that is given as JSON in text.
fn parsed(given: &Value) -> Value {
    let parsed = given.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| given.clone())
}

fn libraries(within: &str, libraries: &Map<String, Value>, draft: &mut Draft) {
    for (name, options) in libraries {
        let key = format!("{within}.{name}");
        let known = &TABLES.distribution.libraries;
        if !known.contains(name) {
            let advice = "modelparallel and dataparallel are";
            draft.refuse(&key, unknown(name, known.iter().map(String::as_str), advice));
            continue;
        }
        let options = mapping(&key, options, draft);
        let is_read = reads_as_enabled(&key, options, &TABLES.distribution.library_options, draft);
        if is_read && name == "modelparallel" {
            let parameters = options.get("parameters").unwrap_or(&Value::Null);
            model_parallel(&format!("{key}.parameters"), parameters, draft);
        }
    }
}

fn model_parallel(within: &str, parameters: &Value, draft: &mut Draft) {
    let parameters = mapping(within, parameters, draft);
    for (name, value) in parameters {
        let (key, value) = (format!("{within}.{name}"), plain(value));
        match MODEL_PARALLEL.iter().find(|(known, _)| known == name).map(|(_, rule)| *rule) {
            _ if value.is_null() => {}
            Some(Rule::Field(path)) => draft.set(path, value, &key),
            Some(Rule::Own) if name == PRESCALED => check_flag(&key, &value, draft),
            Some(Rule::Own) => {}
            Some(Rule::Dropped(reason)) => draft.note(&key, format!("dropped: {reason}")),
            Some(Rule::Switch(..) | Rule::Refused(_)) if is_off(&value) => {}
            Some(Rule::Switch(path, on)) => {
                check_flag(&key, &value, draft);
                draft.set(path, on.clone(), &key);
            }
            Some(Rule::Refused(advice)) => draft.refuse(&key, advice),
            Some(Rule::Changed(..)) | None => {
                let known = MODEL_PARALLEL.iter().map(|(known, _)| *known);
                draft.refuse(&key, unknown(name, known, ADVICE));
            }
        }
    }
    note_batch(within, parameters, draft);
}

/// Without `prescaled_batch`, cores that share layers have rows of their own, which are gathered.
fn note_batch(within: &str, parameters: &Map<String, Value>, draft: &mut Draft) {
    let is_prescaled = parameters.get(PRESCALED).is_some_and(|value| !is_off(&plain(value)));
    let degree = parameters.get(TENSOR).map(plain).and_then(|degree| degree.as_u64()).unwrap_or(1);
    if degree > 1 && !is_prescaled {
        let text = format!(
            "{degree} cores share the rows of a batch, where SageMaker's library, without prescaled_batch, gathers \
            one from each; multiply train.per_device_train_batch_size by {degree} for steps of as many rows"
        );
        draft.note(&format!("{within}.{TENSOR}"), text);
    }
}

fn sharded(key: &str, degree: &Value, draft: &mut Draft) {
    let number = |path: &str| draft.get(path).and_then(Value::as_u64).unwrap_or(1);
    let (cores, hosts) = (number("resources.cores"), number("resources.hosts"));
    match degree.as_u64() {
        Some(0 | 1) => {}
        None if is_off(degree) => {}
        None => draft.refuse(key, format!("must be a number of GPUs, not {}", shown(degree))),
        Some(degree) => {
            let is_within_hosts = hosts > 1 && degree <= cores;
            let layers = number("parallel.tensor") * number("parallel.pipeline");
            let all = if is_within_hosts { cores } else { cores * hosts };
            let shared_by = all / layers.max(1);
            if degree != shared_by {
                let text = format!("{shared_by} cores share the weights, with the same results");
                draft.note(key, text);
            }
            let fsdp = if is_within_hosts { "hybrid_shard" } else { "full_shard" };
            draft.set("parallel.fsdp", fsdp.into(), key);
        }
    }
}

fn processes(key: &str, number: Option<&Value>, draft: &mut Draft) {
    let Some(number) = number.map(plain).filter(|number| !number.is_null()) else { return };
    match number.as_u64() {
        Some(1..) => draft.set("resources.cores", number, key),
        _ => {
            let found = shown(&number);
            draft.refuse(key, format!("must be a number of processes from 1, not {found}"));
        }
    }
}

fn is_enabled(options: &Map<String, Value>) -> bool {
    options.get("enabled").is_some_and(|value| !is_off(value))
}

/// The entries of a mapping; of none for another value, which is refused.
fn mapping<'a>(key: &str, value: &'a Value, draft: &mut Draft) -> &'a Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match value {
        Value::Object(entries) => entries,
        Value::Null => &NONE,
        other => {
            let found = shown(other);
            draft.refuse(key, format!("must be a mapping such as {{enabled: true}}, not {found}"));
            &NONE
        }
    }
}
