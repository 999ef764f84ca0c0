//! Runs that were started without the daemon, and that it follows later.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tonic::Code;
use traind_proto::event_log::EventLogWriter;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{AdoptRunRequest, JobState, ListJobsRequest, Outcome};

use crate::support::host::{Host, until_file};
use crate::support::runner::{COMPLETES, finished, started, step};

/// A run on two hosts, of which only the folder exists.
pub(crate) struct Run {
    pub(crate) folder: PathBuf,
    log: EventLogWriter,
}

impl Run {
    pub(crate) fn begin(folder: &Path) -> Run {
        let folder = folder.join("run");
        fs::create_dir_all(&folder).unwrap();
        let spec = serde_json::json!({
            "job_id": "wide",
            "attempt": 1,
            "job": {
                "name": "wide",
                "model": {"name_or_path": "/model", "task": "sequence-classification"},
                "data": {"train": "/train.csv"},
                "resources": {"hosts": 2, "cores": 4},
                "output_dir": folder.parent(),
            },
            "cores": [0, 1, 2, 3],
            "plugin": "/plugin.so",
            "cache_dir": "/cache",
        });
        fs::write(folder.join("run.json"), spec.to_string()).unwrap();
        let log = EventLogWriter::open(&folder.join("events.log")).unwrap();
        let mut run = Run { folder, log };
        run.log(started());
        run
    }

    fn log(&mut self, kind: Kind) {
        self.log.append(kind).unwrap();
    }
}

