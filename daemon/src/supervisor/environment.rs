//! The environment of a runner, built in one place: what a training process needs
//! and nothing else of what the daemon was started with.
//!
//! *Defaults* are what a platform runs well with; an operator who set one in the
//! daemon's environment knows better. *Assignments* say which cores are the job's, and
//! nobody may say otherwise.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use traind_job_file::{Platform, RunSpec};

use super::tree;

const PASSED: &[&str] = &[
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
const PASSED_PREFIXES: &[&str] =
    &["CUDA_", "FI_", "MALLOC_", "NCCL_", "NEURON_", "TF_CPP_", "TRAIND_"];

/// Libraries of XLA report their start on stderr, which would hide what matters.
const TF_CPP_MIN_LOG_LEVEL: &str = "2";

/// Buffers of a step are megabytes, which glibc would map and unmap each time: without
/// these, a training step of a small model takes 36,000 page faults.
const MALLOC: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "8589934592"),
    ("MALLOC_TRIM_THRESHOLD_", "17179869184"),
    ("MALLOC_TOP_PAD_", "67108864"),
];

/// Versions 2 of the Neuron plugin compare sizes of structures and so must be told which
/// version of the PJRT C API the runner speaks: that of `traind-pjrt`.
const PJRT_C_API_VERSION: &str = "0.81";
/// Encoders and decoders are all that there is to train, and a cast that nobody asked for
/// would give another loss than the other platforms do.
const NEURON_CC_FLAGS: &str = "--model-type=transformer -O1 --auto-cast=none";
/// A collective whose partner is gone hangs; no step takes as long.
const NEURON_RT_EXEC_TIMEOUT_SECONDS: &str = "600";
/// Past the ports that Linux hands out by itself. A job uses this plus its first core, so
/// jobs side by side never share one.
const ROOT_COMM_PORT: u32 = 61_100;

type Variables = BTreeMap<OsString, OsString>;

/// What the runner of `spec` gets, where `own` is the daemon's environment.
pub(super) fn runner_environment(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    spec: &RunSpec,
) -> Variables {
    let mut variables: Variables = own.into_iter().filter(|(name, _)| is_passed(name)).collect();
    for (name, value) in defaults(spec) {
        variables.entry(name.into()).or_insert(value);
    }
    variables.insert(tree::MARK.into(), spec.job_id.clone().into());
    let assigned = assignments(spec).into_iter();
    variables.extend(assigned.map(|(name, value)| (name.into(), value)));
    variables
}

fn is_passed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn defaults(spec: &RunSpec) -> Vec<(&'static str, OsString)> {
    match spec.job.resources.platform {
        Platform::Cpu => {
            let log_level = [("TF_CPP_MIN_LOG_LEVEL", TF_CPP_MIN_LOG_LEVEL)];
            let all = log_level.into_iter().chain(MALLOC);
            all.map(|(name, value)| (name, value.into())).collect()
        }
        Platform::Cuda => vec![
            ("TF_CPP_MIN_LOG_LEVEL", TF_CPP_MIN_LOG_LEVEL.into()),
            // The runner picks its GPUs by number among those that CUDA shows: the numbers
            // must mean the slots of the machine, not which GPU is the fastest.
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into()),
        ],
        Platform::Neuron => vec![
            ("NEURON_CC_FLAGS", NEURON_CC_FLAGS.into()),
            ("NEURON_COMPILE_CACHE_URL", spec.cache_dir.join("neuron-compile-cache").into()),
            ("NEURON_INTERNAL_PJRT_C_API_VERSION", PJRT_C_API_VERSION.into()),
            ("NEURON_RT_EXEC_TIMEOUT", NEURON_RT_EXEC_TIMEOUT_SECONDS.into()),
            // Whether to round stochastically is the operator's choice; that it can be
            // repeated is not.
            ("NEURON_RT_STOCHASTIC_ROUNDING_SEED", spec.job.train.seed.to_string().into()),
        ],
    }
}

fn assignments(spec: &RunSpec) -> Vec<(&'static str, OsString)> {
    match spec.job.resources.platform {
        // Of a CPU's devices only the number matters, and `cores` has it.
        Platform::Cpu => Vec::new(),
        // The plugin is told by an option.
        Platform::Cuda => Vec::new(),
        Platform::Neuron => {
            let port = ROOT_COMM_PORT + spec.cores.first().copied().unwrap_or_default();
            vec![
                ("NEURON_PROCESS_TAG", spec.job_id.clone().into()),
                ("NEURON_RT_ROOT_COMM_ID", format!("127.0.0.1:{port}").into()),
                ("NEURON_RT_VISIBLE_CORES", ranges(&spec.cores).into()),
            ]
        }
    }
}

