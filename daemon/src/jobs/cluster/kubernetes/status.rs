//! A job's state by its Job and its pods.

use std::time::Duration;

use prost_types::Timestamp;
use serde_json::Value;
use traind_job_file::Kubernetes;

use super::super::{Condition, End, EndKind, Report};
use crate::clock;

/// Reasons of pods that their host lost.
const LOST: [&str; 5] = ["Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"];
/// The reasons among them for which the host is to blame.
const FAILED: [&str; 3] = ["NodeLost", "NodeShutdown", "Shutdown"];

/// Where a pod says how its container ended.
const ENDED_REASON: &str = "/status/containerStatuses/0/state/terminated/reason";
const ENDED_CODE: &str = "/status/containerStatuses/0/state/terminated/exitCode";
const ENDED_TIME: &str = "/status/containerStatuses/0/state/terminated/finishedAt";

/// The state of a job; `None` for a Job that is no longer there.
pub(super) fn report(id: &str, job: Option<&Value>, pods: &[Value]) -> Report {
    // Not those of before the Job was suspended, which may still be ending.
    let is_kept = |pod: &&Value| pod.pointer("/metadata/deletionTimestamp").is_none();
    let kept: Vec<&Value> = pods.iter().filter(is_kept).collect();
    let mut hosts: Vec<&str> = kept.iter().filter_map(|pod| text(pod, "/spec/nodeName")).collect();
    hosts.sort_unstable();
    let elapsed = elapsed(pods);
    let end = |kind: EndKind, words: &str| {
        let description = format!("Kubernetes job {id} {words}");
        let failed = pods.iter().find(|pod| kind == EndKind::HostLost && has_failed_host(pod));
        let host = failed.map(|pod| host(pod).to_owned());
        Condition::Ended(End { kind, elapsed, description, host })
    };
    let condition = match job {
        None => end(EndKind::Cancelled, "was deleted"),
        Some(job) if condition_of(job, "Complete").is_some() => {
            end(EndKind::Completed, "completed")
        }
        Some(job) => match condition_of(job, "Failed") {
            Some(failed) => {
                let (kind, words) = failure(failed, pods);
                end(kind, &words)
            }
            None if job.pointer("/spec/suspend") == Some(&Value::Bool(true)) => {
                Condition::Suspended(waits(id, &suspended_words(job)))
            }
            None => waiting(job, &kept)
                .map_or(Condition::Running(elapsed), |words| Condition::Waiting(waits(id, &words))),
        },
    };
    Report { condition, restarts: 0, hosts: hosts.join(",") }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// A condition that holds.
fn condition_of<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|it| it["type"] == kind && it["status"] == "True")
}

/// Time since the last pod started.
fn elapsed(pods: &[Value]) -> Duration {
    let times = pods.iter().filter_map(|pod| text(pod, "/status/startTime"));
    let started = times.filter_map(|time| time.parse::<Timestamp>().ok());
    let last = started.map(|time| clock::micros(&time)).max();
    let elapsed = last.map_or(0, |time| clock::now().saturating_sub(time));
    Duration::from_micros(elapsed.max(0).unsigned_abs())
}

fn waits(id: &str, words: &str) -> String {
    format!("Kubernetes job {id} waits: {words}")
}

fn suspended_words(job: &Value) -> String {
    match job["metadata"]["labels"][Kubernetes::QUEUE_LABEL].as_str() {
        Some(queue) => format!("Kueue's queue {queue} has not admitted it"),
        None => "it is suspended, as by a queue of the cluster".to_owned(),
    }
}

/// Why the job waits; `None` once all pods have started.
fn waiting(job: &Value, pods: &[&Value]) -> Option<String> {
    let wanted = job.pointer("/spec/completions").and_then(Value::as_u64).unwrap_or(1);
    let pending = pods.iter().find(|pod| pod.pointer("/status/phase") == Some(&"Pending".into()));
    match pending {
        Some(pod) => Some(pending_words(pod)),
        None if (pods.len() as u64) < wanted => Some("its pods are being created".to_owned()),
        None => None,
    }
}

