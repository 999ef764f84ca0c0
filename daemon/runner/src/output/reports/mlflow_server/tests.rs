use std::path::Path;

use reqwest::Url;
use serde_json::json;
use traind_tests::mlflow::{Mlflow, TOKEN};

use super::*;

fn access(mlflow: &Mlflow) -> ServerAccess {
    ServerAccess {
        url: Url::parse(&mlflow.url()).unwrap(),
        token: Some(TOKEN.to_owned()),
        user: None,
        password: None,
        experiment: Some("texts".to_owned()),
    }
}

fn journal(folder: &Path) -> Journal {
    Journal::open(&folder.join("events.log")).unwrap()
}

/// Starts an attempt of a job that has `logged` entries.
fn start(mlflow: &Mlflow, journal: Journal, logged: &[LogEntry]) -> MlflowServer {
    let about = About {
        job_id: "k25m1ydqsw",
        run_name: "first",
        project: None,
        host: "here",
        output_dir: Path::new("out"),
        config: Map::new(),
    };
    // More than fit in a request.
    let parameters = (0..150).map(|index| (format!("argument_{index}"), json!(index))).collect();
    MlflowServer::start(access(mlflow), &about, &parameters, logged, journal)
}

fn loss(server: &MlflowServer, step: u64) {
    server.metrics(step, vec![("loss".to_owned(), step as f64)]);
}

#[test]
fn attempts_of_a_job_share_a_run_of_the_server() {
    let (folder, mlflow) = (tempfile::tempdir().unwrap(), Mlflow::start());
    let journal = journal(folder.path());
    let first = start(&mlflow, journal.clone(), &[]);
    loss(&first, 1);
    drop(first);
    // The checkpoint is that of step 2, which the server does not know.
    let entry = |step: u64| {
        LogEntry::from(
            [("loss", json!(step as f64)), ("step", json!(step))]
                .map(|(name, value)| (name.to_owned(), value)),
        )
    };
    let mut second = start(&mlflow, journal, &[entry(1), entry(2)]);
    loss(&second, 3);
    second.finish();
    let [run] = &mlflow.runs()[..] else { panic!("{:?}", mlflow.runs()) };
    assert_eq!((run.experiment.as_str(), run.name.as_str()), ("texts", "first"));
    assert_eq!(run.parameters.len(), 150);
    assert_eq!(run.metrics["loss"], [(1, 1.0), (2, 2.0), (3, 3.0)]);
    assert_eq!(run.statuses, ["RUNNING", "FAILED", "RUNNING", "FINISHED"]);
    assert!(run.has_end);
}

#[test]
fn a_server_that_refuses_metrics_is_left_alone() {
    let (folder, mlflow) = (tempfile::tempdir().unwrap(), Mlflow::start());
    mlflow.refuse_metrics();
    let mut server = start(&mlflow, journal(folder.path()), &[]);
    loss(&server, 1);
    server.finish();
    loss(&server, 2);
    server.finish();
    let warnings = server.journal.take_warnings();
    let expect = [
        "MLFLOW_UNAVAILABLE: MLflow's server responded to runs/log-batch with 400 Bad Request: no more \
         metrics; nothing more is sent to MLflow",
        "MLFLOW_UNAVAILABLE: metric values that were not sent to MLflow: 1",
        "MLFLOW_UNAVAILABLE: metric values that were not sent to MLflow: 2",
    ];
    assert_eq!(warnings, expect);
    assert_eq!(mlflow.runs()[0].statuses, ["RUNNING"]);
}