fn adopt(host: &Host) -> String {
    let adopted = host.cli(&["adopt", "out/run"]);
    assert!(adopted.status.success(), "{adopted:?}");
    String::from_utf8(adopted.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn an_adopted_run_is_followed_over_a_drain_to_its_end() {
    let mut host = Host::started(1, COMPLETES).await;
    let mut run = Run::begin(&host.path("out"));
    run.log(step(7));
    let id = adopt(&host);
    let job = host.until(&id, |job| job.progress.as_ref().is_some_and(|it| it.step == 7)).await;
    assert_eq!(job.state(), JobState::Running);
    assert_eq!((job.name.as_str(), job.engine.as_str()), ("wide", "adopted"));
    assert_eq!((job.host_count, job.core_count, job.cores.len()), (2, 8, 0));
    assert_eq!(adopt(&host), id, "a run has one job");
    // A local job runs beside it.
    let local = host.submit("local", 1).await;
    host.until_state(&local.id, JobState::Completed).await;

    assert!(host.cli(&["drain"]).status.success());
    host.daemon_end().await;
    assert!(!run.folder.join("stop").exists(), "others started it");
    run.log(step(8));
    host.start().await;
    host.until(&id, |job| job.progress.as_ref().is_some_and(|it| it.step == 8)).await;
    run.log(finished(Outcome::Completed, None));
    let job = host.until_state(&id, JobState::Completed).await;
    assert_eq!((job.metrics.get("eval_accuracy"), job.attempt), (Some(&0.5), 1));
    // Another job has the same history.
    let again = adopt(&host);
    assert_ne!(again, id);
    host.until_state(&again, JobState::Completed).await;
}

#[tokio::test]
async fn an_adopted_run_is_followed_by_the_daemon_of_a_restored_backup() {
    let mut host = Host::started(1, COMPLETES).await;
    let mut run = Run::begin(&host.path("out"));
    run.log(step(7));
    let id = adopt(&host);
    host.until(&id, |job| job.progress.as_ref().is_some_and(|it| it.step == 7)).await;
    assert!(host.cli(&["backup", "kept", "--state-dir", "state"]).status.success());
    run.log(step(8));
    host.kill_daemon();
    let kept = host.path("kept").display().to_string();
    let (mut other, mut without) = (Host::new(1, COMPLETES), Host::new(1, COMPLETES));
    for host in [&mut other, &mut without] {
        assert!(host.cli(&["restore", &kept, "--state-dir", "state"]).status.success());
    }
    other.start().await;
    run.log(finished(Outcome::Completed, None));
    let job = other.until_state(&id, JobState::Completed).await;
    assert_eq!((job.metrics.get("eval_accuracy"), job.attempt), (Some(&0.5), 1));
    // A host that does not see the folder says so.
    fs::rename(&run.folder, host.path("moved")).unwrap();
    without.start().await;
    let failure = without.until_state(&id, JobState::Failed).await.failure.unwrap();
    let folder = run.folder.display().to_string();
    assert!(
        failure.message.contains(&folder) && failure.message.contains("removed"),
        "{failure:?}"
    );
}

#[tokio::test]
async fn an_adopted_run_is_asked_to_stop_by_a_file() {
    let host = Host::started(1, COMPLETES).await;
    let mut run = Run::begin(&host.path("out"));
    let id = adopt(&host);
    host.until_state(&id, JobState::Running).await;
    host.cancel(&id).await.unwrap();
    until_file(&run.folder.join("stop")).await;
    assert_eq!(fs::read_to_string(run.folder.join("stop")).unwrap(), "cancel");
    run.log(finished(Outcome::Cancelled, None));
    host.until_state(&id, JobState::Cancelled).await;
}

#[tokio::test]
async fn a_run_that_others_stop_is_cancelled_and_not_started_by_the_daemon() {
    let host = Host::started(1, COMPLETES).await;
    let mut run = Run::begin(&host.path("out"));
    let id = adopt(&host);
    run.log(finished(Outcome::Cancelled, None));
    let job = host.until_state(&id, JobState::Cancelled).await;
    assert_eq!(job.cancel_reason, "stopped without the daemon");
}

#[tokio::test]
async fn a_folder_without_a_run_is_refused() {
    let host = Host::started(1, COMPLETES).await;
    let refusal = async |folder: &str| {
        let request = AdoptRunRequest { run_dir: folder.to_owned() };
        let status = host.jobs().await.adopt_run(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        status.message().to_owned()
    };
    assert!(refusal("out/run").await.contains("must be an absolute path"));
    assert!(refusal("/nonexistent").await.contains("No such file"));
    assert!(refusal(host.path("model").to_str().unwrap()).await.contains("run.json"));
    let job = host.submit("own", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    let own = refusal(host.run_dir(&job.id).to_str().unwrap()).await;
    assert!(own.contains("is the folder of a job of this daemon"), "{own}");
    // A link to a file that the caller may not be able to read.
    let run = Run::begin(&host.path("out"));
    let spec = run.folder.join("run.json");
    fs::rename(&spec, host.path("elsewhere.json")).unwrap();
    std::os::unix::fs::symlink(host.path("elsewhere.json"), &spec).unwrap();
    assert!(refusal(run.folder.to_str().unwrap()).await.contains("run.json"));
}

/// Changes a run's `run.json`, which is its user's file.
pub(crate) fn forge(run: &Run, change: impl Fn(&mut serde_json::Value)) {
    let path = run.folder.join("run.json");
    let mut spec = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut spec);
    fs::write(&path, spec.to_string()).unwrap();
}

#[tokio::test]
async fn a_run_is_within_the_limits_of_a_submission() {
    let host = Host::started(1, COMPLETES).await;
    let run = Run::begin(&host.path("out"));
    let refusal = async |change: &dyn Fn(&mut serde_json::Value)| {
        let before = fs::read(run.folder.join("run.json")).unwrap();
        forge(&run, change);
        let request = AdoptRunRequest { run_dir: run.folder.display().to_string() };
        let status = host.jobs().await.adopt_run(request).await.unwrap_err();
        fs::write(run.folder.join("run.json"), before).unwrap();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().len() < 1000 && status.message().contains("run.json"));
        status.message().to_owned()
    };
    let long = refusal(&|spec| spec["job"]["name"] = "a".repeat(1 << 20).into()).await;
    assert!(long.contains("name must have at most 128 characters"), "{long}");
    let lines = refusal(&|spec| spec["job"]["name"] = "a\nok".into()).await;
    assert!(lines.contains("one line"), "{lines}");
    let huge = refusal(&|spec| spec["plugin"] = "a".repeat(5 << 20).into()).await;
    assert!(huge.contains("is longer than"), "{huge}");
    let late = refusal(&|spec| spec["attempt"] = u32::MAX.into()).await;
    assert!(late.contains("attempt must be"), "{late}");
    adopt(&host);
}

/// Kills the daemon at some moments of an adoption: the next one starts, and the run has one job.
#[tokio::test]
async fn an_adoption_that_a_kill_interrupts_can_be_repeated() {
    let mut host = Host::started(1, COMPLETES).await;
    let mut run = Run::begin(&host.path("out"));
    let folder = run.folder.display().to_string();
    for delay in [0, 2, 4, 8, 16] {
        let mut adopting = host.traind();
        adopting.args(["adopt", &folder]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut adopting = adopting.spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(delay)).await;
        host.kill_daemon();
        adopting.kill().unwrap();
        adopting.wait().unwrap();
        host.start().await;
    }
    let id = adopt(&host);
    assert_eq!(adopt(&host), id);
    let jobs = host.jobs().await.list_jobs(ListJobsRequest::default()).await.unwrap();
    assert_eq!(jobs.into_inner().jobs.len(), 1);
    run.log(step(9));
    host.until(&id, |job| job.progress.as_ref().is_some_and(|it| it.step == 9)).await;
    run.log(finished(Outcome::Completed, None));
    host.until_state(&id, JobState::Completed).await;
}
