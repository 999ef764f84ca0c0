//! The environment variables of a runner: those that a training process needs, and no others of
//! the daemon's environment.
//!
//! *Defaults* are good settings for a platform, which the daemon's environment overrides.
//! *Assignments* select the job's cores, and cannot be overridden.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use traind_job_file::{JobFile, Platform, RunSpec};

use super::tree;

mod neuron;
#[cfg(test)]
mod tests;

pub(crate) use neuron::standalone_environment as neuron_standalone_environment;
pub(super) use neuron::{check_selection, compile_environment as neuron_compile_environment};

const PASSED: &[&str] = &[
    "GLIBC_TUNABLES",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XLA_FLAGS",
];
/// Makes runs wait after selected steps. Set only if the daemon was started with `--test-step-gates`.
pub(super) const STEP_GATES: &str = "TRAIND_TEST_STEP_GATES";
/// The daemon's own secrets, whatever their prefix, variables that only its settings may set, and those that
/// make a runner one of several hosts, which a launcher sets.
const WITHHELD: &[&str] = &[
    "TRAIND_TOKEN",
    "TRAIND_TOKEN_FILE",
    "TRAIND_CLIENT_KEY",
    "TRAIND_COORDINATOR",
    "TRAIND_HOSTS",
    "TRAIND_HOST_RANK",
    "TRAIND_RENDEZVOUS_DIR",
    "TRAIND_RENDEZVOUS_KEY",
    STEP_GATES,
];
const PASSED_PREFIXES: &[&str] =
    &["CUDA_", "FI_", "MALLOC_", "NCCL_", "NEURON_", "TF_CPP_", "TRAIND_", "UCX_"];

/// The variables that are passed only to jobs that use object stores.
const FOR_OBJECTS: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_ALLOW_HTTP",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_METADATA_ENDPOINT",
    "AWS_REGION",
    "AWS_REQUEST_PAYER",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SKIP_SIGNATURE",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];
/// The variables that are passed only to jobs that read from the hub or commit to it.
const FOR_HUB: &[&str] = &[
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_DOWNLOAD_TIMEOUT",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
];
/// The variables that are passed only to jobs that report to MLflow.
const FOR_MLFLOW: &[&str] = &[
    "MLFLOW_EXPERIMENT_NAME",
    MLFLOW_SERVER,
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_TRACKING_USERNAME",
];
const MLFLOW_SERVER: &str = "MLFLOW_TRACKING_URI";
/// The variables that are passed to every planner.
const FOR_PLAN: &[&str] = &[
    "HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "LD_LIBRARY_PATH",
    "PATH",
    "TRAIND_KERNELS",
];
/// The variables that are passed to a measurement of MPI: where the library is, and where it may keep files.
const FOR_MPI: &[&str] = &["TMPDIR", "TRAIND_CACHE_DIR", "TRAIND_PLUGIN_MPI", "XDG_CACHE_HOME"];
/// Variables for object stores, the hub and MLflow that contain secrets.
const SECRETS: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "HF_TOKEN",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_TRACKING_USERNAME",
];
/// The variables that are passed to jobs that use any of these.
const FOR_NETWORK: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Hides the startup messages of XLA's libraries.
const TF_CPP_MIN_LOG_LEVEL: &str = "2";

/// jemalloc's settings for a runner, whose allocator it is. The buffers of each step are in huge pages, so that
/// products that read a transposed matrix find its pages sooner. They are in one arena, large ones too, so that each
/// program's fit where another's were, and freed ones are kept, since Linux clears pages before it gives them again.
const MALLOC_CONF: &str = "narenas:1,oversize_threshold:0,dirty_decay_ms:-1,thp:always";

/// The plugin is `jax_plugins/xla_cuda13/xla_cuda_plugin.so` in a folder of Python packages, and CUDA's
/// compiler is in this folder beside it.
const PLUGIN_DEPTH: usize = 3;
const CUDA_DATA_DIR: &str = "nvidia/cu13";

type Variables = BTreeMap<OsString, OsString>;

/// The devices that variables are for.
#[derive(Clone, Copy)]
pub(super) struct Devices<'a> {
    pub platform: Platform,
    pub plugin: &'a Path,
    pub cache_dir: &'a Path,
    pub cores: &'a [u32],
    pub seed: u64,
    /// Marks the processes.
    pub mark: &'a str,
}

