//! A tracking server of MLflow: the calls that record runs. It keeps experiments and runs in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::http::{Request, Response, Server};

pub const TOKEN: &str = "the_token_of_the_test";
const API: &str = "/api/2.0/mlflow/";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub experiment: String,
    pub name: String,
    pub tags: BTreeMap<String, String>,
    pub parameters: BTreeMap<String, String>,
    /// Step and value of each metric, in the order of their arrival.
    pub metrics: BTreeMap<String, Vec<(u64, f64)>>,
    /// The statuses that the run had.
    pub statuses: Vec<String>,
    pub has_end: bool,
}

#[derive(Debug, Default)]
struct State {
    experiments: Vec<String>,
    runs: Vec<Run>,
    /// The number of requests still to be answered by an error.
    outages: usize,
    refuses_metrics: bool,
}

#[derive(Debug)]
pub struct Mlflow {
    server: Server,
    state: Arc<Mutex<State>>,
}

impl Mlflow {
    /// Starts a server for clients with [`TOKEN`].
    pub fn start() -> Mlflow {
        let default = State { experiments: vec!["Default".to_owned()], ..State::default() };
        let state = Arc::new(Mutex::new(default));
        let own = Arc::clone(&state);
        let server = Server::start(move |request| respond(&mut own.lock().unwrap(), request));
        Mlflow { server, state }
    }

    /// The address of the server, which has a path in front of the API's.
    pub fn url(&self) -> String {
        format!("{}/tracking/", self.server.url())
    }

    /// The variables by which clients find the server.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let token = ("MLFLOW_TRACKING_TOKEN", TOKEN.to_owned());
        vec![("MLFLOW_TRACKING_URI", self.url()), token]
    }

    /// Answers the next `count` requests by an error.
    pub fn fail(&self, count: usize) {
        self.state().outages = count;
    }

    /// Refuses metrics from now on.
    pub fn refuse_metrics(&self) {
        self.state().refuses_metrics = true;
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn runs(&self) -> Vec<Run> {
        self.state().runs.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn respond(state: &mut State, request: &Request) -> Response {
    if request.headers.get("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return Response::new(401, "");
    }
    if state.outages > 0 {
        state.outages -= 1;
        return Response::new(503, "");
    }
    let call = request.path.strip_prefix("/tracking").and_then(|path| path.strip_prefix(API));
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let answer = match (request.method.as_str(), call.unwrap_or_default()) {
        ("GET", "experiments/get-by-name") => get_experiment(state, request),
        ("POST", "experiments/create") => {
            state.experiments.push(text(&body["name"]));
            Some(json!({"experiment_id": (state.experiments.len() - 1).to_string()}))
        }
        ("POST", "runs/search") => Some(search(state, &body)),
        ("POST", "runs/create") => Some(create(state, &body)),
        ("POST", "runs/log-batch") => {
            if state.refuses_metrics && body["metrics"].is_array() {
                return Response::new(400, json!({"message": "no more metrics"}).to_string());
            }
            log(run(state, &body), &body);
            Some(json!({}))
        }
        ("POST", "runs/update") => {
            let run = run(state, &body);
            run.statuses.push(text(&body["status"]));
            run.has_end = body["end_time"].is_u64();
            Some(json!({}))
        }
        _ => None,
    };
    match answer {
        Some(answer) => Response::new(200, answer.to_string()),
        None => Response::new(404, json!({"error_code": "RESOURCE_DOES_NOT_EXIST"}).to_string()),
    }
}

fn get_experiment(state: &State, request: &Request) -> Option<Value> {
    let name = request.parameter("experiment_name")?;
    let id = state.experiments.iter().position(|known| *known == name)?;
    Some(json!({"experiment": {"experiment_id": id.to_string(), "name": name}}))
}

/// Finds runs by the tag in a filter like "tags.`key` = 'value'".
fn search(state: &State, body: &Value) -> Value {
    let filter = text(&body["filter"]);
    let (key, value) = filter.split_once(" = ").unwrap();
    let key = key.trim_start_matches("tags.`").trim_end_matches('`');
    let value = value.trim_matches('\'');
    let of_experiment = |run: &Run| body["experiment_ids"] == json!([id_of(state, run)]);
    let tagged = |run: &Run| run.tags.get(key).is_some_and(|found| found == value);
    let found = state.runs.iter().enumerate().filter(|(_, run)| of_experiment(run) && tagged(run));
    let runs = found.map(|(index, run)| {
        let latest = run.metrics.iter().map(|(key, values)| {
            let (step, value) = values[values.len() - 1];
            json!({"key": key, "value": value, "step": step})
        });
        json!({"info": {"run_id": index.to_string()}, "data": {"metrics": latest.collect::<Vec<_>>()}})
    });
    json!({"runs": runs.collect::<Vec<_>>()})
}

fn id_of(state: &State, run: &Run) -> String {
    state.experiments.iter().position(|known| *known == run.experiment).unwrap().to_string()
}

fn create(state: &mut State, body: &Value) -> Value {
    let experiment: usize = text(&body["experiment_id"]).parse().unwrap();
    assert!(body["start_time"].is_u64(), "{body}");
    state.runs.push(Run {
        experiment: state.experiments[experiment].clone(),
        name: text(&body["run_name"]),
        tags: pairs(&body["tags"]).collect(),
        statuses: vec!["RUNNING".to_owned()],
        ..Run::default()
    });
    json!({"run": {"info": {"run_id": (state.runs.len() - 1).to_string()}}})
}

fn log(run: &mut Run, body: &Value) {
    run.parameters.extend(pairs(&body["params"]));
    for metric in body["metrics"].as_array().into_iter().flatten() {
        let (step, value) = (metric["step"].as_u64().unwrap(), metric["value"].as_f64().unwrap());
        assert!(metric["timestamp"].is_u64(), "{metric}");
        run.metrics.entry(text(&metric["key"])).or_default().push((step, value));
    }
}

fn run<'a>(state: &'a mut State, body: &Value) -> &'a mut Run {
    let index: usize = text(&body["run_id"]).parse().unwrap();
    &mut state.runs[index]
}

fn pairs(list: &Value) -> impl Iterator<Item = (String, String)> {
    let pairs = list.as_array().into_iter().flatten();
    pairs.map(|pair| (text(&pair["key"]), text(&pair["value"])))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
