//! Writes the trained model and all that goes with it into the output folder.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use traind_job_file::JobFile;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Phase, Saved, SavedKind};

use crate::control::Context;
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::model::OpenModel;
use crate::output::{
    self, LogEntry, ModelCard,
    charts::{self, LossCurve},
    failed,
};
use crate::progress::{Progress, Timetable};
use crate::session::Session;

/// Saves the model as it is now; returns the final figures of the run.
pub(crate) fn save(
    context: &Context,
    session: &Session,
    open: &OpenModel,
    timetable: &Timetable,
    progress: &Progress,
    train_rows: u64,
) -> RunResult<Metrics> {
    let start = Instant::now();
    context.activity.enter(Phase::Checkpoint);
    let job = &context.spec.job;
    let folder = job.output_dir.as_path();
    open.save_weights(folder, &session.parameters()?)?;
    output::copy_tokenizer(&open.folder, folder)?;
    let metrics = final_metrics(progress);
    write_state(folder, job, timetable, progress)?;
    charts::loss_curve(folder, &LossCurve::of(&progress.log_history))?;
    write_card(folder, job, open, progress, train_rows)?;
    output::sync_folder(folder)?;
    context.journal.record(Kind::Saved(Saved {
        path: folder.display().to_string(),
        kind: SavedKind::Final.into(),
        step: progress.steps,
        bytes: output::folder_bytes(folder).map_err(failed("measure", folder))?,
        seconds: start.elapsed().as_secs_f64(),
        stall_seconds: start.elapsed().as_secs_f64(),
    }))?;
    Ok(metrics)
}

/// `train_*` metrics as the Trainer gives them, and those of the last evaluation.
fn final_metrics(progress: &Progress) -> Metrics {
    let mut metrics = train_metrics(progress);
    if let Some((_, evaluation)) = &progress.evaluation {
        metrics.extend(evaluation.metrics.clone());
    }
    metrics
}

fn train_metrics(progress: &Progress) -> Metrics {
    let totals = progress.totals;
    let (steps, samples) = (progress.steps as f64, totals.samples as f64);
    Metrics::from([
        ("train_loss".to_owned(), totals.loss / steps.max(1.0)),
        ("train_runtime".to_owned(), totals.seconds),
        ("train_samples_per_second".to_owned(), samples / totals.seconds),
        ("train_steps_per_second".to_owned(), steps / totals.seconds),
    ])
}

fn write_state(
    folder: &Path,
    job: &JobFile,
    timetable: &Timetable,
    progress: &Progress,
) -> RunResult<()> {
    let state = progress.trainer_state(job, timetable);
    let path = folder.join("trainer_state.json");
    let text = serde_json::to_vec_pretty(&state)
        .map_err(|error| failed("serialize", &path)(error.into()))?;
    output::write_of_several(&path, &text)
}

/// The entry of the log with which training ends.
pub(crate) fn train_summary(timetable: &Timetable, progress: &Progress) -> LogEntry {
    let train = train_metrics(progress).into_iter();
    let mut entry: LogEntry = train.map(|(name, value)| (name, json!(value))).collect();
    entry.insert("total_flos".to_owned(), json!(progress.totals.flos));
    entry.insert("epoch".to_owned(), json!(timetable.epoch(progress.steps)));
    entry.insert("step".to_owned(), json!(progress.steps));
    entry
}

fn write_card(
    folder: &Path,
    job: &JobFile,
    open: &OpenModel,
    progress: &Progress,
    train_rows: u64,
) -> RunResult<()> {
    let (train, config) = (&job.train, open.model.config());
    let none = Metrics::new();
    let evaluated = progress.evaluation.as_ref().map(|(_, evaluation)| &evaluation.metrics);
    let card = ModelCard {
        name: &job.name,
        base_model: &open.folder.file_name().unwrap_or_default().to_string_lossy(),
        task: &job.model.task.to_string(),
        pipeline_tag: open.task.pipeline_tag(),
        train_rows,
        labels: &open.task.labels(config)?,
        arguments: vec![
            ("learning_rate", train.learning_rate.to_string()),
            ("per_device_train_batch_size", train.per_device_train_batch_size.to_string()),
            ("total_train_batch_size", job.total_train_batch_size().to_string()),
            ("num_train_epochs", train.num_train_epochs.to_string()),
            ("lr_scheduler_type", train.lr_scheduler_type.to_string()),
            ("optim", train.optim.to_string()),
            ("weight_decay", train.weight_decay.to_string()),
            ("max_grad_norm", train.max_grad_norm.to_string()),
            ("seed", train.seed.to_string()),
            ("steps", progress.steps.to_string()),
        ],
        metrics: evaluated.unwrap_or(&none),
    };
    output::write_of_several(&folder.join("README.md"), card.render().as_bytes())
}
