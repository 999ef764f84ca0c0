//! The energy of jobs, on simulated hosts: one whose CPUs have counters in a folder, and one with NVIDIA's
//! driver.

use std::fs;

use traind_proto::v1::{CoreUsage, JobState};

use super::devices::nvidia_host;
use crate::support::answers::answer_as_runner;
use crate::support::host::{Host, until};
use crate::support::http::request;
use crate::support::runner::WAITS_FOR_GO;

/// The counter of the only package at the start, in joules.
const START: u64 = 1000;

/// Sets the counter of the package.
fn set_counter(host: &Host, joules: u64) {
    let zone = host.path("powercap/intel-rapl:0");
    fs::create_dir_all(&zone).unwrap();
    // A write that a reader sees half done would be a wrong reading.
    let put = |name: &str, text: String| {
        fs::write(zone.join("new"), text).unwrap();
        fs::rename(zone.join("new"), zone.join(name)).unwrap();
    };
    put("name", "package-0\n".to_owned());
    put("max_energy_range_uj", "262143328850\n".to_owned());
    put("energy_uj", format!("{joules}000000\n"));
}

fn host_with_counter() -> Host {
    let mut host = Host::new(2, WAITS_FOR_GO);
    set_counter(&host, START);
    let folder = host.path("powercap");
    host.options = vec!["--powercap".into(), folder.to_str().unwrap().into()];
    host.options.extend(["--metrics-address".into(), "127.0.0.1:0".into()]);
    host
}

#[tokio::test]
async fn a_job_has_its_share_of_the_cpus_energy() {
    let mut host = host_with_counter();
    host.start().await;
    let job = host.submit("first", 1).await;
    // Its first events are stored after the counter was read.
    host.until(&job.id, |job| job.progress.is_some()).await;
    set_counter(&host, START + 20);
    let reported = answer_as_runner(&host, &job.id, CoreUsage::default());
    until("the runner knows the energy of its job", || reported.joules() == Some(10.0)).await;
    // A daemon that leaves a job stores its energy, and the next one continues.
    host.stop_daemon().await;
    host.start().await;
    let job = host.until(&job.id, |job| job.energy_joules.is_some()).await;
    assert_eq!((job.state(), job.energy_joules), (JobState::Running, Some(10.0)));
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    let job = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!(job.energy_joules, Some(10.0));
    let shown = String::from_utf8(host.cli(&["get", &job.id]).stdout).unwrap();
    assert!(
        shown.lines().any(|line| line.starts_with("energy") && line.ends_with(" 10 J")),
        "{shown}"
    );
    let json = host.cli(&["get", &job.id, "-o", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["energy_joules"], 10.0);
    let log = host.log();
    let (_, address) = log.rsplit_once("serve metrics address=").unwrap();
    let address = address.split_whitespace().next().unwrap();
    let metrics = request(address, "GET", "/metrics", &[("host", "localhost")]).await.body;
    assert!(metrics.contains("traind_energy_joules{} 10.0\n"), "{metrics}");
}

#[tokio::test]
async fn a_job_has_the_energy_of_its_gpus() {
    let mut host = nvidia_host(WAITS_FOR_GO);
    let plugin = host.path("plugin.so");
    fs::write(&plugin, "").unwrap();
    host.environment.push(("TRAIND_PLUGIN_CUDA".into(), plugin.to_str().unwrap().into()));
    host.start().await;
    let job = host.submit_with("first", "cores: 1, platform: cuda").await;
    host.until(&job.id, |job| job.progress.is_some()).await;
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    let job = host.until_state(&job.id, JobState::Completed).await;
    let joules = job.energy_joules.unwrap();
    // Its counter advances by 250 J with each reading.
    assert!(joules > 0.0 && joules % 250.0 == 0.0, "{joules}");
}