impl<'a> Devices<'a> {
    fn of(spec: &'a RunSpec) -> Devices<'a> {
        Devices {
            platform: spec.job.resources.platform,
            plugin: &spec.plugin,
            cache_dir: &spec.cache_dir,
            cores: &spec.cores,
            seed: spec.job.train.seed,
            mark: &spec.job_id,
        }
    }
}

/// Builds the runner's environment for `spec` from `own`, the daemon's environment.
pub(super) fn runner_environment(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    spec: &RunSpec,
) -> Variables {
    let devices = Devices::of(spec);
    assigned(
        unassigned(own.into_iter().filter(|(name, _)| is_passed(name, &spec.job)), devices),
        devices,
    )
}

/// Builds the environment of a test of cores, which belongs to no job and writes no profile, from `own`, the daemon's
/// environment.
pub(super) fn test_environment(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    devices: Devices<'_>,
) -> Variables {
    let is_passed = |name: &str| is_passed_to_all(name) && !neuron::is_of_profiles(name);
    let passed = own.into_iter().filter(|(name, _)| name.to_str().is_some_and(is_passed));
    assigned(unassigned(passed, devices), devices)
}

/// Adds the variables that select the cores.
fn assigned(mut variables: Variables, devices: Devices<'_>) -> Variables {
    let assigned = assignments(devices, &variables);
    variables.extend(assigned.into_iter().map(|(name, value)| (name.into(), value)));
    variables
}

/// Builds the environment of a cluster's runners for `spec` from `own`, the daemon's environment. It has
/// no secrets, since clusters keep the environment of a job; hosts have credentials of their own. The
/// cluster selects the cores.
pub(crate) fn cluster_environment(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    spec: &RunSpec,
) -> BTreeMap<OsString, OsString> {
    let passed = own
        .into_iter()
        .filter(|(name, value)| !is_secret(name, value) && is_passed(name, &spec.job));
    unassigned(passed, Devices::of(spec))
}

/// The variables that are passed, and the defaults of the others.
fn unassigned(
    passed: impl Iterator<Item = (OsString, OsString)>,
    devices: Devices<'_>,
) -> Variables {
    let mut variables: Variables = passed.collect();
    for (name, value) in defaults(devices, &variables) {
        variables.entry(name.into()).or_insert(value);
    }
    match devices.platform {
        Platform::Cuda => add_cuda_data_dir(&mut variables, devices.plugin),
        // A flag that a plugin does not know aborts the process, and operators set those of GPUs.
        // A number of cores is each job's own.
        Platform::Neuron => {
            for name in ["XLA_FLAGS", "NEURON_RT_NUM_CORES"] {
                variables.remove(OsStr::new(name));
            }
        }
        Platform::Cpu => {}
    }
    variables.insert(tree::MARK.into(), devices.mark.into());
    variables
}

/// Selects the planner's environment from `own`, the daemon's environment. `fetches`: the planner may
/// access the hub. `other_user`: it runs as another user, and gets no secrets.
pub(crate) fn planner_environment(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    fetches: bool,
    other_user: bool,
) -> impl Iterator<Item = (OsString, OsString)> {
    own.into_iter().filter(move |(name, value)| {
        let is_for_hub = is_among(name, FOR_HUB) || is_among(name, FOR_NETWORK);
        is_among(name, FOR_PLAN)
            || (fetches && is_for_hub && !(other_user && is_secret(name, value)))
    })
}

/// Selects the environment of a measurement of MPI from `own`, the daemon's environment.
pub(crate) fn measuring_environment(
    own: impl IntoIterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    own.into_iter().filter(|(name, _)| {
        is_among(name, FOR_PLAN)
            || is_among(name, FOR_MPI)
            || name.to_str().is_some_and(|name| {
                // Settings of MPI's communication libraries, as a cluster's administrator chose them.
                ["FI_", "UCX_"].iter().any(|prefix| name.starts_with(prefix))
            })
    })
}

/// Whether the variable contains credentials. The URL of a proxy, which needs no scheme, or of a server may have a
/// user and a password in front of an `@`.
pub(super) fn is_secret(name: &OsStr, value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    let is_of_server = [FOR_OBJECTS, FOR_HUB, FOR_MLFLOW].iter().any(|names| is_among(name, names));
    let is_url = is_among(name, FOR_NETWORK) || (is_of_server && value.contains("://"));
    is_among(name, SECRETS) || (is_url && value.contains('@'))
}

fn is_among(name: &OsStr, names: &[&str]) -> bool {
    name.to_str().is_some_and(|name| names.contains(&name))
}

fn is_passed(name: &OsStr, job: &JobFile) -> bool {
    let Some(name) = name.to_str() else { return false };
    if WITHHELD.contains(&name) {
        return false;
    }
    let (objects, hub, mlflow) = (job.uses_objects(), job.uses_hub(), job.train.report_to.mlflow);
    let asked = [
        (objects, FOR_OBJECTS),
        (hub, FOR_HUB),
        (mlflow, FOR_MLFLOW),
        (objects || hub || mlflow, FOR_NETWORK),
    ];
    if asked.iter().any(|(asked, names)| *asked && names.contains(&name)) {
        return true;
    }
    is_passed_to_all(name)
}

/// Whether a variable is passed whatever the job is.
fn is_passed_to_all(name: &str) -> bool {
    let has_prefix = || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    !WITHHELD.contains(&name) && (PASSED.contains(&name) || has_prefix())
}

fn defaults(devices: Devices<'_>, given: &Variables) -> Vec<(&'static str, OsString)> {
    match devices.platform {
        Platform::Cpu => vec![
            ("TF_CPP_MIN_LOG_LEVEL", TF_CPP_MIN_LOG_LEVEL.into()),
            ("MALLOC_CONF", MALLOC_CONF.into()),
        ],
        Platform::Cuda => vec![
            ("TF_CPP_MIN_LOG_LEVEL", TF_CPP_MIN_LOG_LEVEL.into()),
            // Number GPUs by PCI slot, not by speed.
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into()),
        ],
        Platform::Neuron => {
            neuron::defaults(|name| given.get(OsStr::new(name)), devices.cache_dir, devices.seed)
        }
    }
}

