//! The loss, and the weights of rows and classes.

use traind_choices::{LabelsKind, Loss};
use traind_wording::counted;

use super::{check_options, ranges};
use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::choices::fitting;
use crate::schema::model::{ProblemType, TaskName};

/// Tasks with losses of their own.
const NO_LABELS: [TaskName; 4] = [
    TaskName::QuestionAnswering,
    TaskName::Embedding,
    TaskName::Reranker,
    TaskName::ReplacedTokenDetection,
];
/// Tasks whose losses do not smooth labels.
const NOT_SMOOTHED: [TaskName; 3] =
    [TaskName::Embedding, TaskName::Reranker, TaskName::ReplacedTokenDetection];

pub(super) fn check(job: &JobFile, problems: &mut Problems) {
    check_loss(job, problems);
    check_class_weights(job, problems);
    let task = job.model.task;
    if job.data.weight.is_some() && !task.is_classification() {
        let description = format!("applies to classification, not to {task}");
        problems.violation("data.weight", description);
    }
    if job.train.label_smoothing_factor > 0.0
        && let Some(description) = unsmoothed_labels(job)
    {
        problems.violation("train.label_smoothing_factor", description);
    }
}

/// Returns the reason why the job has no labels that smoothing spreads over classes, if so.
fn unsmoothed_labels(job: &JobFile) -> Option<String> {
    const APPLIES: &str = "applies to classes and tokens";
    let (task, loss) = (job.model.task, job.train.loss);
    match task {
        TaskName::Dpo => Some(format!("{APPLIES}; the loss `robust` has dpo.label_smoothing")),
        TaskName::Cpo => Some(format!("{APPLIES}, not to cpo; cpo has cpo.label_smoothing")),
        task if NOT_SMOOTHED.contains(&task) || task.is_of_preferences() => {
            Some(format!("{APPLIES}, not to {task}"))
        }
        _ if labels(job) != LabelsKind::Classes => {
            Some("applies to one class per row, not to numbers or several classes".to_owned())
        }
        _ => loss
            .filter(|loss| *loss != Loss::CrossEntropy)
            .map(|loss| format!("is part of the loss `cross_entropy`, not of `{loss}`")),
    }
}

/// A problem type that only the model's config has is checked when that is read.
fn labels(job: &JobFile) -> LabelsKind {
    let of_rows = [TaskName::SequenceClassification, TaskName::ImageClassification];
    if !of_rows.contains(&job.model.task) {
        return LabelsKind::Classes;
    }
    match (job.model.problem_type, job.model.num_labels) {
        (Some(ProblemType::SingleLabelClassification), _) => LabelsKind::Classes,
        (Some(ProblemType::MultiLabelClassification), _) => LabelsKind::Flags,
        (Some(ProblemType::Regression), _) | (None, Some(1)) => LabelsKind::Numbers,
        (None, _) => LabelsKind::Classes,
    }
}

fn check_loss(job: &JobFile, problems: &mut Problems) {
    let train = &job.train;
    let args = train.loss_args.iter().map(|(name, value)| (name, *value));
    let Some(loss) = train.loss else {
        if args.count() > 0 {
            problems.violation("train.loss_args", "needs the `loss` that it is for");
        }
        return;
    };
    check_options("train.loss_args", loss.as_str(), &ranges(loss.settings()), args, problems);
    let task = job.model.task;
    if NO_LABELS.contains(&task) || task.is_of_preferences() {
        let description = format!("applies to labels, not to {task}");
        problems.violation("train.loss", description);
        return;
    }
    let fitting = fitting(labels(job));
    // The folder of the model may say that labels are numbers or several classes.
    let is_known = !task.is_classification()
        || job.model.problem_type.is_some()
        || job.model.num_labels.is_some();
    if !fitting.contains(&loss) && is_known {
        let names: Vec<_> = fitting.iter().map(|loss| format!("`{loss}`")).collect();
        let description = format!("is `{loss}`; these labels have {}", names.join(", "));
        problems.violation("train.loss", description);
    }
}

fn check_class_weights(job: &JobFile, problems: &mut Problems) {
    const FIELD: &str = "train.class_weights";
    let Some(weights) = &job.train.class_weights else { return };
    let task = job.model.task;
    if !task.is_classification() || labels(job) != LabelsKind::Classes {
        problems.violation(FIELD, "applies to classification with one class per row or word");
        return;
    }
    if weights.iter().any(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        problems.violation(FIELD, "must be numbers of at least 0");
    }
    if weights.iter().all(|weight| *weight == 0.0) {
        problems.violation(FIELD, "must have a number above 0");
    }
    let mapped = job.data.label_map.as_ref().map(|map| map.classes().len());
    let classes = job.model.num_labels.map(|count| count as usize).or(mapped);
    if let Some(classes) = classes.filter(|classes| *classes != weights.len()) {
        let description =
            format!("has {} for {}", counted(weights.len(), "number"), counted(classes, "class"));
        problems.violation(FIELD, description);
    }
}
