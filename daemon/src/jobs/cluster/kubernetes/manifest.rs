//! The objects of a job: an Indexed Job of `batch/v1` and a headless Service of `v1`.

use std::ffi::OsStr;

use serde_json::{Map, Value, json};
use traind_job_file::{Kubernetes, Platform, RunSpec, Toleration};

use super::super::Submission;
use crate::access::account::Account;

/// The label by which a job's objects are found. Its value is the name of the Job.
pub(super) const LABEL: &str = "traind/job";
const HOST_NAME: &str = "kubernetes.io/hostname";
/// Seconds that pods have to save a checkpoint when they are deleted.
const NOTICE_SECONDS: u64 = 120;
/// How long Kubernetes keeps an ended job for users to look at, in seconds.
const KEPT_SECONDS: u64 = 86_400;
/// The ports of the rendezvous; the service needs one to be valid.
const PORT: u16 = 7733;
/// Variables of the daemon's host that mean nothing in a container.
const OF_HOST: [&str; 9] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
];
/// Starts the runner unless the daemon has given the attempt up.
const COMMAND: &str =
    "test -e \"$1\" && exit 75; exec traind-runner \"$0\" >> \"$0/runner.log\" 2>&1";

/// The name of an attempt's objects.
pub(super) fn name(job_id: &str, attempt: u32) -> String {
    format!("traind-{job_id}-{attempt}")
}

/// The Job.
pub(super) fn job(submission: &Submission<'_>) -> Value {
    let (spec, resources) = (submission.spec, &submission.spec.job.resources);
    let (name, kubernetes) = (name(&spec.job_id, spec.attempt), &spec.job.kubernetes);
    let mut fields = json!({
        "completionMode": "Indexed",
        "completions": resources.hosts,
        "parallelism": resources.hosts,
        // The daemon restarts jobs, from their checkpoints.
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {
            "metadata": metadata(kubernetes, &name),
            "spec": pod(submission, &name),
        },
    });
    if kubernetes.queue.is_some() {
        // Kueue starts the job once the queue admits it.
        fields["suspend"] = json!(true);
    }
    if let Some(seconds) = resources.max_run_seconds {
        // The daemon stops the job when its time is over; Kubernetes does if no daemon runs.
        fields["activeDeadlineSeconds"] = json!(seconds.saturating_add(2 * NOTICE_SECONDS));
    }
    let mut metadata = metadata(kubernetes, &name);
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(kubernetes.namespace);
    metadata["annotations"]["traind/name"] = json!(spec.job.name);
    if let Some(queue) = &kubernetes.queue {
        // Only here: Kueue would queue pods with this label one by one.
        metadata["labels"][Kubernetes::QUEUE_LABEL] = json!(queue);
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": fields})
}

/// The part that the Job and its pods have in common.
fn metadata(kubernetes: &Kubernetes, name: &str) -> Value {
    let mut labels = texts(kubernetes.labels.iter());
    labels.insert(LABEL.to_owned(), json!(name));
    json!({"labels": labels, "annotations": texts(kubernetes.annotations.iter())})
}

/// The service, which goes with the Job of this `uid`.
pub(super) fn service(spec: &RunSpec, uid: Option<&str>) -> Value {
    let name = name(&spec.job_id, spec.attempt);
    let mut metadata = json!({
        "name": name,
        "namespace": spec.job.kubernetes.namespace,
        "labels": {LABEL: name},
    });
    if let Some(uid) = uid {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid});
        metadata["ownerReferences"] = json!([owner]);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": {LABEL: name},
            // The pods look for the first one before any of them is ready.
            "publishNotReadyAddresses": true,
            "ports": [{"name": "rendezvous", "port": PORT}],
        },
    })
}

fn pod(submission: &Submission<'_>, name: &str) -> Value {
    let kubernetes = &submission.spec.job.kubernetes;
    let user = submission.account.unwrap_or_else(Account::own);
    let mut spec = json!({
        "restartPolicy": "Never",
        "subdomain": name,
        "terminationGracePeriodSeconds": NOTICE_SECONDS,
        "securityContext": security(user),
        "affinity": affinity(submission, name),
        "containers": [container(submission, name)],
        "volumes": volumes(kubernetes),
    });
    let selected: Map<String, Value> = texts(kubernetes.node_selector.iter());
    if !selected.is_empty() {
        spec["nodeSelector"] = selected.into();
    }
    if !kubernetes.tolerations.is_empty() {
        spec["tolerations"] = kubernetes.tolerations.iter().map(toleration).collect();
    }
    if let Some(class) = &kubernetes.priority_class {
        spec["priorityClassName"] = json!(class);
    }
    if let Some(account) = &kubernetes.service_account {
        spec["serviceAccountName"] = json!(account);
    } else {
        // Runners do not call the API server. What a model does with the token of the namespace's default account is
        // nobody's intention.
        spec["automountServiceAccountToken"] = json!(false);
    }
    if let Some(secret) = &kubernetes.image_pull_secret {
        spec["imagePullSecrets"] = json!([{"name": secret}]);
    }
    spec
}

