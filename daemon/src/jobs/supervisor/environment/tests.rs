use traind_job_file::{DataFiles, ModelSource};

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

/// Compares the variables of a runner whose daemon has `own`.
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
fn a_cpu_runner_gets_settings_of_its_allocator_and_a_log_level() {
    let setting = format!("MALLOC_CONF={MALLOC_CONF}");
    let expect = [&setting, "TF_CPP_MIN_LOG_LEVEL=2"];
    check(&spec("cpu", &[0, 1]), &[], &expect);
}

#[test]
fn a_gpu_runner_sees_only_its_slots() {
    let expect = |visible| ["CUDA_DEVICE_ORDER=PCI_BUS_ID", visible, "TF_CPP_MIN_LOG_LEVEL=2"];
    check(&spec("cuda", &[1, 3]), &[], &expect("CUDA_VISIBLE_DEVICES=1,3"));
    let own = [("CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b")];
    check(&spec("cuda", &[1]), &own, &expect("CUDA_VISIBLE_DEVICES=GPU-b"));
}

#[test]
fn a_gpu_runner_finds_the_compiler_beside_the_plugin() {
    let site = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(site.path().join(CUDA_DATA_DIR)).unwrap();
    let mut spec = spec("cuda", &[0]);
    spec.plugin = site.path().join("jax_plugins/xla_cuda13/xla_cuda_plugin.so");
    let flags = |own: &[(&str, &str)]| {
        let own = own.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        runner_environment(own, &spec).get(OsStr::new("XLA_FLAGS")).cloned().unwrap()
    };
    let flag = format!("--xla_gpu_cuda_data_dir={}/nvidia/cu13", site.path().display());
    assert_eq!(flags(&[]), flag.as_str());
    assert_eq!(flags(&[("XLA_FLAGS", "--a=b")]), format!("--a=b {flag}").as_str());
    let own = "--xla_gpu_cuda_data_dir=/usr/local/cuda";
    assert_eq!(flags(&[("XLA_FLAGS", own)]), own);
}

