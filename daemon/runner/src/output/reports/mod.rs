//! The places besides the job's events that metrics are written to.

mod mlflow_files;
mod mlflow_server;
mod tensorboard;
mod wandb;

use std::path::Path;

use serde_json::{Map, Value};
use traind_job_file::{JobFile, RunSpec};

use super::LogEntry;
use crate::error::RunResult;
use crate::reporting::Journal;
use mlflow_files::MlflowFiles;
use mlflow_server::{MlflowServer, ServerAccess};
use tensorboard::TensorBoardWriter;
use wandb::WandbRun;

/// The places that `report_to` names.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    tensorboard: Option<TensorBoardWriter>,
    mlflow_files: Option<MlflowFiles>,
    mlflow_server: Option<MlflowServer>,
    wandb: Option<WandbRun>,
}

/// Description of a job for those who read its metrics.
#[derive(Clone, Debug)]
struct About<'a> {
    job_id: &'a str,
    run_name: &'a str,
    project: Option<&'a str>,
    host: &'a str,
    output_dir: &'a Path,
    /// The keys of the model's config, and in addition those of `train` and the section `peft`.
    config: Map<String, Value>,
}

impl Reports {
    /// Opens them for a job, which has `logged` entries so far.
    pub(crate) fn open(
        spec: &RunSpec,
        host: &str,
        model_config: &Map<String, Value>,
        logged: &[LogEntry],
        journal: &Journal,
    ) -> RunResult<Reports> {
        let (to, folder) = (spec.job.train.report_to, spec.job.output_dir.as_path());
        let about = About::of(spec, host, model_config);
        let mut reports = Reports::default();
        if to.tensorboard {
            reports.tensorboard = Some(TensorBoardWriter::create(&folder.join("runs"), host)?);
        }
        if to.mlflow {
            let parameters = arguments(&spec.job);
            match ServerAccess::from_environment() {
                Some(access) => {
                    let journal = journal.clone();
                    let server = MlflowServer::start(access, &about, &parameters, logged, journal);
                    reports.mlflow_server = Some(server);
                }
                None => {
                    let folder = folder.join("mlruns");
                    reports.mlflow_files = Some(MlflowFiles::open(&folder, &about, &parameters)?);
                }
            }
        }
        if to.wandb {
            reports.wandb = Some(WandbRun::open(&folder.join("wandb"), &about, logged)?);
        }
        Ok(reports)
    }

    /// Writes an entry of `log_history`, where history consists of such entries.
    pub(crate) fn log(&mut self, entry: &LogEntry) -> RunResult<()> {
        self.wandb.as_mut().map_or(Ok(()), |wandb| wandb.log(entry))
    }

    /// Writes values of a step: of the group `train` or `eval`. TensorBoard shows groups, and MLflow has
    /// the Trainer's names.
    pub(crate) fn write<'a>(
        &mut self,
        step: u64,
        group: &str,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> RunResult<()> {
        let values: Vec<(&str, f64)> = values.into_iter().collect();
        let named = |name: &dyn Fn(&str) -> String| -> Vec<(String, f64)> {
            values.iter().map(|(value_name, value)| (name(value_name), *value)).collect()
        };
        if let Some(tensorboard) = &mut self.tensorboard {
            tensorboard.scalars(step, &named(&|name| format!("{group}/{name}")))?;
        }
        let prefix = if group == "train" { "" } else { "eval_" };
        let of_mlflow = || named(&|name| format!("{prefix}{name}"));
        if let Some(server) = &self.mlflow_server {
            server.metrics(step, of_mlflow());
        }
        match &self.mlflow_files {
            Some(files) => files.metrics(step, &of_mlflow()),
            None => Ok(()),
        }
    }

    /// Notes that the job has completed.
    pub(crate) fn finish(&mut self) -> RunResult<()> {
        if let Some(server) = &mut self.mlflow_server {
            server.finish();
        }
        self.mlflow_files.as_mut().map_or(Ok(()), MlflowFiles::finish)?;
        self.wandb.as_mut().map_or(Ok(()), WandbRun::finish)
    }
}

impl<'a> About<'a> {
    fn of(spec: &'a RunSpec, host: &'a str, model_config: &Map<String, Value>) -> About<'a> {
        let job = &spec.job;
        let mut config = model_config.clone();
        config.extend(arguments(job));
        if job.peft.method.is_some() {
            let peft = serde_json::to_value(&job.peft).unwrap_or_default();
            config.insert("peft_config".to_owned(), peft);
        }
        About {
            job_id: &spec.job_id,
            run_name: job.train.run_name.as_deref().unwrap_or(&job.name),
            project: job.train.project.as_deref(),
            host,
            output_dir: &job.output_dir,
            config,
        }
    }
}

/// The keys of `train`, with their values.
fn arguments(job: &JobFile) -> Map<String, Value> {
    match serde_json::to_value(&job.train) {
        Ok(Value::Object(keys)) => keys,
        _ => Map::new(),
    }
}
