//! Kubernetes, through `kubectl`, which has the user's contexts and the credential plugins of clouds. A
//! job is an Indexed Job with a headless service, by which its pods find the first one.
//!
//! `kubectl` sends requests as they are (`--raw`), one a call: it asks for no list of the API's resources and for no
//! schema, and needs no cache of those.

mod answer;
pub(crate) mod checks;
mod manifest;
mod status;

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::Value;
use traind_job_file::RunSpec;

use self::answer::Problem;
use super::program::{Call, find as find_program};
use super::{ClusterError, Report, Submission};

const PROGRAM: &str = "kubectl";
/// Variables of the daemon that `kubectl` and its credential plugins need.
const PASSED: [&str; 13] = [
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
    "https_proxy",
    "no_proxy",
];
const EXISTS: &str = "AlreadyExists";
const ABSENT: &str = "NotFound";

/// The result of a request; the outer error is one of `kubectl` itself.
type Answered = Result<Result<Value, Problem>, ClusterError>;

/// Checks that the program is there.
pub(super) fn check() -> Result<(), ClusterError> {
    find_program(PROGRAM).map(drop).ok_or(ClusterError::Missing { program: PROGRAM })
}

/// The manifests in YAML.
pub(super) fn preview(job: &Submission<'_>) -> String {
    let manifests = [manifest::job(job), manifest::service(job.spec, None)];
    let texts = manifests.iter().map(|it| serde_saphyr::to_string(it).unwrap_or_default());
    texts.collect::<Vec<_>>().join("---\n")
}

/// Creates the objects of a job. Returns "NAMESPACE/NAME".
pub(super) async fn submit(job: &Submission<'_>) -> Result<String, ClusterError> {
    let namespace = &job.spec.job.kubernetes.namespace;
    let created = create(&jobs(namespace), &manifest::job(job)).await?;
    let created = created.map_err(|problem| match problem.is(EXISTS) {
        true => ClusterError::Refused {
            program: PROGRAM,
            message: format!(
                "namespace {namespace} has a job of this name; another daemon may use it"
            ),
        },
        false => problem.into_error(),
    })?;
    let id = id(job.spec);
    match serve(job.spec, &created).await {
        // Without the service the pods do not find each other.
        Err(error) if !error.is_transient() => {
            remove(&id).await?;
            Err(error)
        }
        // The daemon looks for the job, and completes it.
        served => served.map(|()| id),
    }
}

/// Finds the job of an attempt, whose name follows from it, and gives it its service if that is missing.
pub(super) async fn find(spec: &RunSpec) -> Result<Option<String>, ClusterError> {
    let id = id(spec);
    let Some(job) = job(&id).await? else { return Ok(None) };
    serve(spec, &job).await?;
    Ok(Some(id))
}

/// The most attempts that are looked for at once. Each is a word of the request.
const ATTEMPTS_MAX: u32 = 100;

/// Finds the newest attempt of a job among those from `since`, whose names follow from it.
pub(super) async fn newest(
    job_id: &str,
    since: u32,
    namespace: &str,
) -> Result<Option<String>, ClusterError> {
    let names: Vec<String> = (since..since.saturating_add(ATTEMPTS_MAX))
        .map(|attempt| manifest::name(job_id, attempt))
        .collect();
    let (path, wanted) = (jobs(namespace), names.join(","));
    let path = format!("{path}?labelSelector={LABEL}%20in%20%28{wanted}%29");
    let found = get(&path).await?.map_err(Problem::into_error)?;
    let items = found["items"].as_array().map_or(&[][..], Vec::as_slice);
    let has = |name: &str| {
        items.iter().any(|it| it.pointer("/metadata/name").and_then(Value::as_str) == Some(name))
    };
    let newest = names.into_iter().rev().find(|name| has(name));
    Ok(newest.map(|name| format!("{namespace}/{name}")))
}

/// Asks for a job's state, with that of its pods.
pub(super) async fn report(id: &str) -> Result<Report, ClusterError> {
    let (namespace, name) = split(id);
    let Some(job) = job(id).await? else { return Ok(status::report(id, None, &[])) };
    let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={LABEL}%3D{name}");
    let pods = get(&pods).await?.map_err(Problem::into_error)?;
    let pods = pods["items"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(status::report(id, Some(&job), pods))
}

/// `manifest::LABEL` in the query of a request.
const LABEL: &str = "traind%2Fjob";

/// Deletes a job. Its pods get SIGTERM, and time to save a checkpoint; the Job stays until they have ended.
pub(super) async fn remove(id: &str) -> Result<(), ClusterError> {
    let path = format!("{}?propagationPolicy=Foreground", path(id));
    match send(call().arg("delete").arg("--raw").arg(path)).await? {
        Err(problem) if !problem.is(ABSENT) => Err(problem.into_error()),
        _ => Ok(()),
    }
}

/// Creates the service of a Job, unless there is one.
async fn serve(spec: &RunSpec, job: &Value) -> Result<(), ClusterError> {
    let uid = job.pointer("/metadata/uid").and_then(Value::as_str);
    let uid =
        uid.ok_or_else(|| ClusterError::Answer { program: PROGRAM, text: job.to_string() })?;
    let services = format!("/api/v1/namespaces/{}/services", spec.job.kubernetes.namespace);
    match create(&services, &manifest::service(spec, Some(uid))).await? {
        Err(problem) if !problem.is(EXISTS) => Err(problem.into_error()),
        _ => Ok(()),
    }
}

/// The Job; `None` if there is none.
async fn job(id: &str) -> Result<Option<Value>, ClusterError> {
    match get(&path(id)).await? {
        Ok(job) => Ok(Some(job)),
        Err(problem) if problem.is(ABSENT) => Ok(None),
        Err(problem) => Err(problem.into_error()),
    }
}

async fn get(path: &str) -> Answered {
    send(call().arg("get").arg("--raw").arg(path)).await
}

async fn create(path: &str, manifest: &Value) -> Answered {
    let text = manifest.to_string();
    // Fields that the server does not know are an error, where its version can say so.
    let path = format!("{path}?fieldValidation=Strict");
    let call = call().arg("create").arg("--raw").arg(path).arg("--filename=-");
    send(Call { input: &text, ..call }).await
}

async fn send(call: Call<'_>) -> Answered {
    let answer = call.run().await?;
    if !answer.success {
        return Ok(Err(Problem::parse(&answer.errors)));
    }
    let parsed = serde_json::from_str(&answer.output);
    parsed.map(Ok).map_err(|_| ClusterError::Answer { program: PROGRAM, text: answer.output })
}

fn call<'a>() -> Call<'a> {
    let passed = PASSED.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let environment: BTreeMap<OsString, OsString> = passed.collect();
    Call { environment, ..Call::new(PROGRAM, None) }
}

fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

fn path(id: &str) -> String {
    let (namespace, name) = split(id);
    format!("{}/{name}", jobs(namespace))
}

fn id(spec: &RunSpec) -> String {
    format!("{}/{}", spec.job.kubernetes.namespace, manifest::name(&spec.job_id, spec.attempt))
}

fn split(id: &str) -> (&str, &str) {
    id.split_once('/').unwrap_or(("default", id))
}