#[test]
fn a_neuron_runner_sees_only_its_cores() {
    let own = [
        ("NEURON_CC_FLAGS", "-O2"),
        ("NEURON_RT_VISIBLE_CORES", "0-31"),
        // A user restricts other programs by it.
        ("NEURON_RT_NUM_CORES", "2"),
        ("XLA_FLAGS", "--xla_gpu_deterministic_ops"),
    ];
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
fn a_neuron_runner_writes_its_profile_to_its_run_folder() {
    let own = [("NEURON_RT_INSPECT_ENABLE", "1"), ("NEURON_RT_INSPECT_DEVICE_PROFILE", "0")];
    let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let variables = runner_environment(own, &spec("neuron", &[0]));
    let value = |name: &str| variables[OsStr::new(name)].to_str().unwrap();
    assert_eq!(value("NEURON_RT_INSPECT_OUTPUT_DIR"), "neuron-profile");
    assert_eq!(value("NEURON_RT_INSPECT_DEVICE_PROFILE"), "0", "the daemon's own");
}

#[test]
fn a_test_of_cores_writes_no_profile_and_gets_their_selection() {
    let own = [("NEURON_RT_INSPECT_ENABLE", "1"), ("NEURON_RT_INSPECT_SYSTEM_PROFILE", "1")];
    let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let spec = spec("neuron", &[4]);
    let variables = test_environment(own, Devices::of(&spec));
    let names: Vec<&str> = variables.keys().filter_map(|name| name.to_str()).collect();
    assert!(!names.iter().any(|name| name.contains("INSPECT")), "{names:?}");
    assert_eq!(variables[OsStr::new("NEURON_RT_VISIBLE_CORES")], "4");
}

#[test]
fn the_compiler_gets_the_logical_configuration_of_the_cores() {
    let own = [("NEURON_LOGICAL_NC_CONFIG", "1"), ("PATH", "/nowhere")];
    let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let variables = runner_environment(own, &spec("neuron", &[0]));
    let flags = variables[OsStr::new("NEURON_CC_FLAGS")].to_str().unwrap();
    assert_eq!(flags, "--model-type=transformer -O1 --auto-cast=none --lnc=1");
}

#[test]
fn the_daemons_environment_overrides_defaults() {
    let own = [("TF_CPP_MIN_LOG_LEVEL", "0"), ("MALLOC_CONF", "thp:never")];
    let expect = ["MALLOC_CONF=thp:never", "TF_CPP_MIN_LOG_LEVEL=0"];
    check(&spec("cpu", &[0]), &own, &expect);
}

#[test]
fn the_daemons_secrets_are_not_passed() {
    let own = [
        "PATH",
        "AWS_SECRET_ACCESS_KEY",
        "NOTIFY_SOCKET",
        "TRAIND_CACHE_DIR",
        "HF_TOKEN",
        "TRAIND_TOKEN",
        STEP_GATES,
    ]
    .map(|name| (name, "x"));
    let expect = [
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=0",
        "PATH=x",
        "TF_CPP_MIN_LOG_LEVEL=2",
        "TRAIND_CACHE_DIR=x",
    ];
    check(&spec("cuda", &[0]), &own, &expect);
}

#[test]
fn only_jobs_that_need_them_get_credentials() {
    let own = [
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "HTTPS_PROXY",
        "AWS_PROFILE",
        "MLFLOW_TRACKING_TOKEN",
    ];
    let own = || own.iter().map(|name| (OsString::from(name), OsString::from("x")));
    let check = |change: fn(&mut RunSpec), expect: &[&str]| {
        let mut spec = spec("cpu", &[0]);
        change(&mut spec);
        let variables = runner_environment(own(), &spec);
        let secrets = variables.iter().filter(|(_, value)| *value == "x");
        assert_eq!(secrets.map(|(name, _)| name).collect::<Vec<_>>(), expect);
    };
    check(|_| {}, &[]);
    check(
        |spec| {
            spec.job.data.test =
                Some(DataFiles { patterns: vec!["s3://b/a.csv".into()], sets: Vec::new() })
        },
        &["AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY"],
    );
    check(
        |spec| spec.job.model.name_or_path = ModelSource::Hub("org/name".into()),
        &["HF_TOKEN", "HTTPS_PROXY"],
    );
    check(|spec| spec.job.train.push_to_hub = true, &["HF_TOKEN", "HTTPS_PROXY"]);
    check(|spec| spec.job.train.report_to.mlflow = true, &["HTTPS_PROXY", "MLFLOW_TRACKING_TOKEN"]);
}

#[test]
fn planners_that_fetch_get_variables_for_the_hub() {
    let own = [
        "PATH",
        "TRAIND_KERNELS",
        "HF_TOKEN",
        "HF_ENDPOINT",
        "HTTPS_PROXY",
        "AWS_REGION",
        "TRAIND_TOKEN",
    ];
    let own = || own.iter().map(|name| (OsString::from(name), OsString::from("x")));
    let names = |fetches, other_user| {
        let kept = planner_environment(own(), fetches, other_user).map(|(name, _)| name);
        kept.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(false, false), ["PATH", "TRAIND_KERNELS"]);
    assert_eq!(
        names(true, false),
        ["PATH", "TRAIND_KERNELS", "HF_TOKEN", "HF_ENDPOINT", "HTTPS_PROXY"]
    );
    assert_eq!(names(true, true), ["PATH", "TRAIND_KERNELS", "HF_ENDPOINT", "HTTPS_PROXY"]);
}

#[test]
fn secrets_are_among_the_variables_for_jobs() {
    for secret in SECRETS {
        assert!(is_secret(OsStr::new(secret), OsStr::new("x")));
        let passed = [FOR_OBJECTS, FOR_HUB, FOR_MLFLOW];
        assert!(passed.iter().any(|names| names.contains(secret)), "{secret}");
    }
    let is_secret = |name, value| is_secret(OsStr::new(name), OsStr::new(value));
    assert!(!is_secret("AWS_REGION", "x"));
    assert!(is_secret("https_proxy", "http://ann:secret@proxy:3128"));
    assert!(!is_secret("https_proxy", "http://proxy:3128"));
    assert!(is_secret(MLFLOW_SERVER, "https://ann:secret@mlflow"));
    assert!(!is_secret(MLFLOW_SERVER, "https://mlflow"));
    for name in ["HF_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
        assert!(is_secret(name, "https://ann:secret@mirror.example"), "{name}");
        assert!(!is_secret(name, "https://mirror.example"), "{name}");
    }
    assert!(is_secret("ALL_PROXY", "ann:secret@proxy:3128"));
    assert!(!is_secret("AWS_ROLE_SESSION_NAME", "ann@example.org"));
}