fn pending_words(pod: &Value) -> String {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let unscheduled = conditions
        .into_iter()
        .flatten()
        .find(|it| it["type"] == "PodScheduled" && it["status"] == "False");
    if let Some(message) = unscheduled.and_then(|it| text(it, "/message")) {
        return message.to_owned();
    }
    let container = "/status/containerStatuses/0/state/waiting";
    let reason = text(pod, &format!("{container}/reason"));
    let message = text(pod, &format!("{container}/message"));
    match (reason, message) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some("ContainerCreating"), None) | (None, _) => {
            "its containers are being created".to_owned()
        }
        (Some(reason), None) => reason.to_owned(),
    }
}

/// The kind of a failure, in words, by the first pod that explains it.
fn failure(failed: &Value, pods: &[Value]) -> (EndKind, String) {
    if text(failed, "/reason") == Some("DeadlineExceeded") {
        return (EndKind::TimeLimit, "reached its time limit".to_owned());
    }
    if let Some(pod) = lost(pods) {
        let reason = text(pod, "/status/reason").unwrap_or("disruption");
        return (EndKind::HostLost, format!("lost host {} ({reason})", host(pod)));
    }
    if let Some(pod) = pods.iter().find(|pod| text(pod, ENDED_REASON) == Some("OOMKilled")) {
        let words = format!("ran out of memory on {}; kubernetes.limits may have more", host(pod));
        return (EndKind::OutOfMemory, words);
    }
    // The others end because they miss the first one.
    let failed_pods = pods.iter().filter(|pod| exit_code(pod) != 0);
    if let Some(pod) = failed_pods.min_by_key(|pod| text(pod, ENDED_TIME)) {
        let (host, code) = (host(pod), exit_code(pod));
        let words = format!("failed on {host}: its container exited with code {code}");
        return (EndKind::Failed, words);
    }
    let message = text(failed, "/message").unwrap_or("no pod says why");
    (EndKind::Failed, format!("failed: {message}"))
}

/// A pod that lost its host, or was taken off it.
fn lost(pods: &[Value]) -> Option<&Value> {
    let is_lost = |pod: &&Value| {
        text(pod, "/status/reason").is_some_and(|reason| LOST.contains(&reason))
            || condition_of(pod, "DisruptionTarget").is_some()
    };
    pods.iter().find(is_lost)
}

/// The code with which the pod's container ended; 0 if it runs.
fn exit_code(pod: &Value) -> i64 {
    pod.pointer(ENDED_CODE).and_then(Value::as_i64).unwrap_or(0)
}

/// Whether the pod's host went down. It is not to blame where a pod of higher priority took its place.
fn has_failed_host(pod: &Value) -> bool {
    let tainted = condition_of(pod, "DisruptionTarget").and_then(|it| text(it, "/reason"));
    text(pod, "/status/reason").is_some_and(|reason| FAILED.contains(&reason))
        || tainted == Some("DeletionByTaintManager")
}

