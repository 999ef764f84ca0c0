//! Refuses names of metrics that evaluations do not compute.

use traind_job_file::JobFile;
use traind_loader::TaskSpec;

use crate::error::{RunError, RunResult};
use crate::metrics::Metrics;
use crate::progress::BestRule;
use crate::tasks::{JobTask, KnownRows};

/// The metrics of speed, which every evaluation has.
const OF_SPEED: [&str; 3] = ["runtime", "samples_per_second", "steps_per_second"];

/// Checks the metric that finds the best model. `classes`: the numbers of classes that the model may have; `rows`: the
/// task as it reads the rows of evaluations, where their files are found quickly.
pub(in crate::plan) fn check(
    job: &JobFile,
    task: &dyn JobTask,
    classes: &[usize],
    rows: Option<&TaskSpec>,
) -> RunResult<()> {
    let Some(rule) = BestRule::of(&job.train).filter(|_| job.evaluates()) else { return Ok(()) };
    let mut names = vec!["loss".to_owned()];
    if !job.train.prediction_loss_only {
        let known = |classes| match rows {
            Some(spec) => KnownRows::of_files(spec, classes),
            None => KnownRows { classes, ..KnownRows::default() },
        };
        let of_classes = |count: &usize| task.metric_names(&known(*count)).into_keys();
        names.extend(classes.iter().flat_map(of_classes));
    }
    names.extend(OF_SPEED.map(str::to_owned));
    let metrics: Metrics = names.into_iter().map(|name| (format!("eval_{name}"), 0.0)).collect();
    rule.check(&metrics).map_err(|error| match error {
        RunError::NoSuchMetric { name, computed } => RunError::Field {
            name: "train.metric_for_best_model",
            value: name,
            problem: format!("evaluations compute {}", computed.join(", ")),
        },
        other => other,
    })
}