/// The account of a pod. Namespaces that enforce Kubernetes' standard `restricted` admit no pod without these fields.
fn security(user: Account) -> Value {
    json!({
        "runAsUser": user.uid,
        "runAsGroup": user.gid,
        "fsGroup": user.gid,
        "runAsNonRoot": user.uid != 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn toleration(given: &Toleration) -> Value {
    let fields = [
        ("key", given.key.as_ref().map(|key| json!(key))),
        ("operator", given.operator.map(|operator| json!(operator.as_str()))),
        ("value", given.value.as_ref().map(|value| json!(value))),
        ("effect", given.effect.map(|effect| json!(effect.as_str()))),
        ("tolerationSeconds", given.toleration_seconds.map(|seconds| json!(seconds))),
    ];
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect())
}

fn texts<'a>(pairs: impl Iterator<Item = (&'a str, &'a String)>) -> Map<String, Value> {
    pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// One pod on each host, and none on hosts that failed too often.
fn affinity(submission: &Submission<'_>, name: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {LABEL: name}}, "topologyKey": HOST_NAME});
    let mut affinity = json!({
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    });
    if !submission.avoided.is_empty() {
        // By the names of nodes, from which labels of host names may differ. A field permits one value.
        let other = |host| json!({"key": "metadata.name", "operator": "NotIn", "values": [host]});
        let others: Vec<Value> = submission.avoided.iter().map(other).collect();
        affinity["nodeAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": others}],
            },
        });
    }
    affinity
}

fn container(submission: &Submission<'_>, name: &str) -> Value {
    let spec = submission.spec;
    let void = submission.run_dir.join(Submission::void_file(spec.attempt));
    let mut mounts = vec![json!({"name": "shm", "mountPath": "/dev/shm"})];
    if let Some(path) = &spec.job.kubernetes.mount_path {
        mounts.push(json!({"name": "shared", "mountPath": path}));
    }
    json!({
        "name": "runner",
        "image": spec.job.kubernetes.image.as_deref().unwrap_or_default(),
        "command": ["/bin/sh", "-c", COMMAND, submission.run_dir, void],
        "env": environment(submission, name),
        "resources": {"limits": limits(submission)},
        "volumeMounts": mounts,
        // No program of the image gets more rights than the runner has.
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    })
}

