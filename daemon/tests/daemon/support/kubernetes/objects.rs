//! The objects of a cluster: Jobs with their pods, and services. Pods change when a test says so.

use serde_json::{Value, json};

use super::api::status;
use super::schema;

/// The label by which the daemon finds a job's objects.
const LABEL: &str = "traind/job";
/// Why pods wait that no test has started.
pub(crate) const UNSCHEDULED: &str = "0/3 nodes are available: 3 Insufficient cpu.";

#[derive(Default)]
pub(crate) struct Objects {
    pub jobs: Vec<Value>,
    pub services: Vec<Value>,
    pub pods: Vec<Value>,
    /// Actions that the daemon's user may not take, such as `delete jobs`.
    pub denied: &'static [&'static str],
    created: usize,
}

impl Objects {
    /// Carries a request out. Returns the code and the object of the answer.
    pub(super) fn carry_out(&mut self, line: &str, body: Value) -> (u16, Value) {
        let (method, uri) = line.split_once(' ').unwrap();
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (method, &parts[..]) {
            ("POST", ["apis", "batch", "v1", "namespaces", namespace, "jobs"]) => {
                self.create("Job", namespace, body)
            }
            ("POST", ["api", "v1", "namespaces", namespace, "services"]) => {
                self.create("Service", namespace, body)
            }
            ("GET", ["apis", "batch", "v1", "namespaces", _, "jobs"]) => {
                (200, self.list_jobs(query))
            }
            ("GET", ["apis", "batch", "v1", "namespaces", _, "jobs", name]) => {
                match self.job(name) {
                    Some(job) => (200, job.clone()),
                    None => absent(name),
                }
            }
            ("DELETE", ["apis", "batch", "v1", "namespaces", _, "jobs", name]) => {
                match self.delete(name, query) {
                    true => {
                        (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
                    }
                    false => absent(name),
                }
            }
            ("POST", ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]) => {
                self.review(body)
            }
            ("GET", ["api", "v1", "namespaces", _, "pods"]) => (200, self.list_pods(query)),
            _ => (404, status(404, "NotFound", "the server could not find the requested resource")),
        }
    }

    /// Says whether the daemon's user has a right.
    fn review(&self, mut review: Value) -> (u16, Value) {
        let problems = schema::problems("SelfSubjectAccessReview", &review);
        if !problems.is_empty() {
            return (400, status(400, "BadRequest", &problems.join(", ")));
        }
        let asked = &review["spec"]["resourceAttributes"];
        let [verb, resource] = ["verb", "resource"].map(|key| asked[key].as_str().unwrap());
        let is_allowed = !self.denied.contains(&format!("{verb} {resource}").as_str());
        review["status"] = json!({"allowed": is_allowed});
        (201, review)
    }

