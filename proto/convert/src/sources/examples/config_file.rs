//! accelerate's `--config_file`, whose keys are the options of `accelerate launch`.

use std::path::Path;

use serde_json::{Map, Value};

use super::Files;
use super::environment::platform;
use crate::Refused;
use crate::draft::Draft;
use crate::rule::{nearest, unknown};
use crate::values::{is_off, shown};

const OPTION: &str = "config_file";

/// Sections whose keys are options.
const SECTIONS: [&str; 2] = ["fsdp_config", "deepspeed_config"];

/// Keys of the file, of a cluster or of SageMaker, also in versions before today's.
const KEYS: &[&str] = &[
    "additional_args",
    "base_job_name",
    "command_file",
    "commands",
    "compute_environment",
    "debug",
    "deepspeed_config",
    "distributed_type",
    "downcast_bf16",
    "dynamo_backend",
    "dynamo_config",
    "ec2_instance_type",
    "enable_cpu_affinity",
    "fp16",
    "fp8_config",
    "fsdp_config",
    "gpu_ids",
    "iam_role_name",
    "image_uri",
    "ipex_config",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "main_training_function",
    "megatron_lm_config",
    "mixed_precision",
    "mpirun_config",
    "num_machines",
    "num_processes",
    "parallelism_config",
    "profile",
    "py_version",
    "pytorch_version",
    "rdzv_backend",
    "region",
    "sagemaker_inputs_file",
    "sagemaker_metrics_file",
    "same_network",
    "tp_config",
    "tpu_env",
    "tpu_name",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "tpu_vm",
    "tpu_zone",
    "transformers_version",
    "use_cpu",
    "use_mps_device",
];

/// Values of `distributed_type`; YAML reads a bare `NO` as false.
const TYPES: &[&str] = &[
    "DATA_PARALLEL",
    "DEEPSPEED",
    "FALSE",
    "FSDP",
    "MEGATRON_LM",
    "MODEL_PARALLEL",
    "MULTI_CPU",
    "MULTI_GPU",
    "MULTI_HPU",
    "MULTI_MLU",
    "MULTI_MUSA",
    "MULTI_NEURON",
    "MULTI_NPU",
    "MULTI_SDAA",
    "MULTI_XPU",
    "NO",
    "TP",
    "TPU",
    "XLA",
];

/// Adds the options of the file that the command line does not have itself. `known` are all that accelerate has.
pub(super) fn read(
    options: &mut Map<String, Value>,
    known: &[&str],
    files: Files,
    draft: &mut Draft,
) -> Result<(), Refused> {
    let Some(name) = options.get(OPTION).map(shown) else { return Ok(()) };
    let Some(text) = files(Path::new(&name)) else { return Ok(()) };
    let settings: Value = serde_saphyr::from_str(&text)
        .map_err(|error| Refused::because(OPTION, format!("{name} is no YAML: {error}")))?;
    let Value::Object(settings) = settings else {
        return Err(Refused::because(OPTION, format!("{name} is not a mapping of keys to values")));
    };
    options.remove(OPTION);
    check_keys(&settings, draft);
    let kind = settings.get("distributed_type").map(shown).unwrap_or_default();
    match kind.to_uppercase().as_str() {
        "FSDP" => add(options, "use_fsdp", &true.into()),
        "DEEPSPEED" => add(options, "use_deepspeed", &true.into()),
        "MEGATRON_LM" => {
            let advice = "MEGATRON_LM is not converted; set parallel.tensor and parallel.pipeline";
            draft.refuse("distributed_type", advice);
        }
        known if known.is_empty() || TYPES.contains(&known) => {}
        other => draft.refuse("distributed_type", unknown_type(other)),
    }
    if kind.to_uppercase() == "MULTI_GPU" {
        platform("cuda", "distributed_type", draft);
    }
    if settings.get("use_cpu").is_some_and(|value| !is_off(value)) {
        platform("cpu", "use_cpu", draft);
    }
    let counts = ["num_processes", "num_machines", "mixed_precision"];
    for (key, value) in settings.iter().filter(|(key, _)| counts.contains(&key.as_str())) {
        add(options, key, value);
    }
    for section in SECTIONS {
        for (key, value) in settings.get(section).and_then(Value::as_object).into_iter().flatten() {
            add_known(options, known, section, key, value, draft);
        }
    }
    check_file(options, draft);
    Ok(())
}

/// Refuses keys that accelerate refuses.
fn check_keys(settings: &Map<String, Value>, draft: &mut Draft) {
    for key in settings.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let advice = "accelerate's file has no such key; remove it";
        draft.refuse(key, unknown(key, KEYS.iter().copied(), advice));
    }
}

fn unknown_type(found: &str) -> String {
    match nearest(found, TYPES.iter().copied()) {
        Some(nearest) => format!("is {found}; did you mean `{nearest}`?"),
        None => format!(
            "must be NO, MULTI_GPU, FSDP, DEEPSPEED or another of accelerate's, not {found}"
        ),
    }
}

/// Adds a key of a section that is an option, whose prefix earlier versions left out.
fn add_known(
    options: &mut Map<String, Value>,
    known: &[&str],
    section: &str,
    key: &str,
    value: &Value,
    draft: &mut Draft,
) {
    let prefixed = format!("fsdp_{key}");
    if known.contains(&key) {
        return add(options, key, value);
    }
    if section == "fsdp_config" && known.contains(&prefixed.as_str()) {
        return add(options, &prefixed, value);
    }
    let path = format!("{section}.{key}");
    match nearest(key, known.iter().copied()) {
        Some(nearest) => {
            draft.refuse(&path, format!("is not known here; did you mean `{nearest}`?"))
        }
        None => draft.note(&path, "dropped: it has no equivalent"),
    }
}

fn add(options: &mut Map<String, Value>, key: &str, value: &Value) {
    if !value.is_null() && !options.contains_key(key) {
        options.insert(key.to_owned(), value.clone());
    }
}

/// Refuses DeepSpeed's own file, which is another one.
fn check_file(options: &mut Map<String, Value>, draft: &mut Draft) {
    let key = "deepspeed_config_file";
    if options.get(key).is_some_and(|value| !is_off(value)) {
        let advice = "give the stage as zero_stage in the file, or parallel.fsdp by --set";
        draft.refuse(key, advice);
    }
}
