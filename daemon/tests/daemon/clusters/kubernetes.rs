//! Jobs that Kubernetes places, by a real `kubectl` and an API server of the tests.

use std::fs;

use serde_json::json;
use tokio::process::Command;
use traind_proto::v1::{Job, JobState};

use super::waits;
use crate::support::host::{Host, until, until_file};
use crate::support::kubernetes::api::{Fault, Recorded};
use crate::support::kubernetes::objects::UNSCHEDULED;
use crate::support::kubernetes::{Cluster, kubectl};
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED, WAITS_FOR_GO};

/// The job's options in its file.
const IMAGE: &str = "kubernetes: {image: traind}";
/// All options.
const ALL: &str = "kubernetes:
  image: registry.example/traind:1
  namespace: train
  service_account: trainer
  priority_class: batch
  image_pull_secret: pull
  node_selector: {topology.kubernetes.io/zone: b}
  limits: {memory: 64Gi, vpc.amazonaws.com/efa: 4}
  tolerations:
    - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
    - {key: spot, value: yes-please, effect: NoExecute, toleration_seconds: 60}
  labels: {team: a}
  annotations: {example.com/owner: A B}
";
const JOBS: &str = "POST /apis/batch/v1/namespaces/default/jobs";
const JOB: &str = "GET /apis/batch/v1/namespaces/default/jobs/";
const PODS: &str = "GET /api/v1/namespaces/default/pods";
const SERVICES: &str = "POST /api/v1/namespaces/default/services";
const DELETE: &str = "DELETE /apis/batch/v1/namespaces/default/jobs/";

#[tokio::test]
async fn a_job_is_created_followed_and_completed() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, WAITS_FOR_GO).await;
    let (host, api) = (&cluster.host, &cluster.api);
    let job = cluster.submit_with(", max_run_seconds: 600", ALL).await;
    let name = cluster.until_created(&job, 1).await;
    let waiting = host.until(&job.id, |job| !job.waiting_reason.is_empty()).await;
    assert_eq!(waiting.waiting_reason, format!("Kubernetes job train/{name} waits: {UNSCHEDULED}"));
    cluster.run_pods(&name);
    let running = host.until(&job.id, |job| !job.host_names.is_empty()).await;
    assert_eq!((running.host_names.as_str(), running.engine.as_str()), ("n1,n2", "kubernetes"));
    cluster.finish(&job);
    host.until_state(&job.id, JobState::Completed).await;
    let [created, service]: [Recorded; 2] = api.requests("POST").try_into().unwrap();
    let validated = "?fieldValidation=Strict";
    let expect = format!("POST /apis/batch/v1/namespaces/train/jobs{validated}");
    assert_eq!((created.line, &created.body["spec"]["completions"]), (expect, &json!(2)));
    let expect = format!("POST /api/v1/namespaces/train/services{validated}");
    assert_eq!(service.line, expect);
    assert_eq!(service.body["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    let (job, pods) = (format!("jobs/{name}"), format!("pods?labelSelector=traind%2Fjob%3D{name}"));
    let others = api.requests("GET");
    assert!(
        others.iter().all(|it| it.line.ends_with(&job) || it.line.ends_with(&pods)),
        "{others:?}"
    );
}

#[tokio::test]
async fn a_cancelled_job_is_deleted_with_all_that_it_owns() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, STOPS_WHEN_ASKED).await;
    let (host, job) = (&cluster.host, cluster.submit(IMAGE).await);
    let name = cluster.until_created(&job, 1).await;
    cluster.run_pods(&name);
    host.until_state(&job.id, JobState::Running).await;
    // The server refuses the first requests, and the next ones do not reach it.
    let conflict = Fault::Answer(409, "Conflict", "the object has been modified");
    cluster.api.plan(DELETE, conflict, 1);
    cluster.api.plan(DELETE, Fault::Lost, 1);
    host.cancel(&job.id).await.unwrap();
    cluster.terminate_deleted(&name).await;
    host.until_state(&job.id, JobState::Cancelled).await;
    assert!(cluster.api.has_failed());
    let left = cluster.api.objects(|it| it.jobs.len() + it.pods.len() + it.services.len());
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_job_that_somebody_deletes_is_cancelled() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, COMPLETES).await;
    let (host, job) = (&cluster.host, cluster.submit(IMAGE).await);
    let name = cluster.until_created(&job, 1).await;
    host.until(&job.id, |job| !job.waiting_reason.is_empty()).await;
    cluster.api.objects(|objects| objects.remove(&name));
    let ended = host.until_state(&job.id, JobState::Cancelled).await;
    assert_eq!(ended.cancel_reason, "cancelled in its cluster");
}