fn environment(submission: &Submission<'_>, name: &str) -> Vec<Value> {
    let is_of_host = |variable: &OsStr| OF_HOST.iter().any(|known| variable == *known);
    let passed = submission.environment.iter().filter(|(variable, _)| !is_of_host(variable));
    let hosts = submission.spec.job.resources.hosts.to_string();
    let own = [("TRAIND_HOSTS", hosts), ("TRAIND_SUBDOMAIN", name.to_owned())];
    passed
        .map(|(variable, value)| (variable.to_string_lossy(), value.to_string_lossy().into_owned()))
        .chain(own.into_iter().map(|(variable, value)| (variable.into(), value)))
        .map(|(variable, value)| json!({"name": variable, "value": value}))
        .chain([json!({
            "name": "TRAIND_NODE_NAME",
            "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        })])
        .collect()
}

/// The job file's limits, and the cores unless it has them. Requests equal limits.
fn limits(submission: &Submission<'_>) -> Map<String, Value> {
    let job = &submission.spec.job;
    let resource = match job.resources.platform {
        Platform::Cpu => "cpu",
        Platform::Cuda => "nvidia.com/gpu",
        Platform::Neuron => "aws.amazon.com/neuroncore",
    };
    let mut limits = Map::new();
    // Neuron's plugin counts devices too, and a pod may ask for either.
    let counts = |name: &str| name == resource || name.starts_with("aws.amazon.com/neuron");
    if !job.kubernetes.limits.iter().any(|(name, _)| counts(name)) {
        limits.insert(resource.to_owned(), json!(job.resources.cores.to_string()));
    }
    let given = job.kubernetes.limits.iter();
    limits.extend(given.map(|(name, quantity)| (name.to_owned(), json!(quantity.as_str()))));
    limits
}

fn volumes(kubernetes: &Kubernetes) -> Vec<Value> {
    let mut volumes = vec![json!({"name": "shm", "emptyDir": {"medium": "Memory"}})];
    if let Some(claim) = &kubernetes.volume_claim {
        volumes.push(json!({"name": "shared", "persistentVolumeClaim": {"claimName": claim}}));
    }
    volumes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn spec(platform: &str, kubernetes: Value) -> RunSpec {
        let spec = json!({
            "job_id": "b4",
            "attempt": 2,
            "job": {
                "name": "first job",
                "model": {"name_or_path": "/data/model", "task": "sequence-classification"},
                "data": {"train": "/data/train.csv"},
                "resources": {
                    "engine": "kubernetes", "hosts": 3, "cores": 8, "platform": platform,
                    "max_run_seconds": 60,
                },
                "kubernetes": kubernetes,
                "output_dir": "/data/out",
            },
            "cores": [0],
            "plugin": "/plugin.so",
            "cache_dir": "/cache",
        });
        serde_json::from_value(spec).unwrap()
    }

    fn submission<'a>(spec: &'a RunSpec, avoided: &'a [String]) -> Submission<'a> {
        let pair = |name: &str, value: &str| (name.into(), value.into());
        Submission {
            spec,
            runner: Path::new("/opt/traind-runner"),
            run_dir: Path::new("/data/state/jobs/b4"),
            log: "/data/state/jobs/b4/runner.log".into(),
            environment: BTreeMap::from([pair("PATH", "/bin"), pair("NCCL_DEBUG", "INFO")]),
            account: Some(Account { uid: 1000, gid: 100 }),
            avoided,
        }
    }

    fn full() -> RunSpec {
        let kubernetes = json!({
            "image": "registry/traind:1", "namespace": "train", "service_account": "trainer",
            "priority_class": "batch", "image_pull_secret": "pull", "volume_claim": "shared", "mount_path": "/data",
            "node_selector": {"zone": "b"}, "queue": "team", "labels": {"team": "a"},
            "annotations": {"example.com/owner": "A B"},
            "tolerations": [
                {"key": "gpu", "operator": "Exists"},
                {"key": "spot", "value": "b", "effect": "NoExecute", "toleration_seconds": 60},
            ],
            "limits": {"memory": "64Gi", "vpc.amazonaws.com/efa": 4},
        });
        spec("cuda", kubernetes)
    }

    #[test]
    fn job_pods_and_service_have_one_name() {
        let spec = full();
        let (job, service) = (job(&submission(&spec, &[])), service(&spec, Some("u-1")));
        let name = job["metadata"]["name"].as_str().unwrap();
        assert!(name.len() <= 57, "{name}: pods' host names have an index besides");
        for object in [&service["metadata"], &job["spec"]["template"]["metadata"]] {
            assert_eq!(object["labels"][LABEL], name);
        }
        assert_eq!(service["spec"]["selector"][LABEL], name);
        assert_eq!(job["spec"]["template"]["spec"]["subdomain"], service["metadata"]["name"]);
        assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "u-1");
    }

    #[test]
    fn a_pod_for_each_host_gets_the_jobs_cores_and_the_variables_of_the_rendezvous() {
        let spec = full();
        let job = job(&submission(&spec, &[]));
        assert_eq!(
            (&job["spec"]["completions"], &job["spec"]["parallelism"]),
            (&json!(3), &json!(3))
        );
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 300);
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        let limits = json!({"nvidia.com/gpu": "8", "memory": "64Gi", "vpc.amazonaws.com/efa": "4"});
        assert_eq!(container["resources"]["limits"], limits);
        let env: Vec<_> =
            container["env"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(env, ["NCCL_DEBUG", "TRAIND_HOSTS", "TRAIND_SUBDOMAIN", "TRAIND_NODE_NAME"]);
    }

    #[test]
    fn options_of_pods_are_those_of_the_job_file_and_the_queue_is_the_jobs_alone() {
        let (full, plain) = (full(), spec("cpu", json!({"image": "i"})));
        let job = [&full, &plain].map(|spec| job(&submission(spec, &[])));
        let name = &job[0]["metadata"]["name"];
        let pods = &job[0]["spec"]["template"];
        assert_eq!(pods["metadata"]["labels"], json!({LABEL: name, "team": "a"}));
        assert_eq!(pods["metadata"]["annotations"], json!({"example.com/owner": "A B"}));
        let labels = json!({LABEL: name, "team": "a", "kueue.x-k8s.io/queue-name": "team"});
        assert_eq!(job[0]["metadata"]["labels"], labels);
        let tolerations = json!([
            {"key": "gpu", "operator": "Exists"},
            {"key": "spot", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60},
        ]);
        assert_eq!(pods["spec"]["tolerations"], tolerations);
        assert_eq!(pods["spec"]["priorityClassName"], "batch");
        let suspended = job.map(|job| job["spec"]["suspend"].clone());
        assert_eq!(suspended, [json!(true), Value::Null]);
    }

    /// Kubernetes' standard `restricted` demands this, beside kinds of volumes.
    #[test]
    fn pods_are_as_restricted_namespaces_demand() {
        let (full, plain) = (full(), spec("cpu", json!({"image": "i"})));
        let [full, plain] = [&full, &plain].map(|spec| {
            let job = job(&submission(spec, &[]));
            job["spec"]["template"]["spec"].clone()
        });
        for pod in [&full, &plain] {
            let account = &pod["securityContext"];
            assert_eq!(
                (&account["runAsUser"], &account["runAsGroup"]),
                (&json!(1000), &json!(100))
            );
            assert_eq!(account["runAsNonRoot"], true);
            assert_eq!(account["seccompProfile"], json!({"type": "RuntimeDefault"}));
            let rights =
                json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
            assert_eq!(pod["containers"][0]["securityContext"], rights);
        }
        assert_eq!(plain["automountServiceAccountToken"], false);
        assert_eq!(full["serviceAccountName"], "trainer");
        assert_eq!(full.get("automountServiceAccountToken"), None);
        assert_eq!(security(Account { uid: 0, gid: 0 })["runAsNonRoot"], false);
    }

    #[test]
    fn hosts_that_failed_too_often_are_avoided_by_name() {
        let (spec, avoided) = (full(), ["n8", "n9"].map(str::to_owned));
        let job = job(&submission(&spec, &avoided));
        let terms = job
            .pointer("/spec/template/spec/affinity/nodeAffinity")
            .map(|it| &it["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]);
        let other = |host| json!({"key": "metadata.name", "operator": "NotIn", "values": [host]});
        assert_eq!(terms, Some(&json!([{"matchFields": [other("n8"), other("n9")]}])));
    }

    #[test]
    fn devices_are_those_of_the_platform_unless_the_job_file_says_otherwise() {
        let limits = |platform: &str, given: Value| {
            let spec = spec(platform, json!({"image": "i", "limits": given}));
            Value::Object(limits(&submission(&spec, &[])))
        };
        assert_eq!(limits("cpu", json!({})), json!({"cpu": "8"}));
        assert_eq!(limits("cpu", json!({"cpu": "7500m"})), json!({"cpu": "7500m"}));
        assert_eq!(limits("neuron", json!({})), json!({"aws.amazon.com/neuroncore": "8"}));
        let devices = json!({"aws.amazon.com/neuron": "4"});
        assert_eq!(limits("neuron", devices.clone()), devices);
    }

    /// Neither does a value of a job file become another field or a command, nor does a label take other pods over.
    #[test]
    fn hostile_values_are_neither_fields_nor_commands() {
        let hostile = "x\"}, \"hostNetwork\": true, \n- $(touch pwned) '; touch pwned; '";
        let kubernetes = json!({
            "image": hostile, "node_selector": {"zone": hostile},
            "labels": {LABEL: "of-another-job", "team": hostile}, "annotations": {"traind/name": hostile},
        });
        let mut spec = spec("cpu", kubernetes);
        spec.job.name = hostile.to_owned();
        let job = job(&submission(&spec, &[]));
        let again: Value = serde_json::from_str(&job.to_string()).unwrap();
        assert_eq!(again, job);
        let (name, pod) = (&job["metadata"]["name"], &job["spec"]["template"]["spec"]);
        assert_eq!(name, "traind-b4-2");
        assert_eq!(job["metadata"]["annotations"]["traind/name"], hostile);
        assert_eq!(&job["metadata"]["labels"][LABEL], name);
        assert_eq!(&job["spec"]["template"]["metadata"]["labels"][LABEL], name);
        assert_eq!(pod["nodeSelector"]["zone"], hostile);
        assert_eq!(pod.get("hostNetwork"), None);
        let command =
            json!(["/bin/sh", "-c", COMMAND, "/data/state/jobs/b4", "/data/state/jobs/b4/void-2"]);
        assert_eq!(pod["containers"][0]["command"], command);
    }
}
