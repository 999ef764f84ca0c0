//! The part of MLflow's REST API that records a run.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::blocking::{Client as Http, RequestBuilder};
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};

use super::super::mlflow_files::milliseconds;
use super::queue::{METRICS_MAX, Metric};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most parameters in a request of MLflow.
const PARAMETERS_MAX: usize = 100;
/// The most characters of an answer that a message repeats.
const MESSAGE_CHARACTERS_MAX: usize = 300;
/// The tag of the run that has the job's id.
const JOB_TAG: &str = "traind.job_id";

#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("MLflow's server cannot be reached: {message}")]
    Unreachable { message: String },
    #[error("MLflow's server responded to {call} with {status}: {message}")]
    Refused { call: &'static str, status: StatusCode, message: String },
    #[error("MLflow's server responded to {call} without `{field}`")]
    Incomplete { call: &'static str, field: &'static str },
}

impl Problem {
    /// Whether the same call may succeed later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Problem::Unreachable { .. } => true,
            Problem::Refused { status, .. } => {
                let later = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
                status.is_server_error() || later.contains(status)
            }
            Problem::Incomplete { .. } => false,
        }
    }
}

/// Address of a server, and credentials.
pub(in super::super) struct ServerAccess {
    pub(super) url: Url,
    pub(super) token: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) experiment: Option<String>,
}

impl ServerAccess {
    /// Reads the variables of MLflow's clients. `None` without the URL of a server.
    pub(in super::super) fn from_environment() -> Option<ServerAccess> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = Url::parse(&variable("MLFLOW_TRACKING_URI")?).ok()?;
        ["http", "https"].contains(&url.scheme()).then(|| ServerAccess {
            url,
            token: variable("MLFLOW_TRACKING_TOKEN"),
            user: variable("MLFLOW_TRACKING_USERNAME"),
            password: variable("MLFLOW_TRACKING_PASSWORD"),
            experiment: variable("MLFLOW_EXPERIMENT_NAME"),
        })
    }
}

/// A run of the server.
#[derive(Debug)]
pub(super) struct Opened {
    pub id: String,
    /// The last step of each metric.
    pub last_steps: HashMap<String, u64>,
}

/// A server.
pub(super) struct Client<'a> {
    http: Http,
    access: &'a ServerAccess,
}