/// Names the folder of `ptxas` and libdevice to XLA if they are installed beside the plugin, as
/// `traind plugins install` and pip do, unless the daemon's environment names another.
fn add_cuda_data_dir(variables: &mut Variables, plugin: &Path) {
    const FLAG: &str = "--xla_gpu_cuda_data_dir";
    let Some(site) = plugin.ancestors().nth(PLUGIN_DEPTH) else { return };
    let folder = site.join(CUDA_DATA_DIR);
    let flags = variables.entry("XLA_FLAGS".into()).or_default();
    if folder.is_dir() && !flags.to_string_lossy().contains(FLAG) {
        let separator = if flags.is_empty() { "" } else { " " };
        flags.push(format!("{separator}{FLAG}={}", folder.display()));
    }
    if flags.is_empty() {
        variables.remove(OsStr::new("XLA_FLAGS"));
    }
}

/// `given`: the variables of the runner so far. If the operator restricted the daemon to some
/// devices, core numbers are indices into those.
fn assignments(devices: Devices<'_>, given: &Variables) -> Vec<(&'static str, OsString)> {
    let given = |name: &str| given.get(OsStr::new(name)).and_then(|value| value.to_str());
    match devices.platform {
        // CPU devices need no selection.
        Platform::Cpu => Vec::new(),
        Platform::Cuda => {
            let visible = gpus(devices.cores, given("CUDA_VISIBLE_DEVICES"));
            vec![("CUDA_VISIBLE_DEVICES", visible.into())]
        }
        Platform::Neuron => {
            neuron::assignments(devices.mark, devices.cores, given("NEURON_RT_VISIBLE_CORES"))
        }
    }
}

/// Formats GPUs as "1,3", or as their entries in the `given` list, which may be UUIDs.
fn gpus(cores: &[u32], given: Option<&str>) -> String {
    let given: Vec<&str> = given.map(|list| list.split(',').collect()).unwrap_or_default();
    let name = |core: &u32| match given.get(*core as usize) {
        Some(name) => name.trim().to_owned(),
        None => core.to_string(),
    };
    cores.iter().map(name).collect::<Vec<_>>().join(",")
}
