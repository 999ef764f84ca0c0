//! Device statistics, on simulated hosts: a trn1.2xlarge, and one with NVIDIA's driver (`nvml.c`,
//! which is compiled here).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use traind_proto::v1::{Core, DeviceFigures, ListCoresRequest};

use crate::support::host::{Host, PATIENCE};
use crate::support::runner::COMPLETES;

const MONITOR: &str = r#"#!/bin/sh
while :; do
  echo '{"neuron_runtime_data": [{"report": {"neuroncore_counters": {"neuroncores_in_use": {"1": {"neuroncore_utilization": 62.5}}}}}]}'
  sleep 0.2
done
"#;

pub(super) fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A trn1.2xlarge whose runner is the shell script `script`.
pub(super) fn neuron_host(script: &str) -> Host {
    let mut host = Host::new(2, script);
    let (sysfs, tools) = (host.path("sysfs"), host.path("tools"));
    put(&sysfs.join("neuron0/core_count"), "2\n");
    put(&sysfs.join("neuron0/info/architecture/device_name"), "Trainium1\n");
    for core in 0..2 {
        let memory = format!("neuron0/neuron_core{core}/stats/memory_usage/device_mem/total");
        put(&sysfs.join(memory), "4096\n");
    }
    let monitor = tools.join("neuron-monitor");
    put(&monitor, MONITOR);
    fs::set_permissions(monitor, Permissions::from_mode(0o755)).unwrap();
    let option = |name: &str, path: &Path| format!("{name}={}", path.display());
    host.options = vec![
        "--platform=neuron".to_owned(),
        option("--neuron-sysfs", &sysfs),
        option("--neuron-tools", &tools),
    ];
    host
}

/// A host with NVIDIA's driver whose runner is the shell script `script`.
pub(super) fn nvidia_host(script: &str) -> Host {
    let mut host = Host::new(2, script);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/daemon/services/nvml.c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(host.path("libnvidia-ml.so.1")).arg(source);
    assert!(compile.status().unwrap().success(), "{compile:?}");
    host.environment =
        vec![("LD_LIBRARY_PATH".to_owned(), host.path("").to_str().unwrap().to_owned())];
    host.options = vec!["--platform=cuda".to_owned()];
    host
}

pub(super) async fn cores(host: &Host) -> Vec<Core> {
    let reply = host.cores().await.list_cores(ListCoresRequest::default()).await;
    reply.unwrap().into_inner().cores
}

#[tokio::test]
async fn free_cores_have_statistics_of_driver_and_monitor() {
    let mut host = neuron_host(COMPLETES);
    host.start().await;
    let start = Instant::now();
    let reading = loop {
        let reading = cores(&host).await;
        let second = reading[1].figures.as_ref().unwrap();
        if second.utilization_percent.is_some() {
            break reading;
        }
        assert!(start.elapsed() < PATIENCE, "{reading:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        reading.iter().map(|core| core.device.as_str()).collect::<Vec<_>>(),
        ["Trainium1"; 2]
    );
    let statistics = |core: usize| reading[core].figures.as_ref().unwrap();
    assert_eq!(statistics(1).utilization_percent, Some(62.5));
    assert_eq!(statistics(0).memory_used_bytes, Some(4096), "from sysfs");
    let said = String::from_utf8(host.cli(&["cores"]).stdout).unwrap();
    assert!(said.contains("Trainium1") && said.contains("62 %, 4.0 KiB"), "{said}");
}

#[tokio::test]
async fn gpus_have_statistics_and_lost_ones_keep_their_number() {
    let mut host = nvidia_host(COMPLETES);
    host.start().await;
    let start = Instant::now();
    let reading = loop {
        let reading = cores(&host).await;
        if reading[0].figures.is_some() {
            break reading;
        }
        assert!(start.elapsed() < PATIENCE, "{reading:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        reading.iter().map(|core| (core.core, core.device.as_str())).collect::<Vec<_>>(),
        [(0, "NVIDIA H100 80GB HBM3"), (1, "cuda")]
    );
    let expected = DeviceFigures {
        utilization_percent: Some(87.0),
        memory_used_bytes: Some(20 << 30),
        memory_total_bytes: Some(80 << 30),
        temperature_celsius: Some(61.0),
        power_watts: Some(512.5),
        ..DeviceFigures::default()
    };
    assert_eq!(reading[0].figures, Some(expected));
    assert_eq!(reading[1].figures, None);
    let said = String::from_utf8(host.cli(&["cores"]).stdout).unwrap();
    assert!(said.contains("NVIDIA H100 80GB HBM3") && said.contains("87 %, 20.0 GiB"), "{said}");
}

#[tokio::test]
async fn without_devices_the_error_names_the_searched_paths() {
    let mut host = Host::new(1, COMPLETES);
    host.options = vec!["--platform=neuron".into(), "--neuron-sysfs=/nowhere/sysfs".into()];
    host.options.push("--neuron-tools=/nowhere/bin".into());
    let mut command = host.serve();
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let cores = arguments.iter().position(|argument| argument == "--cores").unwrap();
    let mut without_count = host.traind();
    without_count.args(&arguments[..cores]).args(&arguments[cores + 2..]);
    let said = without_count.output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    for part in ["/nowhere/sysfs", "/nowhere/bin/neuron-ls", "--cores"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(!said.status.success());
    // With a given number of cores, no driver is needed.
    let mut daemon = command.spawn().unwrap();
    let start = Instant::now();
    while !host.socket().exists() {
        assert!(start.elapsed() < PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}