#[tokio::test]
async fn a_job_is_created_when_the_one_that_it_comes_after_has_completed() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, WAITS_FOR_GO).await;
    let (host, first) = (&cluster.host, cluster.submit(IMAGE).await);
    let second = cluster.submit_as("second", ", after: wide", IMAGE).await;
    let name = cluster.until_created(&first, 1).await;
    cluster.run_pods(&name);
    host.until_state(&first.id, JobState::Running).await;
    let reason = format!("comes after job {}, which has not completed", first.id);
    let waiting = host.until(&second.id, |job| job.waiting_reason == reason).await;
    let jobs = cluster.api.objects(|objects| objects.jobs.len());
    assert_eq!((waiting.state(), jobs), (JobState::Pending, 1));
    cluster.finish(&first);
    let name = cluster.until_created(&second, 1).await;
    cluster.run_pods(&name);
    cluster.finish(&second);
    host.until_state(&second.id, JobState::Completed).await;
    assert_eq!(host.get(&first.id).await.state(), JobState::Completed);
}

/// Trains until the test creates the file `fail`, and then ends without a word.
const DIES: &str = "say started; until [ -e fail ]; do sleep 0.02; done; kill -9 $$";

#[tokio::test]
async fn pods_that_fail_are_explained_and_lost_hosts_are_replaced() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, DIES).await;
    let host = &cluster.host;
    let ended = async |status| {
        let job = cluster.submit(IMAGE).await;
        let name = cluster.until_created(&job, 1).await;
        cluster.run_pods(&name);
        host.until_state(&job.id, JobState::Running).await;
        cluster.api.objects(|objects| objects.fail(&name, 1, status));
        fs::write(host.run_dir(&job.id).join("fail"), "").unwrap();
        job
    };
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let job = ended(json!({"phase": "Failed", "containerStatuses": [{"state": killed}]})).await;
    let failure = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!(failure.reason, "OUT_OF_MEMORY");
    assert!(failure.message.contains("ran out of memory on n2"), "{failure:?}");
    let job = ended(json!({"phase": "Failed", "reason": "NodeLost"})).await;
    cluster.until_created(&job, 2).await;
    let restarted = host.get(&job.id).await;
    assert_eq!((restarted.attempt, restarted.failure), (2, None));
}

#[tokio::test]
async fn what_the_server_refuses_fails_with_its_reason() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, COMPLETES).await;
    let refused = async |of, code, reason, message| {
        cluster.api.plan(of, Fault::Answer(code, reason, message), 1);
        let job = cluster.submit(IMAGE).await;
        let failure = cluster.host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
        assert_eq!(failure.reason, "SUBMISSION_REFUSED");
        failure.message
    };
    let message = "jobs.batch is forbidden: User \"a\" cannot create resource \"jobs\" in API group \"batch\"";
    assert_eq!(
        refused(JOBS, 403, "Forbidden", message).await,
        format!(
            "Kubernetes refused: {message}; the daemon's user needs the role of scripts/kubernetes/rbac.yaml"
        )
    );
    let message = refused(JOBS, 404, "NotFound", "namespaces \"default\" not found").await;
    assert_eq!(message, "Kubernetes refused: namespaces \"default\" not found");
    let message = refused(JOBS, 409, "AlreadyExists", "jobs.batch \"traind\" already exists").await;
    assert!(message.ends_with("has a job of this name; another daemon may use it"), "{message}");
    // A Job without its service is removed.
    let message = "services is forbidden: User \"a\" cannot create resource \"services\"";
    assert!(refused(SERVICES, 403, "Forbidden", message).await.contains(message));
    assert_eq!(cluster.api.objects(|objects| objects.jobs.len()), 0);
}