impl Client<'_> {
    pub(super) fn new(access: &ServerAccess) -> Result<Client<'_>, Problem> {
        let builder = Http::builder().connect_timeout(CONNECT_TIMEOUT).timeout(TIMEOUT);
        let http = builder.user_agent("traind").build().map_err(unreachable)?;
        Ok(Client { http, access })
    }

    /// Returns the id of the experiment of this name, which is created if there is none.
    pub(super) fn experiment(&self, name: &str) -> Result<String, Problem> {
        const CALL: &str = "experiments/get-by-name";
        let mut url = self.url(CALL);
        url.query_pairs_mut().append_pair("experiment_name", name);
        match self.send(CALL, self.http.get(url)) {
            Ok(found) => text(CALL, &found["experiment"], "experiment_id"),
            Err(Problem::Refused { status: StatusCode::NOT_FOUND, .. }) => {
                const CALL: &str = "experiments/create";
                text(CALL, &self.post(CALL, &json!({"name": name}))?, "experiment_id")
            }
            Err(problem) => Err(problem),
        }
    }

    /// Returns a job's run, if an earlier attempt has created one.
    pub(super) fn find_run(
        &self,
        experiment: &str,
        job_id: &str,
    ) -> Result<Option<Opened>, Problem> {
        const CALL: &str = "runs/search";
        let found = self.post(
            CALL,
            &json!({
                "experiment_ids": [experiment],
                "filter": format!("tags.`{JOB_TAG}` = '{job_id}'"),
                "max_results": 1,
            }),
        )?;
        let Some(run) = found["runs"].get(0) else { return Ok(None) };
        let metrics = run["data"]["metrics"].as_array().into_iter().flatten();
        let last_step =
            |metric: &Value| Some((metric["key"].as_str()?.to_owned(), number(&metric["step"])?));
        Ok(Some(Opened {
            id: text(CALL, &run["info"], "run_id")?,
            last_steps: metrics.filter_map(last_step).collect(),
        }))
    }

    /// Creates a run, and returns its id.
    pub(super) fn create_run(
        &self,
        experiment: &str,
        job_id: &str,
        name: &str,
    ) -> Result<String, Problem> {
        const CALL: &str = "runs/create";
        let tag = |key: &str, value: &str| json!({"key": key, "value": value});
        let created = self.post(
            CALL,
            &json!({
                "experiment_id": experiment,
                "run_name": name,
                "start_time": milliseconds() as u64,
                "tags": [tag(JOB_TAG, job_id), tag("mlflow.source.name", "traind")],
            }),
        )?;
        text(CALL, &created["run"]["info"], "run_id")
    }

    pub(super) fn log_parameters(
        &self,
        run: &str,
        parameters: &[(String, String)],
    ) -> Result<(), Problem> {
        parameters.chunks(PARAMETERS_MAX).try_for_each(|parameters| {
            let shown = |(key, value): &(String, String)| json!({"key": key, "value": value});
            let parameters: Vec<Value> = parameters.iter().map(shown).collect();
            self.post("runs/log-batch", &json!({"run_id": run, "params": parameters})).map(drop)
        })
    }

    pub(super) fn log_metrics(&self, run: &str, metrics: &[Metric]) -> Result<(), Problem> {
        metrics.chunks(METRICS_MAX).try_for_each(|metrics| {
            self.post("runs/log-batch", &json!({"run_id": run, "metrics": metrics})).map(drop)
        })
    }

    /// Sets the status of a run and, where it has ended, the time in milliseconds since 1970.
    pub(super) fn update(
        &self,
        run: &str,
        status: &str,
        end_time: Option<u64>,
    ) -> Result<(), Problem> {
        let mut body = json!({"run_id": run, "status": status});
        if let Some(time) = end_time {
            body["end_time"] = time.into();
        }
        self.post("runs/update", &body).map(drop)
    }

    fn url(&self, call: &str) -> Url {
        let mut url = self.access.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "2.0", "mlflow"]).extend(call.split('/'));
        }
        url
    }

    fn post(&self, call: &'static str, body: &Value) -> Result<Value, Problem> {
        let request = self.http.post(self.url(call)).header("Content-Type", "application/json");
        self.send(call, request.body(body.to_string()))
    }

    fn send(&self, call: &'static str, request: RequestBuilder) -> Result<Value, Problem> {
        let ServerAccess { token, user, password, .. } = self.access;
        let request = match (token, user) {
            (Some(token), _) => request.bearer_auth(token),
            (None, Some(user)) => request.basic_auth(user, password.as_ref()),
            (None, None) => request,
        };
        let response = request.send().map_err(unreachable)?;
        let status = response.status();
        let answer = response.text().map_err(unreachable)?;
        match status.is_success() {
            true => Ok(serde_json::from_str(&answer).unwrap_or_default()),
            false => Err(Problem::Refused { call, status, message: message(&answer) }),
        }
    }
}

fn text(call: &'static str, answer: &Value, field: &'static str) -> Result<String, Problem> {
    let text = answer[field].as_str().map(str::to_owned);
    text.ok_or(Problem::Incomplete { call, field })
}

/// Servers write 64-bit integers as numbers or, as Protocol Buffers do in JSON, as texts.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The message of an answer, which is JSON if MLflow itself gives it.
fn message(answer: &str) -> String {
    let parsed: Value = serde_json::from_str(answer).unwrap_or_default();
    let message = parsed["message"].as_str().unwrap_or(answer);
    message.chars().take(MESSAGE_CHARACTERS_MAX).collect()
}

/// The address is left out, since it may have a password.
fn unreachable(error: reqwest::Error) -> Problem {
    Problem::Unreachable { message: format!("{:#}", anyhow::Error::from(error.without_url())) }
}
