//! Metrics for Prometheus.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use traind_proto::v1::{Communication, CoreUsage, JobState, Phase, StageUsage};

use crate::support::answers::answer_as_runner;
use crate::support::host::{Host, PATIENCE, until_logged};
use crate::support::http::{Answer, request};
use crate::support::runner::WAITS_FOR_GO;

const OPTIONS: [&str; 3] = ["--metrics-address", "127.0.0.1:0", "--open-metrics"];

async fn get(address: &str, path: &str, host: &str) -> Answer {
    request(address, "GET", path, &[("host", host)]).await
}

async fn address(host: &Host) -> String {
    until_logged(host, "serve metrics address=").await
}

#[tokio::test]
async fn metrics_cover_jobs_cores_and_calls() {
    let host = Host::started_with(2, WAITS_FOR_GO, &OPTIONS).await;
    let address = address(&host).await;
    let runs = host.submit("first", 2).await;
    let waits = host.submit("second", 1).await;
    host.until(&runs.id, |job| job.progress.as_ref().is_some_and(|step| step.step == 20)).await;
    host.until(&waits.id, |job| !job.waiting_reason.is_empty()).await;
    let answer = get(&address, "/metrics", "localhost").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let answer = answer.body;
    let first = format!(r#"job_id="{}",job_name="first""#, runs.id);
    for line in [
        r#"traind_jobs{state="running"} 1"#.to_owned(),
        r#"traind_jobs{state="failed"} 0"#.to_owned(),
        "traind_queue_length{} 1".to_owned(),
        "traind_billed_seconds{} 0".to_owned(),
        "traind_cost{} 0".to_owned(),
        format!(r#"traind_job_step{{{first}"#),
        format!(r#"traind_core_held{{platform="cpu",core="1",{first}"#),
        r#"grpc_server_handled_total{grpc_service="traind.v1.Jobs",grpc_method="CreateJob",grpc_type="unary",grpc_code="Ok"} 2"#.to_owned(),
        "# EOF".to_owned(),
    ] {
        assert!(answer.contains(&line), "{line}\nis not in\n{answer}");
    }
    let loss = answer.lines().find(|line| line.starts_with("traind_job_loss{")).unwrap();
    assert!(loss.ends_with("} 0.05"), "{loss}");

    std::fs::write(host.run_dir(&runs.id).join("go"), "").unwrap();
    host.until_state(&runs.id, JobState::Completed).await;
    // Its runner's process and cores are released a moment later.
    let start = Instant::now();
    let answer = loop {
        let answer = get(&address, "/metrics", "localhost").await.body;
        if !answer.contains(&first) {
            break answer;
        }
        assert!(start.elapsed() < PATIENCE, "series of an ended job remain: {answer}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(answer.contains(r#"traind_jobs{state="completed"} 1"#), "{answer}");
}

/// Reads the metrics with a token of `user`, made with more arguments.
async fn scraped(host: &Host, user: &str, arguments: &[&str]) -> Answer {
    let made = host.cli(&[&["token", "create", user][..], arguments].concat());
    let secret = String::from_utf8(made.stdout).unwrap();
    let bearer = format!("Bearer {}", secret.trim());
    let headers = [("host", "localhost"), ("authorization", bearer.as_str())];
    request(&address(host).await, "GET", "/metrics", &headers).await
}

#[tokio::test]
async fn jobs_are_shown_to_those_who_may_see_them() {
    let host = Host::started_with(1, WAITS_FOR_GO, &OPTIONS[..2]).await;
    let job = host.submit("secret-name", 1).await;
    host.until(&job.id, |job| job.progress.is_some()).await;
    let labels = format!(r#"{{job_id="{}",job_name="secret-name",owner="#, job.id);
    let series = format!("traind_job_step{labels}");
    let holder = r#"traind_core_held{platform="cpu",core="0",job_id="#;

    let anyone = get(&address(&host).await, "/metrics", "localhost").await.body;
    assert!(anyone.contains(r#"traind_jobs{state="running"} 1"#), "{anyone}");
    assert!(anyone.contains(r#"traind_core_held{platform="cpu",core="0",modelName="#), "{anyone}");
    for hidden in ["secret-name", &job.id, &format!("\"{}\"", job.owner)] {
        assert!(!anyone.contains(hidden), "{hidden} is in {anyone}");
    }
    let other = scraped(&host, "ann", &[]).await.body;
    assert!(other.contains(holder) && !other.contains("owner="), "{other}");
    let own = scraped(&host, &job.owner, &["--role", "viewer"]).await.body;
    assert!(own.contains(&series), "{own}");
    let admin = scraped(&host, &job.owner, &[]).await.body;
    assert!(admin.contains(&series), "{admin}");
    let headers = [("host", "localhost"), ("authorization", "Bearer traind_a_b")];
    let refused = request(&address(&host).await, "GET", "/metrics", &headers).await;
    assert_eq!(refused.status, 401, "{refused:?}");
}

#[tokio::test]
async fn a_web_site_cannot_make_a_browser_read_them() {
    let host = Host::started_with(1, WAITS_FOR_GO, &OPTIONS).await;
    let answer = get(&address(&host).await, "/metrics", "rebound.example.org").await;
    assert_eq!(answer.status, 421, "{answer:?}");
}

#[tokio::test]
async fn a_public_address_is_refused_at_startup() {
    let mut host = Host::new(1, WAITS_FOR_GO);
    host.options = vec!["--metrics-address".into(), "0.0.0.0:0".into()];
    let output = host.serve().stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("other machines"), "{said}");
}

/// The names of the metrics in the exposition.
fn declared(exposition: &str) -> BTreeSet<String> {
    let types = exposition.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// The names of our metrics in a file of queries, without the suffixes of their types.
fn queried(queries: &str) -> BTreeSet<String> {
    let words = queries.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("traind_") || word.starts_with("grpc_server_"));
    ours.map(|word| word.trim_end_matches("_total").trim_end_matches("_bucket").to_owned())
        .collect()
}

#[tokio::test]
async fn dashboard_and_alerts_query_existing_metrics() {
    let host = Host::started_with(2, WAITS_FOR_GO, &OPTIONS).await;
    let runs = host.submit("first", 1).await;
    host.submit("second", 2).await;
    host.until(&runs.id, |job| job.progress.is_some()).await;
    let usage = CoreUsage {
        phase: Phase::Compute.into(),
        step: 20,
        stage: Some(StageUsage { stage: 1, stages: 2, bubble_percent: 25.0 }),
        communication: Some(Communication {
            tensor_bytes_per_second: 1e6,
            pipeline_bytes_per_second: 2e6,
            ..Default::default()
        }),
        ..Default::default()
    };
    answer_as_runner(&host, &runs.id, usage);
    let exposition = get(&address(&host).await, "/metrics", "localhost").await.body;
    let value = |metric: &str, label: &str| {
        let mut lines = exposition.lines().filter(|line| line.starts_with(metric));
        let line = lines.find(|line| line.contains(label))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    assert_eq!(value("traind_core_bubble_ratio{", "stage=\"1\""), Some(0.25));
    let sent =
        |axis: &str| value("traind_core_sent_bytes_per_second{", &format!("axis=\"{axis}\""));
    assert_eq!([sent("tensor"), sent("pipeline"), sent("data")], [Some(1e6), Some(2e6), None]);
    let declared = declared(&exposition);
    for file in ["rules.yaml", "grafana-dashboard.json"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/monitoring").join(file);
        let queried = queried(&std::fs::read_to_string(path).unwrap());
        assert!(queried.len() > 5, "{queried:?}");
        let unknown: Vec<_> = queried.difference(&declared).collect();
        assert!(unknown.is_empty(), "{file} queries {unknown:?}, of {declared:?}");
    }
}