#[tokio::test]
async fn a_submission_that_fails_for_now_is_repeated_and_runs_once() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, COMPLETES).await;
    let (host, api) = (&cluster.host, &cluster.api);
    let quota = "jobs.batch \"x\" is forbidden: exceeded quota: gpus";
    let cases = [
        ("the server is full", JOBS, Fault::Answer(403, "Forbidden", quota), 2),
        (
            "the server is out of order",
            JOBS,
            Fault::Answer(500, "InternalError", "etcdserver: no leader"),
            2,
        ),
        ("the request does not arrive", JOBS, Fault::Lost, 2),
        ("the answer does not arrive", JOBS, Fault::LostAnswer, 1),
        ("that for the service does not", SERVICES, Fault::LostAnswer, 1),
        ("nor does the service", SERVICES, Fault::Lost, 1),
    ];
    for (case, of, fault, attempt) in cases {
        api.plan(of, fault, 1);
        let job = cluster.submit(IMAGE).await;
        let name = cluster.until_created(&job, attempt).await;
        cluster.run_pods(&name);
        let ended = host.until_state(&job.id, JobState::Completed).await;
        assert_eq!(ended.attempt, attempt, "{case}");
        assert!(api.has_failed(), "{case}");
        let own = format!("traind-{}-", job.id);
        let is_own = |name: &serde_json::Value| name.as_str().unwrap().starts_with(&own);
        let count = api.objects(|objects| {
            objects.jobs.iter().filter(|it| is_own(&it["metadata"]["name"])).count()
        });
        assert_eq!(count, 1, "{case}");
    }
}

#[tokio::test]
async fn a_job_that_arrived_although_it_was_given_up_is_removed() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, COMPLETES).await;
    let (host, api) = (&cluster.host, &cluster.api);
    api.plan(JOBS, Fault::LostAnswer, 1);
    api.plan(JOB, Fault::Lost, 1);
    let job = cluster.submit(IMAGE).await;
    let name = cluster.until_created(&job, 2).await;
    let names = api.objects(|objects| {
        objects.jobs.iter().map(|it| it["metadata"]["name"].clone()).collect::<Vec<_>>()
    });
    assert_eq!(names, [name.as_str()], "the first attempt's is gone");
    cluster.run_pods(&name);
    host.until_state(&job.id, JobState::Completed).await;
}

#[tokio::test]
async fn a_job_outlives_a_server_that_does_not_answer() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, WAITS_FOR_GO).await;
    let (host, api) = (&cluster.host, &cluster.api);
    let job = cluster.submit(IMAGE).await;
    let name = cluster.until_created(&job, 1).await;
    let forbidden = "pods is forbidden: User \"a\" cannot list resource \"pods\"";
    let faults = [
        (PODS, Fault::Answer(403, "Forbidden", forbidden), forbidden),
        (JOB, Fault::Answer(410, "Expired", "The resourceVersion is too old"), "too old"),
        (JOB, Fault::Lost, "EOF"),
    ];
    for (of, fault, words) in faults {
        api.plan(of, fault, 1);
        let told = format!("Kubernetes job default/{name} cannot be asked about");
        host.until(&job.id, |job| {
            job.waiting_reason.starts_with(&told) && job.waiting_reason.contains(words)
        })
        .await;
        host.until(&job.id, |job| job.waiting_reason.contains(UNSCHEDULED)).await;
    }
    cluster.run_pods(&name);
    host.until(&job.id, |job| job.state() == JobState::Running && !job.host_names.is_empty()).await;
    for (of, fault, _) in faults {
        api.plan(of, fault, 1);
    }
    until("requests have failed", || api.has_failed()).await;
    cluster.finish(&job);
    let ended = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!(ended.attempt, 1);
    let events = host.events(&job.id, 1).await;
    assert!(waits(&events).iter().any(|wait| wait.contains(forbidden)), "{events:?}");
}

