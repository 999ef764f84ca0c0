//! Repeated kills of the daemon while jobs are submitted and run.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use traind_proto::v1::{self, JobState};

use super::{Random, count, is_long, percentile};
use crate::jobs::recovery::assert_whole;
use crate::support::host::Host;
use crate::support::runner::{self, WAITS_FOR_GO};

#[tokio::test]
async fn kills_neither_lose_nor_duplicate_jobs() {
    let kills = count("TRAIND_SOAK_KILLS", 5);
    let mut host = Host::started(2, WAITS_FOR_GO).await;
    let long = host.submit("long", 1).await;
    host.until(&long.id, |job| job.progress.as_ref().is_some_and(|p| p.step == 20)).await;
    let pids = runner::pids(&host.run_dir(&long.id));
    assert_eq!(pids.len(), 1);
    let (mut random, mut attached, mut ids) = (Random(7), Vec::new(), Vec::new());
    for kill in 0..kills {
        let mut request = host.request(&format!("short-{kill}"), 1);
        request.request_id = format!("request-{kill}");
        fs::write(host.path("job.yaml"), &request.job_file).unwrap();
        let mut submit = host.traind();
        submit.args(["submit", "job.yaml", "--request-id", &request.request_id]);
        let submitting = submit.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        tokio::time::sleep(Duration::from_micros(random.below(60_000))).await;
        host.kill_daemon();
        let start = Instant::now();
        host.start().await;
        assert_eq!(host.get(&long.id).await.state(), JobState::Running);
        attached.push(start.elapsed());
        assert_eq!(runner::pids(&host.run_dir(&long.id)), pids, "the same runner, and only it");
        let submitted = submitting.wait_with_output().unwrap();
        let job = host.create(request).await.unwrap();
        let text = String::from_utf8_lossy(&submitted.stdout);
        assert_eq!(text.trim(), job.id, "created once: {submitted:?}");
        let _ = fs::create_dir_all(host.run_dir(&job.id));
        fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
        ids.push(job.id);
    }
    fs::write(host.run_dir(&long.id).join("go"), "").unwrap();
    for id in ids.iter().chain([&long.id]) {
        assert_whole(&host.events(id, 1).await);
        assert_eq!(host.get(id).await.state(), JobState::Completed, "{id}");
    }
    let list = v1::ListJobsRequest { page_size: 1000, ..Default::default() };
    let listed = host.jobs().await.list_jobs(list).await.unwrap().into_inner().jobs.len();
    assert_eq!(listed, (kills + 1).min(1000));
    assert_eq!(runner::pids(&host.path("state/jobs")), [], "no orphans");
    let p99 = percentile(&mut attached, 99);
    println!("{kills} kills: 0 jobs lost or doubled, 0 orphans; attached again p99 {p99:?}");
    assert!(!is_long() || p99 <= Duration::from_secs(2), "{p99:?}");
}
