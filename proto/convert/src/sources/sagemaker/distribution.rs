//! SageMaker's `distribution`, and the hyperparameters that its service makes of it, as the estimator in
//! Python reads them.

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::values::{is_off, plain, shown};

/// Parameters of the model-parallel library with the fields that have the same values.
const MODEL_PARALLEL: &[(&str, &str)] = &[
    ("pipeline_parallel_degree", "parallel.pipeline"),
    ("partitions", "parallel.pipeline"),
    ("tensor_parallel_degree", "parallel.tensor"),
    ("microbatches", "parallel.microbatches"),
    ("shard_optimizer_state", "parallel.shard_optimizer_state"),
    ("placement_strategy", "parallel.placement"),
    ("sequence_parallel", "parallel.sequence_parallel"),
    ("sequence_parallel_enabled", "parallel.sequence_parallel"),
    ("activation_loading_horizon", "parallel.activation_loading_horizon"),
    ("bf16", "train.bf16"),
    ("fp16", "train.fp16"),
    ("fp16_params", "train.fp16"),
];

/// Names of both versions of the library for keeping activations in host memory.
const OFFLOADING: [&str; 2] = ["offload_activations", "sm_activation_offloading"];

/// Ways in which the library does its work, with the same results.
const NO_EFFECT: &[&str] = &[
    "active_microbatches",
    "auto_partition",
    "contiguous",
    "ddp",
    "ddp_dist_backend",
    "ddp_port",
    "default_partition",
    "delayed_parameter_initialization",
    "fast_mode",
    "load_partition",
    "memory_weight",
    "optimize",
    "partition_file",
    "pipeline",
    "skip_tracing",
    "static_mode",
    "tensor_parallel_seed",
];

const REFUSED: &[(&str, &str)] = &[
    ("horovod", "data parallelism needs no library here; leave it out"),
    ("prescaled_batch", "per_device_train_batch_size counts the rows of a core and batch"),
];

/// Ways to start one process a device, as every job runs.
const LAUNCHERS: [&str; 4] = ["torch_distributed", "pytorchddp", "pytorchxla", "mpi"];

const SHARDS: &str = "sharded_data_parallel_degree";

/// Reads the estimator's `distribution`.
pub(super) fn read(distribution: &Value, draft: &mut Draft) {
    for (name, options) in mapping("distribution", distribution, draft) {
        let key = format!("distribution.{name}");
        let is_launcher = LAUNCHERS.contains(&name.as_str());
        if !is_launcher && name != "smdistributed" {
            draft.refuse(
                &key,
                "jobs are data-parallel over their cores by themselves; leave it out",
            );
            continue;
        }
        let options = mapping(&key, options, draft);
        match is_launcher {
            true if is_enabled(options) => processes(options.get("processes_per_host"), draft),
            true => {}
            false => libraries(&key, options, draft),
        }
    }
}

/// Reads `mp_parameters` and the number of MPI's processes, which the service hands to the container.
pub(super) fn read_parameters(parameters: &Map<String, Value>, draft: &mut Draft) {
    if let Some(given) = parameters.get("mp_parameters").filter(|value| !is_off(value)) {
        let parsed = given.as_str().and_then(|text| serde_json::from_str(text).ok());
        model_parallel("mp_parameters", parsed.as_ref().unwrap_or(given), draft);
    }
    processes(parameters.get("sagemaker_mpi_num_of_processes_per_host"), draft);
}

fn libraries(within: &str, libraries: &Map<String, Value>, draft: &mut Draft) {
    for (name, options) in libraries {
        let key = format!("{within}.{name}");
        match name.as_str() {
            "modelparallel" => {
                let options = mapping(&key, options, draft);
                let parameters = options.get("parameters").filter(|value| !value.is_null());
                if let Some(parameters) = parameters.filter(|_| is_enabled(options)) {
                    model_parallel("parameters", parameters, draft);
                }
            }
            "dataparallel" => {}
            _ => draft.refuse(&key, "is no library known here; leave it out"),
        }
    }
}

fn model_parallel(within: &str, parameters: &Value, draft: &mut Draft) {
    for (name, value) in mapping(within, parameters, draft) {
        let (key, value) = (format!("{within}.{name}"), plain(value));
        let field = MODEL_PARALLEL.iter().find(|(known, _)| known == name);
        let refused = REFUSED.iter().find(|(known, _)| known == name);
        match (field, refused) {
            (Some((_, path)), _) if !value.is_null() => draft.set(path, value, &key),
            (Some(_), _) => {}
            (_, Some((_, advice))) if !is_off(&value) => draft.refuse(&key, *advice),
            (_, Some(_)) => {}
            _ if name == SHARDS => sharded(&key, &value, draft),
            _ if OFFLOADING.contains(&name.as_str()) => {
                if !is_off(&value) {
                    draft.set("parallel.offload", serde_json::json!(["activations"]), &key);
                }
            }
            _ if NO_EFFECT.contains(&name.as_str()) => {
                draft.note(&key, "dropped: the weights are the same without it");
            }
            _ => draft.refuse(&key, "is not known here; leave it out"),
        }
    }
}

fn sharded(key: &str, value: &Value, draft: &mut Draft) {
    match value {
        Value::Bool(true) => draft.refuse(key, "must be a number of GPUs, not true"),
        value if is_off(value) || *value == 1 => {}
        _ => draft.set("parallel.fsdp", "full_shard".into(), key),
    }
}

fn processes(number: Option<&Value>, draft: &mut Draft) {
    if let Some(number) = number.map(plain).filter(|number| !is_off(number)) {
        draft.set("resources.cores", number, "processes_per_host");
    }
}

fn is_enabled(options: &Map<String, Value>) -> bool {
    options.get("enabled").is_some_and(|value| !is_off(value))
}

/// The entries of a mapping; of none for another value, which is refused.
fn mapping<'a>(key: &str, value: &'a Value, draft: &mut Draft) -> &'a Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
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