#[tokio::test]
async fn a_daemon_that_died_between_two_requests_finds_its_job() {
    let Some(kubectl) = kubectl() else { return };
    let mut cluster = Cluster::start(&kubectl, COMPLETES).await;
    let job = cluster.submit(IMAGE).await;
    let name = cluster.until_created(&job, 1).await;
    let claim = cluster.host.records(&job.id).join("runner-1.json");
    until_file(&claim).await;
    cluster.host.kill_daemon();
    // As if it had died before the service.
    fs::remove_file(&claim).unwrap();
    cluster.api.objects(|objects| objects.services.clear());
    cluster.host.start().await;
    cluster.until_created(&job, 1).await;
    cluster.run_pods(&name);
    let ended = cluster.host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((ended.attempt, cluster.api.requests(JOBS).len()), (1, 1));
}

#[tokio::test]
async fn a_dry_run_shows_what_a_cluster_would_get() {
    let host = Host::new(1, "");
    let show = |resources: &str| {
        let file = host.request("wide", 1).job_file.replace("{cores: 1}", resources);
        fs::write(host.path("job.yaml"), file).unwrap();
        let shown = host.cli(&["submit", "--dry-run", "job.yaml"]);
        String::from_utf8([shown.stdout, shown.stderr].concat()).unwrap()
    };
    let text = show("{cores: 4, hosts: 2, engine: kubernetes}\nkubernetes: {image: traind}");
    for part in ["kind: Job", "---\n", "kind: Service", "completions: 2", "clusterIP: None"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = show("{cores: 4, hosts: 2, engine: slurm}");
    for part in ["sbatch", "'--nodes=2'", "exec srun"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(show("{cores: 4}").contains("traind plan"));
}

#[tokio::test]
async fn a_job_that_kueue_suspends_starts_again_from_its_queue() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, WAITS_FOR_GO).await;
    let host = &cluster.host;
    let job = cluster.submit("kubernetes: {image: traind, queue: team}").await;
    let name = cluster.until_created(&job, 1).await;
    let waits =
        format!("Kubernetes job default/{name} waits: Kueue's queue team has not admitted it");
    let is_running = |job: &Job| job.state() == JobState::Running && job.host_names == "n1,n2";
    host.until(&job.id, |job| job.waiting_reason == waits).await;
    let runs = async || {
        cluster.api.objects(|objects| objects.suspend(&name, false));
        cluster.run_pods(&name);
        host.until(&job.id, is_running).await
    };
    runs().await;
    cluster.suspend(&name).await;
    let waiting = host.until(&job.id, |job| job.waiting_reason == waits).await;
    assert_eq!((waiting.state(), waiting.host_names.as_str()), (JobState::Starting, ""));
    runs().await;
    cluster.finish(&job);
    let ended = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((ended.attempt, cluster.api.requests(JOBS).len()), (1, 1));
}

#[tokio::test]
async fn the_doctor_asks_which_rights_it_has() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start(&kubectl, COMPLETES).await;
    let doctor = async || {
        // The server answers meanwhile.
        let mut command = Command::from(cluster.host.traind());
        command.envs(cluster.host.environment.iter().map(|(name, value)| (name, value)));
        let options = ["doctor", "--engine", "kubernetes", "--namespace", "train"];
        let output = command.args(options).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = doctor().await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("ok ").count(), 6, "{text}");
    assert!(text.contains("ok       jobs: may delete in namespace train"), "{text}");
    cluster.api.objects(|objects| objects.denied = &["list pods"]);
    let (code, text) = doctor().await;
    assert_eq!(code, Some(1));
    assert!(text.contains("missing  pods: may not list in namespace train"), "{text}");
    cluster.api.plan("selfsubjectaccessreviews", Fault::Lost, 5);
    let (code, text) = doctor().await;
    assert_eq!(code, Some(1));
    assert!(text.contains("missing  jobs: Kubernetes: "), "{text}");
}
