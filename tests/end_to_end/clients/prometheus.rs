//! A real Prometheus with the shipped configuration scrapes a daemon while a job trains.
//! `TRAIND_TEST_PROMETHEUS` names the program; `scripts/test` sets it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use traind_tests::{Draft, Host, timeout};

/// Expressions that yield a series while a job trains.
const SERIES: &[&str] = &[
    "up == 1",
    "traind_jobs{state=\"running\"} == 1",
    "traind_job_step{job_name=\"watched\"} > 0",
    "traind_job_loss{job_name=\"watched\"} > 0",
    "traind_job_samples_per_second > 0",
    "rate(traind_job_step[10s]) > 0",
    "traind_core_held == 1",
    "traind_core_utilization_ratio > 0",
    "traind_core_memory_used_bytes / traind_core_memory_total_bytes < 1",
    "traind_core_memory_bytes > 0",
    "traind_core_flops_per_second > 0",
    "grpc_server_handled_total{grpc_method=\"CreateJob\"} == 1",
    "grpc_server_handling_seconds_bucket{le=\"+Inf\"} > 0",
];

/// A Prometheus that is killed at the end of the test.
struct Prometheus {
    process: Child,
    address: String,
}

impl Prometheus {
    fn start(program: &Path, folder: &Path, daemon: &str) -> Prometheus {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/monitoring");
        let config = fs::read_to_string(shipped.join("prometheus.yaml")).unwrap();
        assert!(config.contains("127.0.0.1:9400") && config.contains("15s"), "{config}");
        let config = config.replace("127.0.0.1:9400", daemon).replace("15s", "1s");
        fs::write(folder.join("prometheus.yaml"), config).unwrap();
        fs::copy(shipped.join("rules.yaml"), folder.join("rules.yaml")).unwrap();
        let address = free_address();
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let process = Command::new(program)
            .arg(format!("--config.file={}", folder.join("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("series").display()))
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Prometheus { process: process.unwrap(), address }
    }

    /// A response of its API; `None` until it serves.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The number of series that an expression yields.
    fn count(&self, expression: &str) -> usize {
        let escape = |byte: u8| format!("%{byte:02x}");
        let escaped: String = expression.bytes().map(escape).collect();
        let answer = self.get(&format!("/api/v1/query?query={escaped}"));
        let result = answer.as_ref().and_then(|answer| answer["data"]["result"].as_array());
        result.map_or(0, Vec::len)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_every_metric_and_loads_the_rules() {
    let given = std::env::var_os("TRAIND_TEST_PROMETHEUS").filter(|path| !path.is_empty());
    let Some(program) = given.map(PathBuf::from) else {
        return eprintln!("skipped: TRAIND_TEST_PROMETHEUS names no Prometheus");
    };
    let daemon = free_address();
    let host = Host::started_with(1, &["--metrics-address", &daemon, "--open-metrics"]).await;
    let draft = Draft::new(&host, "watched").endless();
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 1).await;
    let prometheus = Prometheus::start(&program, &host.path(""), &daemon);
    let start = Instant::now();
    let mut missing: Vec<&str> = SERIES.to_vec();
    while !missing.is_empty() {
        missing.retain(|expression| prometheus.count(expression) == 0);
        let log = || fs::read_to_string(host.path("prometheus.log")).unwrap();
        assert!(start.elapsed() < timeout(), "no series for {missing:#?}\n{}", log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let rules = prometheus.get("/api/v1/rules").unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    assert!(rules.clone().count() > 0);
    let broken: Vec<&Value> = rules.filter(|rule| rule["health"] == "err").collect();
    assert!(broken.is_empty(), "{broken:#?}");
    host.cancel(&job.id).await;
}
