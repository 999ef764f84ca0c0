//! MLflow's file store, which is written where no server is configured: a folder for the experiment, one
//! in it for the run, and in that a file for each metric and each parameter. Later attempts of a job
//! continue its run.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::super::yaml::quoted;
use super::super::{failed, write_of_several};
use super::About;
use crate::error::RunResult;

/// The experiment that every store has.
const EXPERIMENT: &str = "0";
/// Digits of a run's id.
const ID_DIGITS: usize = 32;
/// A longer value is not a parameter of MLflow.
const PARAMETER_CHARACTERS_MAX: usize = 500;

/// The states of a run by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Running = 1,
    Finished = 3,
    Failed = 4,
}

/// The run of a job.
#[derive(Debug)]
pub(super) struct MlflowFiles {
    folder: PathBuf,
    id: String,
    name: String,
    /// The start of the run, in milliseconds since 1970.
    start: u128,
    status: Status,
}

impl MlflowFiles {
    /// Opens the run of a job in the store, which is created.
    pub(super) fn open(
        store: &Path,
        about: &About<'_>,
        parameters: &Map<String, Value>,
    ) -> RunResult<MlflowFiles> {
        let id = run_id(about.job_id);
        let folder = store.join(EXPERIMENT).join(&id);
        for inside in ["artifacts", "metrics", "params", "tags"] {
            let inside = folder.join(inside);
            fs::create_dir_all(&inside).map_err(failed("create", &inside))?;
        }
        let (name, start) = (about.run_name.to_owned(), milliseconds());
        let mut run = MlflowFiles { folder, id, name, start, status: Status::Running };
        run.write_experiment(&store.join(EXPERIMENT))?;
        for (name, text) in parameter_texts(parameters) {
            write(&run.folder.join("params").join(name), &text)?;
        }
        for (tag, value) in
            [("mlflow.runName", run.name.as_str()), ("mlflow.source.name", "traind")]
        {
            write(&run.folder.join("tags").join(tag), value)?;
        }
        run.set_status(Status::Running)?;
        Ok(run)
    }

    /// Appends the values of one step.
    pub(super) fn metrics(&self, step: u64, values: &[(String, f64)]) -> RunResult<()> {
        let time = milliseconds();
        for (name, value) in values {
            let path = self.folder.join("metrics").join(name);
            let open = OpenOptions::new().create(true).append(true).open(&path);
            let append = open.and_then(|mut file: File| writeln!(file, "{time} {value} {step}"));
            append.map_err(failed("append to", &path))?;
        }
        Ok(())
    }

    /// Notes that the job has completed.
    pub(super) fn finish(&mut self) -> RunResult<()> {
        self.set_status(Status::Finished)
    }

    fn write_experiment(&self, folder: &Path) -> RunResult<()> {
        let path = folder.join("meta.yaml");
        if path.exists() {
            return Ok(());
        }
        let (location, time) = (quoted(&address(folder)), self.start);
        let about = format!(
            "artifact_location: {location}\ncreation_time: {time}\nexperiment_id: '{EXPERIMENT}'\n\
             last_update_time: {time}\nlifecycle_stage: active\nname: Default\n"
        );
        write(&path, &about)
    }

    fn set_status(&mut self, status: Status) -> RunResult<()> {
        self.status = status;
        let end = match status {
            Status::Running => "null".to_owned(),
            Status::Finished | Status::Failed => milliseconds().to_string(),
        };
        let about = format!(
            "artifact_uri: {}\nend_time: {end}\nentry_point_name: ''\nexperiment_id: '{EXPERIMENT}'\n\
             lifecycle_stage: active\nrun_id: {id}\nrun_name: {}\nrun_uuid: {id}\nsource_name: ''\n\
             source_type: 4\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: ''\n",
            quoted(&address(&self.folder.join("artifacts"))),
            quoted(&self.name),
            self.start,
            status as u8,
            id = quoted(&self.id),
        );
        write(&self.folder.join("meta.yaml"), &about)
    }
}

/// A run that ends otherwise has not completed.
impl Drop for MlflowFiles {
    fn drop(&mut self) {
        if self.status == Status::Running {
            // The run already ends with another error.
            let _ = self.set_status(Status::Failed);
        }
    }
}

/// The parameters of a run as MLflow spells them, without those that are too long.
pub(super) fn parameter_texts(
    parameters: &Map<String, Value>,
) -> impl Iterator<Item = (&str, String)> {
    let text = |value: &Value| match value {
        Value::Null => "None".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let texts = parameters.iter().map(move |(name, value)| (name.as_str(), text(value)));
    texts.filter(|(_, text)| text.chars().count() <= PARAMETER_CHARACTERS_MAX)
}

/// An id of MLflow's length, the same for all attempts of a job.
fn run_id(job_id: &str) -> String {
    let digits: String = job_id.bytes().map(|byte| format!("{byte:02x}")).collect();
    digits.chars().chain(std::iter::repeat('0')).take(ID_DIGITS).collect()
}

fn address(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

fn write(path: &Path, content: &str) -> RunResult<()> {
    write_of_several(path, content.as_bytes())
}

pub(super) fn milliseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_of_a_job_share_a_run() {
        let store = tempfile::tempdir().unwrap();
        let parameters = serde_json::json!({"learning_rate": 0.5, "optim": "sgd", "freeze": null});
        let parameters = parameters.as_object().unwrap();
        let about = About {
            job_id: "k25m1ydqsw",
            run_name: "a: \"b\"",
            project: None,
            host: "here",
            output_dir: store.path(),
            config: Map::new(),
        };
        let open = || MlflowFiles::open(store.path(), &about, parameters).unwrap();
        let first = open();
        first.metrics(1, &[("loss".to_owned(), 0.25)]).unwrap();
        let folder = first.folder.clone();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert!(read("meta.yaml").contains("status: 1\n"));
        drop(first);
        assert!(read("meta.yaml").contains("status: 4\n"));
        let mut second = open();
        second.metrics(2, &[("loss".to_owned(), 0.125)]).unwrap();
        second.finish().unwrap();
        drop(second);
        assert!(read("meta.yaml").contains("run_name: \"a: \\\"b\\\"\"\n"));
        assert!(read("meta.yaml").contains("status: 3\n"));
        assert_eq!(read("params/freeze"), "None");
        let lines = read("metrics/loss");
        let values: Vec<_> = lines.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(values, ["0.25 1", "0.125 2"]);
    }
}
