//! MLflow's tracking server. A thread sends metrics to it, so training never waits for it, and its failure
//! causes only a warning. Later attempts of a job continue its run, which has the job's id as a tag.

mod client;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::super::LogEntry;
use super::About;
use super::mlflow_files::{milliseconds, parameter_texts};
use crate::reporting::{Journal, print_line};
use client::{Client, Opened, Problem};
use queue::{Metric, Queue, Work};

pub(super) use client::ServerAccess;

/// The experiment that every server has.
const EXPERIMENT: &str = "Default";
/// How long the end of a completed job waits for the server.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the end of a run that did not complete waits for the server.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(600);

/// The run of a job.
#[derive(Debug)]
pub(super) struct MlflowServer {
    queue: Arc<Queue>,
    journal: Journal,
    is_finished: bool,
}

/// Names and parameters of a run, and the metrics that earlier attempts have logged.
#[derive(Debug)]
struct Description {
    job_id: String,
    run_name: String,
    experiment: String,
    parameters: Vec<(String, String)>,
    logged: Vec<Metric>,
}

impl MlflowServer {
    pub(super) fn start(
        access: ServerAccess,
        about: &About<'_>,
        parameters: &Map<String, Value>,
        logged: &[LogEntry],
        journal: Journal,
    ) -> MlflowServer {
        let queue = Arc::new(Queue::default());
        let experiment = about.project.map(str::to_owned).or_else(|| access.experiment.clone());
        let texts = parameter_texts(parameters);
        let run = Description {
            job_id: about.job_id.to_owned(),
            run_name: about.run_name.to_owned(),
            experiment: experiment.unwrap_or_else(|| EXPERIMENT.to_owned()),
            parameters: texts.map(|(name, text)| (name.to_owned(), text)).collect(),
            logged: logged.iter().flat_map(metrics_of).collect(),
        };
        let (sender, own) = (Arc::clone(&queue), journal.clone());
        let send = move || {
            if let Err(problem) = Sender::new(&sender, &own).send(&access, &run) {
                warn(&own, &format!("{problem}; nothing more is sent to MLflow"));
            }
            sender.close();
        };
        if let Err(error) = std::thread::Builder::new().name("mlflow".to_owned()).spawn(send) {
            warn(&journal, &format!("start a thread: {error}; nothing is sent to MLflow"));
            queue.close();
        }
        MlflowServer { queue, journal, is_finished: false }
    }

    /// Passes the values of one step on, without waiting.
    pub(super) fn metrics(&self, step: u64, values: Vec<(String, f64)>) {
        let timestamp = milliseconds() as u64;
        let metric = |(key, value)| Metric { key, value, timestamp, step };
        self.queue.add(values.into_iter().map(metric));
    }

    /// Notes that the job has completed.
    pub(super) fn finish(&mut self) {
        self.end("FINISHED", FINISH_TIMEOUT);
    }

    fn end(&mut self, status: &'static str, timeout: Duration) {
        self.is_finished = true;
        let lost = self.queue.end(status, timeout);
        if lost > 0 {
            warn(&self.journal, &format!("metric values that were not sent to MLflow: {lost}"));
        }
    }
}

/// A run that ends otherwise has not completed.
impl Drop for MlflowServer {
    fn drop(&mut self) {
        if !self.is_finished {
            self.end("FAILED", LEAVE_TIMEOUT);
        }
    }
}

/// Sends what is in the queue.
struct Sender<'a> {
    queue: &'a Queue,
    journal: &'a Journal,
    warned: Option<Instant>,
}

impl<'a> Sender<'a> {
    fn new(queue: &'a Queue, journal: &'a Journal) -> Sender<'a> {
        Sender { queue, journal, warned: None }
    }

    /// Returns when the run has ended, or with a problem that does not pass in time.
    fn send(&mut self, access: &ServerAccess, run: &Description) -> Result<(), Problem> {
        let client = Client::new(access)?;
        let Opened { id, last_steps } = self.persist(|| open(&client, run))?;
        match self.persist(|| client.log_parameters(&id, &run.parameters)) {
            // Parameters of an earlier attempt cannot be changed.
            Err(problem @ Problem::Refused { .. }) => warn(self.journal, &problem.to_string()),
            logged => logged?,
        }
        // An earlier attempt may have ended before it sent them.
        let is_missing =
            |metric: &&Metric| last_steps.get(&metric.key).is_none_or(|last| metric.step > *last);
        let missing: Vec<Metric> = run.logged.iter().filter(is_missing).cloned().collect();
        self.persist(|| client.log_metrics(&id, &missing))?;
        loop {
            match self.queue.next() {
                Work::Metrics(metrics) => {
                    self.persist(|| client.log_metrics(&id, &metrics))?;
                    self.queue.note_sent();
                }
                Work::End(status) => {
                    let end = milliseconds() as u64;
                    return self.persist(|| client.update(&id, status, Some(end)));
                }
            }
        }
    }

    /// Repeats a call until it succeeds, while problems may pass and the run does not have to end.
    fn persist<T>(&mut self, call: impl Fn() -> Result<T, Problem>) -> Result<T, Problem> {
        let mut pause = PAUSE_MIN;
        loop {
            let problem = match call() {
                Ok(done) => return Ok(done),
                Err(problem) => problem,
            };
            if !problem.may_pass() || !self.queue.pause(pause) {
                return Err(problem);
            }
            if self.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
                self.warned = Some(Instant::now());
                warn(self.journal, &format!("{problem}; it is tried again"));
            }
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

/// Returns a job's run: that of an earlier attempt, or a new one.
fn open(client: &Client<'_>, run: &Description) -> Result<Opened, Problem> {
    let experiment = client.experiment(&run.experiment)?;
    if let Some(opened) = client.find_run(&experiment, &run.job_id)? {
        client.update(&opened.id, "RUNNING", None)?;
        return Ok(opened);
    }
    let id = client.create_run(&experiment, &run.job_id, &run.run_name)?;
    Ok(Opened { id, last_steps: HashMap::new() })
}

/// The metrics of an entry of `log_history`.
fn metrics_of(entry: &LogEntry) -> impl Iterator<Item = Metric> {
    let (step, timestamp) = (entry.get("step").and_then(Value::as_u64), milliseconds() as u64);
    let values = entry.iter().filter(|(name, _)| *name != "step");
    values.filter_map(move |(key, value)| {
        Some(Metric { key: key.clone(), value: value.as_f64()?, timestamp, step: step? })
    })
}

fn warn(journal: &Journal, message: &str) {
    if let Err(error) = journal.warn("MLFLOW_UNAVAILABLE", message) {
        // The next event of the run fails in the same way.
        print_line(format_args!("warning: record an event: {error}"));
    }
}
