//! Kubernetes, through `kubectl`, which has the user's contexts and the credential plugins of clouds. A
//! job is an Indexed Job with a headless service, by which its pods find the first one.

pub(crate) mod checks;
mod manifest;
mod status;

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::Value;

use super::program::{Answer, Call, find as find_program};
use super::{ClusterError, Report, Submission};

const PROGRAM: &str = "kubectl";
/// Variables of the daemon that `kubectl` and its credential plugins need.
const PASSED: [&str; 11] = [
    "AWS_CONFIG_FILE",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "HTTPS_PROXY",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "NO_PROXY",
];
/// Messages of an API server that does not answer now, or takes no more objects yet.
const UNAVAILABLE: [&str; 8] = [
    "Unable to connect to the server",
    "connection refused",
    "i/o timeout",
    "TLS handshake timeout",
    "exceeded quota",
    "TooManyRequests",
    "ServiceUnavailable",
    "etcdserver",
];

/// Checks that the program is there.
pub(super) fn check() -> Result<(), ClusterError> {
    find_program(PROGRAM).map(drop).ok_or(ClusterError::Missing { program: PROGRAM })
}

/// The manifests in YAML.
pub(super) fn preview(job: &Submission<'_>) -> String {
    let manifests = [manifest::job(job), manifest::service(job, None)];
    let texts = manifests.iter().map(|it| serde_saphyr::to_string(it).unwrap_or_default());
    texts.collect::<Vec<_>>().join("---\n")
}

/// Creates the objects of a job. Returns "NAMESPACE/NAME".
pub(super) async fn submit(job: &Submission<'_>) -> Result<String, ClusterError> {
    let manifest = manifest::job(job);
    let created = create(&manifest).await?;
    let text = |pointer: &str| created.pointer(pointer).and_then(Value::as_str);
    let (Some(name), Some(uid)) = (text("/metadata/name"), text("/metadata/uid")) else {
        return Err(ClusterError::Answer { program: PROGRAM, text: created.to_string() });
    };
    let id = format!("{}/{name}", job.spec.job.kubernetes.namespace);
    if let Err(error) = create(&manifest::service(job, Some(uid))).await {
        // Without the service the pods do not find each other.
        remove(&id).await?;
        return Err(error);
    }
    Ok(id)
}

/// Finds the job of an attempt, whose name follows from it.
pub(super) async fn find(
    job_id: &str,
    attempt: u32,
    namespace: &str,
) -> Result<Option<String>, ClusterError> {
    let id = format!("{namespace}/{}", manifest::name(job_id, attempt));
    let found = objects(&id).await?;
    Ok(status::has_job(&found).then_some(id))
}

/// Asks for a job's state, with that of its pods.
pub(super) async fn report(id: &str) -> Result<Report, ClusterError> {
    Ok(status::report(id, &objects(id).await?))
}

/// Deletes a job. Its pods get SIGTERM, and time to save a checkpoint.
pub(super) async fn remove(id: &str) -> Result<(), ClusterError> {
    let (namespace, name) = split(id);
    let call = call()
        .arg("delete")
        .arg("job")
        .arg(name)
        .arg(format!("--namespace={namespace}"))
        .arg("--cascade=foreground")
        .arg("--wait=false")
        .arg("--ignore-not-found");
    succeed(call.run().await?).map(drop)
}

/// The job and its pods, as a list.
async fn objects(id: &str) -> Result<Value, ClusterError> {
    let (namespace, name) = split(id);
    let call = call()
        .arg("get")
        .arg("job,pod")
        .arg(format!("--namespace={namespace}"))
        .arg(format!("--selector={}={name}", manifest::LABEL))
        .arg("--output=json");
    parse(succeed(call.run().await?)?)
}

async fn create(manifest: &Value) -> Result<Value, ClusterError> {
    let text = manifest.to_string();
    let mut call = call().arg("create").arg("--filename=-").arg("--output=json");
    call.input = &text;
    parse(succeed(call.run().await?)?)
}

fn call<'a>() -> Call<'a> {
    let passed = PASSED.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let environment: BTreeMap<OsString, OsString> = passed.collect();
    Call { environment, ..Call::new(PROGRAM, None) }
}

fn split(id: &str) -> (&str, &str) {
    id.split_once('/').unwrap_or(("default", id))
}

fn parse(answer: Answer) -> Result<Value, ClusterError> {
    serde_json::from_str(&answer.output)
        .map_err(|_| ClusterError::Answer { program: PROGRAM, text: answer.output })
}

fn succeed(answer: Answer) -> Result<Answer, ClusterError> {
    if answer.success {
        return Ok(answer);
    }
    let message = answer.errors.replace('\n', "; ");
    Err(ClusterError::of_message(PROGRAM, message, &UNAVAILABLE))
}
