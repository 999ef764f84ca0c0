//! Variables of the environment that a command line sets before its launcher.

use serde_json::Value;

use crate::draft::Draft;
use crate::shell_variables::assignment;
use crate::values::{is_off, parse};

/// Meaning of a variable.
#[derive(Clone, Copy)]
enum Meaning {
    /// Computation in bfloat16, on XLA's devices.
    Bf16,
    /// Mixed precision by name.
    Precision,
    /// Name of the device.
    Device,
    /// Devices of CUDA; none of them means the CPU.
    CudaDevices,
    /// A variable that belongs to Neuron.
    Neuron(&'static str),
    /// A field of the job file.
    Field(&'static str),
    /// W&B is off where it is true.
    NoWandb,
    /// Processes that the command of a tool starts, which has set this field already where it reads the variable.
    Started(&'static str),
    /// Nothing, and why.
    Dropped(&'static str),
    /// It cannot be had, and what to use instead.
    Refused(&'static str),
}

use Meaning::*;

const CORES: &str = "the daemon assigns cores; resources.cores is their number";
const PROCESSES: &str = "the daemon starts a job's processes";
const DAEMONS: &str = "set it in the daemon's environment";
const CACHE: &str =
    "the daemon's cache holds what is fetched; its HF_TOKEN and HF_ENDPOINT are used";
const KERNELS: &str = "every step is one compiled program";
const SHARDING: &str = "set parallel.fsdp instead";

const VARIABLES: &[(&str, Meaning)] = &[
    ("XLA_USE_BF16", Bf16),
    ("XLA_DOWNCAST_BF16", Bf16),
    ("ACCELERATE_MIXED_PRECISION", Precision),
    ("ACCELERATE_USE_CPU", Dropped("resources.platform selects the device")),
    ("ACCELERATE_USE_FSDP", Refused(SHARDING)),
    ("ACCELERATE_USE_DEEPSPEED", Refused(SHARDING)),
    ("PJRT_DEVICE", Device),
    ("CUDA_VISIBLE_DEVICES", CudaDevices),
    ("NEURON_RT_NUM_CORES", Neuron(CORES)),
    ("NEURON_RT_VISIBLE_CORES", Neuron(CORES)),
    (
        "NEURON_RT_STOCHASTIC_ROUNDING_EN",
        Neuron("weights are float32, whose updates need no stochastic rounding"),
    ),
    ("WANDB_PROJECT", Field("train.project")),
    ("WANDB_NAME", Field("train.run_name")),
    ("WANDB_DISABLED", NoWandb),
    ("WORLD_SIZE", Dropped(PROCESSES)),
    ("RANK", Dropped(PROCESSES)),
    ("LOCAL_RANK", Dropped(PROCESSES)),
    ("NODE_RANK", Dropped(PROCESSES)),
    ("NNODES", Started("resources.hosts")),
    ("NPROC_PER_NODE", Started("resources.cores")),
    (
        "FORCE_TORCHRUN",
        Dropped(
            "the daemon starts a job's processes: resources.cores is the number of GPUs to train on",
        ),
    ),
    ("MASTER_ADDR", Dropped(PROCESSES)),
    ("MASTER_PORT", Dropped(PROCESSES)),
    ("OMP_NUM_THREADS", Dropped("a worker takes its share of the host's processors")),
    ("TOKENIZERS_PARALLELISM", Dropped("rows are prepared once, on all processors of the host")),
    ("TRANSFORMERS_CACHE", Dropped(CACHE)),
    ("PYTHONPATH", Dropped("no Python runs")),
    ("PYTHONUNBUFFERED", Dropped("no Python runs")),
];

/// Beginnings of names of variables.
const FAMILIES: &[(&str, Meaning)] = &[
    ("NEURON_", Neuron(DAEMONS)),
    ("HF_", Dropped(CACHE)),
    ("WANDB_", Dropped("`wandb sync` uploads the run's metrics, and has options of its own")),
    ("MLFLOW_", Dropped(DAEMONS)),
    ("NCCL_", Dropped(DAEMONS)),
    ("FI_", Dropped(DAEMONS)),
    ("PYTORCH_", Dropped(KERNELS)),
    ("TORCH_", Dropped(KERNELS)),
    ("CUDA_", Dropped(KERNELS)),
];

const UNKNOWN: &str = "not known here, and no Python runs that could read it";

fn meaning(name: &str) -> Meaning {
    let known = VARIABLES.iter().find(|(known, _)| *known == name);
    let family = || FAMILIES.iter().find(|(start, _)| name.starts_with(start));
    known.or_else(family).map_or(Dropped(UNKNOWN), |(_, meaning)| *meaning)
}

/// Whether a variable changes the job, rather than how its processes run.
pub(super) fn has_effect(name: &str) -> bool {
    !matches!(meaning(name), Dropped(_) | Started(_))
}

/// Reads the variables among the words before a script. The last of several values is taken.
pub(super) fn read(launcher: &[String], draft: &mut Draft) {
    let mut variables: Vec<(&str, &str)> = Vec::new();
    for (name, value) in launcher.iter().filter_map(|word| assignment(word)) {
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value));
    }
    for (name, value) in variables {
        apply(name, value, draft);
    }
}

fn apply(name: &str, text: &str, draft: &mut Draft) {
    let value = parse(text);
    match meaning(name) {
        Bf16 if is_off(&value) => {}
        Bf16 => {
            draft.note(
                name,
                "train.bf16: computation is in bfloat16; weights and the optimizer's state stay float32",
            );
            draft.set("train.bf16", true.into(), name);
        }
        Precision => precision(name, text, draft),
        Device => device(name, text, draft),
        CudaDevices => cuda_devices(name, text, draft),
        Neuron(reason) => {
            draft.note(name, format!("dropped: {reason}"));
            platform("neuron", name, draft);
        }
        Field(path) if draft.get(path).is_none() => draft.set(path, text.into(), name),
        Field(_) => draft.note(name, "dropped: an argument of the script says it"),
        NoWandb if is_off(&value) => {}
        NoWandb => draft.note(name, "dropped: train.report_to names the places of metrics"),
        Started(path) if draft.get(path).is_some() => {}
        Started(_) => draft.note(name, format!("dropped: {PROCESSES}")),
        Dropped(reason) => draft.note(name, format!("dropped: {reason}")),
        Refused(advice) if !is_off(&value) => draft.refuse(name, advice),
        Refused(_) => {}
    }
}

/// Reads the list of devices that a process sees. `0` is the first one, and no list at all means the CPU. Scripts train
/// on all of them unless a launcher says how many processes it starts.
fn cuda_devices(name: &str, text: &str, draft: &mut Draft) {
    let text = text.trim();
    if text.is_empty() || text == "-1" || text.eq_ignore_ascii_case("none") {
        return platform("cpu", name, draft);
    }
    let devices = text.split(',').filter(|device| !device.trim().is_empty()).count();
    if devices > 1 && draft.get("resources.cores").is_none() {
        draft.set("resources.cores", devices.into(), name);
    } else {
        draft.note(name, format!("dropped: {CORES}"));
    }
    platform("cuda", name, draft);
}

fn precision(name: &str, text: &str, draft: &mut Draft) {
    match text.to_lowercase().as_str() {
        "" | "no" => {}
        known @ ("bf16" | "fp16") => draft.set(&format!("train.{known}"), true.into(), name),
        other => draft.refuse(name, format!("must be bf16, fp16 or no, not {other}")),
    }
}

fn device(name: &str, text: &str, draft: &mut Draft) {
    match text.to_lowercase().as_str() {
        known @ ("cpu" | "cuda" | "neuron") => platform(known, name, draft),
        "gpu" => platform("cuda", name, draft),
        other => draft.refuse(
            name,
            format!(
                "there is no platform for {other}; leave it out, and set resources.platform to \
                cpu, cuda or neuron"
            ),
        ),
    }
}

/// Sets the platform, where the first variable or launcher that implies one is taken.
pub(super) fn platform(name: &str, key: &str, draft: &mut Draft) {
    if draft.get("resources.platform").is_none() {
        draft.set("resources.platform", Value::from(name), key);
    }
}

/// Reads the launchers of XLA, whose devices here are NeuronCores.
pub(super) fn launchers(words: &[String], draft: &mut Draft) {
    let name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    for launcher in words.iter().map(name) {
        match launcher.as_str() {
            "neuron_parallel_compile" => {
                draft.note(
                    &launcher,
                    "dropped: a job compiles its programs when it first needs them",
                );
                platform("neuron", &launcher, draft);
            }
            "xla_spawn.py" => {
                if draft.get("resources.platform").is_none() {
                    draft.note(&launcher, "XLA's devices here are NeuronCores");
                }
                platform("neuron", &launcher, draft);
            }
            _ => {}
        }
    }
}
