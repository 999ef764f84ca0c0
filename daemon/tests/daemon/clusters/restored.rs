//! Jobs in clusters at a backup that is restored on another host: none runs twice, and each says what became of it.

use std::fs;
use std::path::Path;

use traind_proto::v1::{Event, Job, JobState, event::Kind};

use super::waits;
use crate::support::host::{Host, until};
use crate::support::kubernetes::{Cluster, kubectl};
use crate::support::runner::WAITS_FOR_GO;
use crate::support::slurm::Slurm;

/// The host's jobs in Slurm fail if the test creates the file `fail` in the run folder, too.
const WAITS_FOR_AN_END: &str = "
trap 'exit 3' TERM INT
say started; say_steps 1 20
until [ -e go ]; do sleep 0.02; done
[ ! -e fail ] || exit 4
say_steps 21 40; say completed; exit 0";

async fn started(options: &[&str]) -> (Host, Slurm) {
    let mut host = Host::new(1, WAITS_FOR_AN_END);
    let slurm = Slurm::install(&mut host);
    host.options = options.iter().map(|option| (*option).to_owned()).collect();
    host.start().await;
    (host, slurm)
}

async fn submit(host: &Host, name: &str) -> Job {
    host.submit_with(name, "cores: 4, hosts: 2, engine: slurm").await
}

async fn until_trained(host: &Host, job: &Job) {
    host.until(&job.id, |job| job.progress.as_ref().is_some_and(|it| it.step == 20)).await;
    host.until(&job.id, |job| !job.host_names.is_empty()).await;
}

fn back_up(host: &Host) {
    let (succeeded, said) = host.said(&["backup", "kept", "--state-dir", "state"]);
    assert!(succeeded, "{said}");
}

/// Another host with the backup of this one, and the same cluster.
async fn restored(host: &Host) -> Host {
    let mut other = Host::new(1, WAITS_FOR_AN_END);
    other.environment = host.environment.clone();
    other.options = vec!["--restart-delay=0".to_owned()];
    let kept = host.path("kept");
    let (succeeded, said) =
        other.said(&["restore", kept.to_str().unwrap(), "--state-dir", "state"]);
    assert!(succeeded, "{said}");
    other.start().await;
    other
}

/// Lets the runner of a job end that was started with a run folder below `jobs`.
fn finish(jobs: &Path, job: &Job) {
    fs::write(jobs.join(&job.id).join("go"), "").unwrap();
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let warnings = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::Warning(warning)) if warning.code == "RESTORED" => {
            Some(warning.message.as_str())
        }
        _ => None,
    });
    warnings.collect()
}

fn steps(events: &[Event]) -> Vec<u64> {
    let steps = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::Step(step)) => Some(step.step),
        _ => None,
    });
    steps.collect()
}

#[tokio::test]
async fn jobs_that_run_in_slurm_are_followed_further_even_if_they_were_submitted_later() {
    let (mut host, slurm) = started(&["--cluster-jobs-per-user=2"]).await;
    let first = submit(&host, "first").await;
    let ended = submit(&host, "ended").await;
    let waiting = submit(&host, "waiting").await;
    until_trained(&host, &first).await;
    until_trained(&host, &ended).await;
    back_up(&host);
    // The daemon goes on without the backup knowing: it submits the third job.
    let jobs = host.path("state/jobs");
    finish(&jobs, &ended);
    host.until_state(&ended.id, JobState::Completed).await;
    until_trained(&host, &waiting).await;
    host.kill_daemon();

    let mut other = restored(&host).await;
    for (job, attempt) in [(&first, 1), (&waiting, 2)] {
        let note = other.records(&job.id).join("restored.json");
        let follows = || fs::read_to_string(&note).is_ok_and(|it| it.contains("follows\":{"));
        until("it is followed", follows).await;
        // A later daemon follows it, too.
        other.kill_daemon();
        other.start().await;
        finish(&jobs, job);
        let completed = other.until_state(&job.id, JobState::Completed).await;
        assert_eq!(completed.attempt, attempt);
    }
    // Its log says how it ended.
    other.until_state(&ended.id, JobState::Completed).await;
    for job in [&first, &ended, &waiting] {
        let events = other.events(&job.id, 0).await;
        assert_eq!(steps(&events), (1..=40).collect::<Vec<_>>(), "{events:?}");
        let [warning] = warnings(&events)[..] else { panic!("{events:?}") };
        assert!(warning.contains("follows Slurm job"), "{warning}");
        assert!(warning.contains(jobs.join(&job.id).to_str().unwrap()), "{warning}");
        assert_eq!(other.get(&job.id).await.metrics.get("eval_accuracy"), Some(&0.5));
    }
    assert_eq!(slurm.count(), 3, "nothing was submitted again");
}

