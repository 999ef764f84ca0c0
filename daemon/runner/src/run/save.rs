//! Writes the trained model, its state and its model card into the output folder.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use traind_job_file::{DataSetUrl, JobFile, ModelSource, cost, energy};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Phase, Saved, SavedKind};
use traind_wording::counted;

use crate::checkpoint::collect_parameters;
use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::model::OpenModel;
use crate::output::{
    self, EvaluatedData, LogEntry, ModelCard,
    charts::{self, LossCurve},
    failed,
};
use crate::progress::{Progress, Timetable};
use crate::session::Session;

use super::Context;
use super::folders::intent;
use super::prepare::Prepared;

const KEPT_CARD: &str = "README.md stays as it is: traind did not write it";

/// Names of the model's files that were written, and since when.
pub(super) struct ModelFiles {
    names: Vec<String>,
    start: Instant,
}

/// Saves the model's weights and configuration. All hosts call this; the first one writes.
pub(super) fn save_model(
    context: &Context,
    session: &Session,
    prepared: &Prepared,
) -> RunResult<Option<ModelFiles>> {
    let start = Instant::now();
    context.reporter.activity.enter(Phase::Checkpoint);
    let job = &context.spec.job;
    let folder = job.output_dir.as_path();
    let (hosts, checkpoints) = (&context.hosts, job.checkpoints());
    let collected = collect_parameters(hosts, checkpoints, session)?;
    let Some(collected) = collected else { return Ok(None) };
    let names = match job.peft.merge {
        true => prepared.open.save_merged(folder, job, &collected.parameters)?,
        false => prepared.open.save_output(folder, &collected.parameters)?,
    };
    collected.remove_parts()?;
    Ok(Some(ModelFiles { names, start }))
}

/// Saves what belongs to the model, and records all files.
pub(super) fn save_rest(
    context: &Context,
    prepared: &Prepared,
    timetable: &Timetable,
    progress: &Progress,
    ModelFiles { names, start }: ModelFiles,
) -> RunResult<()> {
    let job = &context.spec.job;
    let folder = job.output_dir.as_path();
    output::copy_tokenizer(&prepared.open.folder, folder)?;
    output::write_chat_template(folder, prepared.open.task.chat_template()?)?;
    let beside = prepared.open.write_model_files(folder)?;
    let of_generator = copy_to_generator(folder, &prepared.open)?;
    let written: Vec<String> = names.into_iter().chain(beside).chain(of_generator).collect();
    write_state(folder, job, timetable, progress)?;
    charts::loss_curve(folder, &LossCurve::of(&progress.log_history))?;
    let joules = context.reporter.activity.energy_joules();
    let has_card = output::may_write_card(folder)?;
    match has_card {
        true => write_card(folder, job, prepared, progress, joules)?,
        false => context.reporter.journal.info(KEPT_CARD)?,
    }
    output::settle(folder, &intent(context), &written, has_card, &prepared.open.folder)?;
    output::sync_folder(folder)?;
    Ok(context.reporter.journal.record(Kind::Saved(Saved {
        path: folder.display().to_string(),
        kind: SavedKind::Final.into(),
        step: progress.steps,
        bytes: output::folder_bytes(folder).map_err(failed("measure", folder))?,
        seconds: start.elapsed().as_secs_f64(),
        stall_seconds: start.elapsed().as_secs_f64(),
    }))?)
}

/// Copies the tokenizer to the generator too, where there is one, and returns the names of the files.
fn copy_to_generator(folder: &Path, open: &OpenModel) -> RunResult<Vec<String>> {
    // With adapters of the discriminator alone, there is no such folder.
    let generator = open.model.generator_folder().filter(|name| folder.join(name).is_dir());
    let Some(generator) = generator else { return Ok(Vec::new()) };
    output::copy_tokenizer(&open.folder, &folder.join(generator))?;
    Ok(output::copied_names(&open.folder).map(|name| format!("{generator}/{name}")).collect())
}

/// The metrics of training, and those of the last evaluation.
pub(super) fn final_metrics(progress: &Progress) -> Metrics {
    let mut metrics = train_metrics(progress);
    metrics.extend(progress.evaluation_metrics().cloned().unwrap_or_default());
    metrics
}