/// "0-3", or "0-1,4" where there is a gap. `cores` increase.
fn ranges(cores: &[u32]) -> String {
    let runs = cores.chunk_by(|left, right| left + 1 == *right);
    let texts = runs.map(|run| match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(platform: &str, cores: &[u32]) -> RunSpec {
        let spec = serde_json::json!({
            "job_id": "b4",
            "attempt": 1,
            "job": {
                "name": "first",
                "model": {"name_or_path": "/model", "task": "sequence-classification"},
                "data": {"train": "/train.csv"},
                "train": {"seed": 7},
                "resources": {"platform": platform, "cores": cores.len()},
                "output_dir": "/out",
            },
            "cores": cores,
            "plugin": "/plugin.so",
            "cache_dir": "/cache",
        });
        serde_json::from_value(spec).unwrap()
    }

    /// The variables of a runner whose daemon has `own`, one a line.
    fn check(spec: &RunSpec, own: &[(&str, &str)], expect: &[&str]) {
        let own = own.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let variables = runner_environment(own, spec);
        let lines: Vec<String> = variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        let (marks, lines): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line == "TRAIND_JOB_ID=b4");
        assert_eq!((marks.len(), lines), (1, expect.iter().map(|l| (*l).to_owned()).collect()));
    }

    #[test]
    fn a_cpu_runner_keeps_its_memory_and_is_quiet() {
        let expect = [
            "MALLOC_MMAP_THRESHOLD_=8589934592",
            "MALLOC_TOP_PAD_=67108864",
            "MALLOC_TRIM_THRESHOLD_=17179869184",
            "TF_CPP_MIN_LOG_LEVEL=2",
        ];
        check(&spec("cpu", &[0, 1]), &[], &expect);
    }

    #[test]
    fn gpus_are_numbered_by_their_slots() {
        let expect = ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "TF_CPP_MIN_LOG_LEVEL=2"];
        check(&spec("cuda", &[1]), &[], &expect);
    }

    #[test]
    fn a_neuron_runner_sees_its_cores_and_no_others() {
        let own = [("NEURON_CC_FLAGS", "-O2"), ("NEURON_RT_VISIBLE_CORES", "0-31")];
        let expect = [
            "NEURON_CC_FLAGS=-O2",
            "NEURON_COMPILE_CACHE_URL=/cache/neuron-compile-cache",
            "NEURON_INTERNAL_PJRT_C_API_VERSION=0.81",
            "NEURON_PROCESS_TAG=b4",
            "NEURON_RT_EXEC_TIMEOUT=600",
            "NEURON_RT_ROOT_COMM_ID=127.0.0.1:61108",
            "NEURON_RT_STOCHASTIC_ROUNDING_SEED=7",
            "NEURON_RT_VISIBLE_CORES=8-15",
        ];
        check(&spec("neuron", &[8, 9, 10, 11, 12, 13, 14, 15]), &own, &expect);
    }

    #[test]
    fn an_operator_may_change_a_default() {
        let own = [("TF_CPP_MIN_LOG_LEVEL", "0"), ("MALLOC_TOP_PAD_", "0")];
        let expect = [
            "MALLOC_MMAP_THRESHOLD_=8589934592",
            "MALLOC_TOP_PAD_=0",
            "MALLOC_TRIM_THRESHOLD_=17179869184",
            "TF_CPP_MIN_LOG_LEVEL=0",
        ];
        check(&spec("cpu", &[0]), &own, &expect);
    }

    #[test]
    fn secrets_of_the_daemon_stay_with_it() {
        let own =
            ["PATH", "AWS_SECRET_ACCESS_KEY", "NOTIFY_SOCKET", "TRAIND_CACHE_DIR", "HF_TOKEN"]
                .map(|name| (name, "x"));
        let expect = [
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "PATH=x",
            "TF_CPP_MIN_LOG_LEVEL=2",
            "TRAIND_CACHE_DIR=x",
        ];
        check(&spec("cuda", &[0]), &own, &expect);
    }

    #[test]
    fn ranges_are_short() {
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[0, 1, 2, 3]), "0-3");
        assert_eq!(ranges(&[0, 1, 4]), "0-1,4");
    }
}