fn host(pod: &Value) -> &str {
    text(pod, "/spec/nodeName").unwrap_or("an unknown host")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(conditions: Value) -> Value {
        json!({"kind": "Job", "spec": {"completions": 2}, "status": {"conditions": conditions}})
    }

    fn pod(host: &str, status: Value) -> Value {
        json!({"kind": "Pod", "spec": {"nodeName": host}, "status": status})
    }

    /// The report about a Job, which comes first, and its pods.
    fn reported(items: &Value) -> Report {
        let items = items.as_array().unwrap();
        report("a/b", items.first(), items.get(1..).unwrap_or_default())
    }

    fn check_waiting(items: Value, expect: &str) {
        let found = reported(&items).condition;
        assert_eq!(found, Condition::Waiting(format!("Kubernetes job a/b waits: {expect}")));
    }

    fn check_end(items: Value, kind: EndKind, expect: &str) {
        let Condition::Ended(end) = reported(&items).condition else { panic!("{items}") };
        assert_eq!((end.kind, end.description), (kind, format!("Kubernetes job a/b {expect}")));
    }

    #[test]
    fn a_job_waits_for_its_last_pod() {
        let running = pod("n1", json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}));
        let message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
        let condition = json!({"type": "PodScheduled", "status": "False", "message": message});
        let unscheduled =
            json!({"kind": "Pod", "status": {"phase": "Pending", "conditions": [condition]}});
        check_waiting(json!([job(json!([])), running, unscheduled]), message);
        check_waiting(json!([job(json!([])), running]), "its pods are being created");
        let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        let pulling =
            pod("n2", json!({"phase": "Pending", "containerStatuses": [{"state": state}]}));
        check_waiting(json!([job(json!([])), running, pulling]), "ImagePullBackOff: no such image");
        let check_suspended = |labels: Value, expect: &str| {
            let spec = json!({"completions": 2, "suspend": true});
            let job = json!({"kind": "Job", "metadata": {"labels": labels}, "spec": spec});
            let expect = format!("Kubernetes job a/b waits: {expect}");
            // Its pods may still be ending.
            let found = reported(&json!([job, running])).condition;
            assert_eq!(found, Condition::Suspended(expect));
        };
        check_suspended(json!({}), "it is suspended, as by a queue of the cluster");
        let labels = json!({"kueue.x-k8s.io/queue-name": "team"});
        check_suspended(labels, "Kueue's queue team has not admitted it");
        let mut ending = running.clone();
        ending["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:01Z"});
        check_waiting(json!([job(json!([])), ending, running]), "its pods are being created");
        let second = pod("n2", json!({"phase": "Running"}));
        let found = reported(&json!([job(json!([])), second, running, ending]));
        assert!(matches!(found.condition, Condition::Running(elapsed) if elapsed.as_secs() > 0));
        assert_eq!(found.hosts, "n1,n2");
    }

    #[test]
    fn ends_are_those_of_the_job_explained_by_its_pods() {
        let failed = |reason: &str| {
            job(json!([{"type": "Failed", "status": "True", "reason": reason, "message": "gone"}]))
        };
        let complete = job(json!([{"type": "Complete", "status": "True"}]));
        check_end(json!([complete]), EndKind::Completed, "completed");
        check_end(json!([]), EndKind::Cancelled, "was deleted");
        check_end(
            json!([failed("DeadlineExceeded")]),
            EndKind::TimeLimit,
            "reached its time limit",
        );
        check_end(json!([failed("BackoffLimitExceeded")]), EndKind::Failed, "failed: gone");
        let ended = |reason: &str, code: u32| {
            let state = json!({"terminated": {"reason": reason, "exitCode": code}});
            pod("n2", json!({"phase": "Failed", "containerStatuses": [{"state": state}]}))
        };
        let backoff = || failed("BackoffLimitExceeded");
        check_end(
            json!([backoff(), ended("Error", 3)]),
            EndKind::Failed,
            "failed on n2: its container exited with code 3",
        );
        check_end(
            json!([backoff(), ended("OOMKilled", 137)]),
            EndKind::OutOfMemory,
            "ran out of memory on n2; kubernetes.limits may have more",
        );
        check_end(
            json!([backoff(), ended("Error", 1), ended("OOMKilled", 137)]),
            EndKind::OutOfMemory,
            "ran out of memory on n2; kubernetes.limits may have more",
        );
        let at = |host: &str, second: u32| {
            let finished = format!("2026-01-01T00:00:0{second}Z");
            let state = json!({"terminated": {"exitCode": second, "finishedAt": finished}});
            pod(host, json!({"phase": "Failed", "containerStatuses": [{"state": state}]}))
        };
        check_end(
            json!([backoff(), at("n1", 7), at("n2", 4), at("n3", 8)]),
            EndKind::Failed,
            "failed on n2: its container exited with code 4",
        );
        let evicted = pod("n3", json!({"phase": "Failed", "reason": "Evicted"}));
        check_end(
            json!([backoff(), ended("Error", 3), evicted]),
            EndKind::HostLost,
            "lost host n3 (Evicted)",
        );
        let blamed = |pod: Value| match reported(&json!([backoff(), pod])).condition {
            Condition::Ended(end) => end.host,
            other => panic!("{other:?}"),
        };
        let disrupted = |reason: &str| {
            let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
            pod("n4", json!({"phase": "Failed", "conditions": [condition]}))
        };
        assert_eq!(blamed(disrupted("DeletionByTaintManager")).as_deref(), Some("n4"));
        assert_eq!(blamed(disrupted("PreemptionByScheduler")), None);
        let lost = pod("n5", json!({"phase": "Failed", "reason": "NodeLost"}));
        assert_eq!(blamed(lost).as_deref(), Some("n5"));
    }
}
