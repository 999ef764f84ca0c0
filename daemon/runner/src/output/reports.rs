//! The places besides the job's events that metrics are written to.

use std::path::Path;

use traind_job_file::JobFile;

use super::mlflow::MlflowRun;
use super::tensorboard::TensorBoardWriter;
use crate::error::RunResult;

/// The places that `report_to` names.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    tensorboard: Option<TensorBoardWriter>,
    mlflow: Option<MlflowRun>,
}

impl Reports {
    /// Opens them in the output folder of a job.
    pub(crate) fn open(job: &JobFile, job_id: &str, host: &str) -> RunResult<Reports> {
        let (to, folder): (_, &Path) = (job.train.report_to, &job.output_dir);
        let tensorboard =
            to.tensorboard.then(|| TensorBoardWriter::create(&folder.join("runs"), host));
        let parameters = serde_json::to_value(&job.train).unwrap_or_default();
        let mlflow = to
            .mlflow
            .then(|| MlflowRun::open(&folder.join("mlruns"), job_id, &job.name, &parameters));
        Ok(Reports { tensorboard: tensorboard.transpose()?, mlflow: mlflow.transpose()? })
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
        if let Some(mlflow) = &self.mlflow {
            let prefix = if group == "train" { "" } else { "eval_" };
            mlflow.metrics(step, &named(&|name| format!("{prefix}{name}")))?;
        }
        Ok(())
    }

    /// Notes that the job has completed.
    pub(crate) fn finish(&mut self) -> RunResult<()> {
        self.mlflow.as_mut().map_or(Ok(()), MlflowRun::finish)
    }
}