    fn create(&mut self, kind: &'static str, namespace: &str, mut object: Value) -> (u16, Value) {
        let problems = schema::problems(kind, &object);
        if !problems.is_empty() || object["metadata"]["namespace"] != namespace {
            return (400, status(400, "BadRequest", &format!("{kind}: {}", problems.join(", "))));
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let objects = if kind == "Job" { &mut self.jobs } else { &mut self.services };
        if objects.iter().any(|it| it["metadata"]["name"] == name.as_str()) {
            let message = format!("{kind} \"{name}\" already exists");
            return (409, status(409, "AlreadyExists", &message));
        }
        self.created += 1;
        object["metadata"]["uid"] = json!(format!("uid-{}", self.created));
        objects.push(object.clone());
        if kind == "Job" && object["spec"]["suspend"] != true {
            self.make_pods(&name, &object);
        }
        (201, object)
    }

    /// Makes the pods of an Indexed Job.
    fn make_pods(&mut self, name: &str, job: &Value) {
        let unscheduled =
            json!({"type": "PodScheduled", "status": "False", "message": UNSCHEDULED});
        for index in 0..job["spec"]["completions"].as_u64().unwrap() {
            let labels = &job["spec"]["template"]["metadata"]["labels"];
            self.pods.push(json!({
                "metadata": {"name": format!("{name}-{index}-x"), "labels": labels},
                "spec": job["spec"]["template"]["spec"],
                "status": {"phase": "Pending", "conditions": [unscheduled]},
            }));
        }
    }

    fn list_pods(&self, query: &str) -> Value {
        let selector = query.strip_prefix("labelSelector=").unwrap_or_default();
        let selector = selector.replace("%2F", "/").replace("%3D", "=");
        let (label, value) = selector.split_once('=').unwrap();
        let is_selected = |pod: &&Value| pod["metadata"]["labels"][label] == value;
        // Objects of a list have no kind.
        let items: Vec<&Value> = self.pods.iter().filter(is_selected).collect();
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    /// Lists the Jobs whose label is one of those of the query.
    fn list_jobs(&self, query: &str) -> Value {
        let codes =
            [("+", " "), ("%20", " "), ("%28", "("), ("%29", ")"), ("%2C", ","), ("%2F", "/")];
        let decoded =
            codes.iter().fold(query.to_owned(), |text, (code, it)| text.replace(code, it));
        let values = decoded.strip_prefix("labelSelector=traind/job in (").unwrap();
        let values: Vec<&str> = values.strip_suffix(")").unwrap().split(',').collect();
        let is_selected = |job: &&Value| {
            job["metadata"]["labels"][LABEL].as_str().is_some_and(|it| values.contains(&it))
        };
        let items: Vec<&Value> = self.jobs.iter().filter(is_selected).collect();
        json!({"kind": "JobList", "apiVersion": "batch/v1", "metadata": {}, "items": items})
    }

    /// Marks a Job as deleted. It stays until its pods have ended.
    fn delete(&mut self, name: &str, query: &str) -> bool {
        assert_eq!(query, "propagationPolicy=Foreground", "pods would outlive their job");
        let Some(job) = self.job(name) else { return false };
        job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        if !self.pods_of(name).any(|pod| pod["status"]["phase"] == "Running") {
            self.remove(name);
        }
        true
    }

    /// Removes a Job with all that it owns.
    pub(crate) fn remove(&mut self, name: &str) {
        self.jobs.retain(|job| job["metadata"]["name"] != name);
        self.pods.retain(|pod| pod["metadata"]["labels"][LABEL] != name);
        let is_owned = |it: &Value| it["metadata"]["ownerReferences"][0]["name"] == name;
        self.services.retain(|service| !is_owned(service));
    }

    pub(crate) fn job(&mut self, name: &str) -> Option<&mut Value> {
        self.jobs.iter_mut().find(|job| job["metadata"]["name"] == name)
    }

    pub(crate) fn pods_of(&mut self, name: &str) -> impl Iterator<Item = &mut Value> {
        self.pods.iter_mut().filter(move |pod| pod["metadata"]["labels"][LABEL] == name)
    }

    /// Gives the pods of a Job their hosts, `n1` and so on.
    pub(crate) fn place(&mut self, name: &str) {
        for (index, pod) in self.pods_of(name).enumerate() {
            pod["spec"]["nodeName"] = json!(format!("n{}", index + 1));
            pod["status"] = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
        }
    }

    /// Suspends a Job, whose pods are removed, or lets it start, as a queue of the cluster does.
    pub(crate) fn suspend(&mut self, name: &str, is_suspended: bool) {
        let job = self.job(name).unwrap();
        job["spec"]["suspend"] = json!(is_suspended);
        let job = job.clone();
        self.pods.retain(|pod| pod["metadata"]["labels"][LABEL] != name);
        if !is_suspended {
            self.make_pods(name, &job);
        }
    }

    /// Ends the pods of a Job that still run, and with them the Job.
    pub(crate) fn end(&mut self, name: &str, code: i32) {
        let (phase, condition) = match code {
            0 => ("Succeeded", json!({"type": "Complete", "status": "True"})),
            _ => ("Failed", failed()),
        };
        let ended = json!({"terminated": {"exitCode": code, "reason": "Error"}});
        for pod in self.pods_of(name).filter(|pod| pod["status"]["phase"] == "Running") {
            pod["status"] = json!({"phase": phase, "containerStatuses": [{"state": ended}]});
        }
        let Some(job) = self.job(name) else { return };
        if job["spec"]["suspend"] == true {
            return;
        }
        if job["metadata"]["deletionTimestamp"].is_string() {
            return self.remove(name);
        }
        if job["status"]["conditions"].is_null() {
            job["status"] = json!({"conditions": [condition]});
        }
    }

    /// Lets one pod of a Job fail with this status, and with it the Job.
    pub(crate) fn fail(&mut self, name: &str, index: usize, status: Value) {
        self.pods_of(name).nth(index).unwrap()["status"] = status;
        self.job(name).unwrap()["status"] = json!({"conditions": [failed()]});
    }
}

fn failed() -> Value {
    let reason = "BackoffLimitExceeded";
    json!({"type": "Failed", "status": "True", "reason": reason, "message": "Job has reached the specified backoff limit"})
}

fn absent(name: &str) -> (u16, Value) {
    (404, status(404, "NotFound", &format!("jobs.batch \"{name}\" not found")))
}