/// The Trainer's `train_*` metrics.
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
    let path = folder.join("trainer_state.json");
    let text = serde_json::to_vec_pretty(&progress.trainer_state(job, timetable))
        .map_err(|error| failed("serialize", &path)(error.into()))?;
    output::write_of_several(&path, &text)
}

/// Returns the entry of the log that ends training.
pub(super) fn train_summary(timetable: &Timetable, progress: &Progress) -> LogEntry {
    let metrics = train_metrics(progress).into_iter();
    let mut entry: LogEntry = metrics.map(|(name, value)| (name, json!(value))).collect();
    entry.insert("total_flos".to_owned(), json!(progress.totals.flos));
    entry.insert("epoch".to_owned(), json!(timetable.epoch(progress.steps)));
    entry.insert("step".to_owned(), json!(progress.steps));
    entry
}

fn write_card(
    folder: &Path,
    job: &JobFile,
    prepared: &Prepared,
    progress: &Progress,
    energy_joules: Option<f64>,
) -> RunResult<()> {
    let Prepared { open, train_rows, .. } = prepared;
    let (train, config) = (&job.train, open.model.config());
    let none = Metrics::new();
    let card = ModelCard {
        name: &job.name,
        base_model: &base_model(job, open),
        is_of_hub: matches!(job.model.name_or_path, ModelSource::Hub(_)),
        evaluated: evaluated_data(job),
        library_name: open.library_name(job),
        task: &job.model.task.to_string(),
        pipeline_tag: open.task.pipeline_tag(),
        train_rows: *train_rows,
        effort: effort(job, progress.totals.seconds, energy_joules),
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
        metrics: progress.evaluation_metrics().unwrap_or(&none),
    };
    output::write_of_several(&folder.join("README.md"), card.render().as_bytes())
}

/// The time of training, with its cost where there is a price, and the job's energy where it is known.
fn effort(job: &JobFile, seconds: f64, energy_joules: Option<f64>) -> String {
    let (cores, platform) = (job.resources.total_cores(), job.resources.platform);
    let price = job.resources.price_per_hour;
    let cost = price.map(|price| format!(", which cost {:.2}", cost(price, seconds)));
    let used = energy_joules.map(|joules| format!(" The job used {}.", energy(joules)));
    let (cost, used) = (cost.unwrap_or_default(), used.unwrap_or_default());
    let cores = counted(cores, &format!("{platform} core")).to_string();
    format!("Training took {seconds:.0} s on {cores}{cost}.{used}")
}

fn base_model(job: &JobFile, open: &OpenModel) -> String {
    match &job.model.name_or_path {
        ModelSource::Hub(id) => id.clone(),
        ModelSource::Folder(_) => {
            open.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
    }
}

/// The data set that the model is evaluated on, which may be a part of that which it is trained on.
fn evaluated_data(job: &JobFile) -> Option<EvaluatedData> {
    let files = job.data.validation.as_ref().or(job.data.train.as_ref())?;
    let pattern = files.patterns.first()?.to_string_lossy();
    let data_set = DataSetUrl::parse(&pattern);
    let file = || pattern.rsplit('/').next().unwrap_or_default().to_owned();
    Some(EvaluatedData {
        is_of_hub: data_set.is_some(),
        name: data_set.map_or_else(file, |url| url.id),
        split: "validation",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_has_cost_and_energy_where_they_are_known() {
        let yaml = "name: a\nmodel: {name_or_path: ./a, task: causal-lm}\ndata: {train: a.txt}\n\
                    resources: {cores: 2}\noutput_dir: out";
        let mut job = JobFile::parse(yaml, Path::new("/")).unwrap().job;
        assert_eq!(effort(&job, 90.4, None), "Training took 90 s on 2 cpu cores.");
        job.resources.price_per_hour = Some(2.0);
        let expect = "Training took 1800 s on 2 cpu cores, which cost 1.00. The job used 5.0 Wh.";
        assert_eq!(effort(&job, 1800.0, Some(18_000.0)), expect);
        job.resources.hosts = 4;
        let expect = "Training took 90 s on 8 cpu cores, which cost 0.05.";
        assert_eq!(effort(&job, 90.0, None), expect);
    }
}