#[tokio::test]
async fn jobs_whose_run_folder_is_not_visible_end_as_slurm_says() {
    let (mut host, slurm) = started(&[]).await;
    let mut jobs = Vec::new();
    for name in ["completes", "fails", "cancelled", "forgotten", "stopped"] {
        jobs.push(submit(&host, name).await);
        until_trained(&host, jobs.last().unwrap()).await;
    }
    let [completes, fails, cancelled, forgotten, stopped] = &jobs[..] else { panic!() };
    back_up(&host);
    host.kill_daemon();
    fs::rename(host.path("state"), host.path("lost")).unwrap();
    let lost = host.path("lost/jobs");
    finish(&lost, forgotten);
    until("it has ended", || slurm.read("10/state").trim() == "COMPLETED").await;
    fs::remove_file(slurm.file("10/state")).unwrap();

    let other = restored(&host).await;
    let event = |events: &[Event]| warnings(events).join("\n");
    for job in [completes, fails, cancelled, stopped] {
        other.until(&job.id, |job| job.state() == JobState::Running).await;
    }
    fs::write(lost.join(&fails.id).join("fail"), "").unwrap();
    finish(&lost, completes);
    finish(&lost, fails);
    slurm.run("scancel", &["9"]);
    other.cancel(&stopped.id).await.unwrap();

    let ended = other.until_state(&completes.id, JobState::Completed).await;
    assert_eq!(ended.attempt, 1);
    let said = event(&other.events(&completes.id, 0).await);
    assert!(said.contains("follows Slurm job 7 by what the cluster says of it"), "{said}");
    assert!(said.contains("Slurm job 7 completed, of which nothing else is known"), "{said}");
    let failure = other.until_state(&fails.id, JobState::Failed).await.failure.unwrap();
    assert!(failure.message.contains("Slurm job 8 failed"), "{failure:?}");
    assert!(failure.message.contains("which is not visible here"), "{failure:?}");
    let ended = other.until_state(&cancelled.id, JobState::Cancelled).await;
    assert_eq!(ended.cancel_reason, "cancelled in its cluster");
    other.until_state(&stopped.id, JobState::Cancelled).await;
    assert!(slurm.read("cancelled").contains("INT 11\n"), "{}", slurm.read("cancelled"));
    // What nobody knows resumes from its checkpoint.
    other.until(&forgotten.id, |job| job.attempt == 2 && job.state() == JobState::Running).await;
    finish(&other.path("state/jobs"), forgotten);
    other.until_state(&forgotten.id, JobState::Completed).await;
    let events = other.events(&forgotten.id, 0).await;
    let reasons = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::StateChanged(change)) => Some(change.reason.as_str()),
        _ => None,
    });
    let reasons: Vec<&str> = reasons.collect();
    assert!(reasons.iter().any(|it| it.contains("has no record any more")), "{reasons:?}");
    assert_eq!(slurm.count(), 6);
}

#[tokio::test]
async fn a_job_that_never_reached_slurm_is_submitted_by_the_restored_daemon() {
    let (mut host, slurm) = started(&["--cluster-jobs-per-user=1"]).await;
    let first = submit(&host, "first").await;
    let second = submit(&host, "second").await;
    until_trained(&host, &first).await;
    host.until(&second.id, |job| job.waiting_reason.contains("in clusters")).await;
    back_up(&host);
    host.kill_daemon();
    let other = restored(&host).await;
    until_trained(&other, &second).await;
    finish(&host.path("state/jobs"), &first);
    finish(&other.path("state/jobs"), &second);
    for job in [&first, &second] {
        other.until_state(&job.id, JobState::Completed).await;
    }
    assert_eq!(slurm.count(), 2);
    assert_eq!(warnings(&other.events(&second.id, 0).await), [""; 0]);
}

#[tokio::test]
async fn jobs_that_run_in_kubernetes_are_followed_further_and_deleted_ones_resume() {
    let Some(kubectl) = kubectl() else { return };
    let mut cluster = Cluster::start(&kubectl, WAITS_FOR_GO).await;
    let image = "kubernetes: {image: traind}";
    let mut jobs = Vec::new();
    for name in ["runs", "deleted"] {
        let job = cluster.submit_as(name, "", image).await;
        let name = cluster.until_created(&job, 1).await;
        cluster.run_pods(&name);
        until_trained(&cluster.host, &job).await;
        jobs.push((job, name));
    }
    let [(runs, _), (deleted, deleted_name)] = &jobs[..] else { panic!() };
    back_up(&cluster.host);
    cluster.host.kill_daemon();
    // As a day after its end.
    cluster.api.objects(|objects| objects.remove(deleted_name));

    let before = cluster.host.path("state/jobs");
    let other = restored(&cluster.host).await;
    other.until(&runs.id, |job| !job.host_names.is_empty()).await;
    finish(&before, runs);
    assert_eq!(other.until_state(&runs.id, JobState::Completed).await.attempt, 1);
    let events = other.events(&runs.id, 0).await;
    assert_eq!(steps(&events), (1..=40).collect::<Vec<_>>(), "{events:?}");
    other.until(&deleted.id, |job| job.attempt == 2 && !job.waiting_reason.is_empty()).await;
    other.cancel(&deleted.id).await.unwrap();
    let events = other.events(&deleted.id, 0).await;
    let [warning] = warnings(&events)[..] else { panic!("{events:?}") };
    assert!(
        warning.contains(&format!("there is no Kubernetes job default/{deleted_name} any more")),
        "{warning}"
    );
    let again = waits(&events);
    assert!(
        again.iter().any(|it| it.contains(&format!("traind-{}-2 waits", deleted.id))),
        "{again:?}"
    );
}
