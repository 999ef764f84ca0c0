//! The model that guides a loss of embeddings, which `embedding.guide` names: the jobs by which it embeds the rows of a
//! job, and the length of its vectors.

use serde_json::{Map, Value, json};
use traind_job_file::{JobFile, ModelSource};
use traind_models::{ModelConfig, Task, registry};

use super::{ModelFolder, config, of_kind};
use crate::error::{RunError, RunResult};
use crate::reporting::Downloads;
use crate::tasks::{self, embedding_width};

const MODEL: &str = "model.name_or_path";
/// Keys of `data` that are about lengths or weights of the trained model's rows.
const OF_MODEL: [&str; 5] =
    ["max_length", "pad_to_max_length", "pad_to_multiple_of", "padded_lengths_max", "weight"];

/// The config of a guide.
pub(crate) struct GuideConfig {
    pub config: ModelConfig,
    /// The numbers of a vector.
    width: u32,
}

impl GuideConfig {
    /// Opens the guide of a job, if it has one.
    pub(crate) fn open(job: &JobFile, downloads: &Downloads) -> RunResult<Option<GuideConfig>> {
        GuideConfig::read(job, |own| Ok(ModelFolder::open(own, downloads)?.config))
    }

    /// Reads the guide's config for a plan, which writes nothing.
    pub(crate) fn planned(job: &JobFile, may_fetch: bool) -> RunResult<Option<GuideConfig>> {
        GuideConfig::read(job, |own| config(own, may_fetch))
    }

    fn read(
        job: &JobFile,
        read: impl FnOnce(&JobFile) -> RunResult<ModelConfig>,
    ) -> RunResult<Option<GuideConfig>> {
        let Some((_, guide)) = job.guide_model() else { return Ok(None) };
        // Neither config nor width depends on rows.
        let own = job_of(job, guide, Value::Object(Map::new()), false)?;
        let found = read(&own).and_then(|config| {
            let width = width(&own, config.clone())?;
            Ok(GuideConfig { config, width })
        });
        found.map(Some).map_err(named)
    }
}

/// The job with the length of the vectors of its guide, if it has one.
pub(crate) fn with_width(mut job: JobFile, guide: Option<&GuideConfig>) -> JobFile {
    if let Some(guide) = guide {
        job.embedding.guide_width = Some(guide.width);
    }
    job
}

/// The job as a job file has it.
pub(crate) fn without_width(mut job: JobFile) -> JobFile {
    job.embedding.guide_width.take_if(|_| job.embedding.guide.is_some());
    job
}

/// The numbers of a vector of the guide whose job is `own`.
fn width(own: &JobFile, mut config: ModelConfig) -> RunResult<u32> {
    let task = tasks::of_job(own, &config)?;
    task.configure(&mut config, None);
    Ok(embedding_width(&registry::build(config, Task::Embedding)?) as u32)
}

/// The jobs by which the guide of `job` embeds the rows whose loss it guides: for each split a job that has this split
/// alone, or the training split with the rows that are split off it.
pub(crate) fn jobs_of_guide(job: &JobFile) -> RunResult<Vec<JobFile>> {
    let Some((_, guide)) = job.guide_model() else { return Ok(Vec::new()) };
    let guides_evaluations = job.embedding.has_guide();
    let splits_off = job.evaluates() && job.data.validation_split.is_some();
    let trains = match job.mixes_batches() {
        true => job.embedding_sets().iter().any(|(settings, _)| settings.has_guide()),
        false => guides_evaluations && (job.train.do_train || splits_off),
    };
    let evaluates = guides_evaluations && job.evaluates() && !splits_off;
    let tests = guides_evaluations && job.data.test.is_some() && !job.train.do_predict;
    let splits = [("train", trains), ("validation", evaluates), ("test", tests)];
    let wanted = splits.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(split, _)| split);
    wanted.map(|split| job_of(job, guide, rows_of(job, split), split == "train")).collect()
}

/// The section `data` of the job that embeds a split of `job`.
fn rows_of(job: &JobFile, split: &str) -> Value {
    let mut data = json!(job.data);
    let Some(keys) = data.as_object_mut() else { return data };
    let others = ["train", "validation", "test"].into_iter().filter(|other| *other != split);
    others.chain(OF_MODEL).for_each(|key| drop(keys.remove(key)));
    if split != "train" {
        keys.remove("validation_split");
        keys.remove("mixing");
    }
    let is_guided: Vec<bool> =
        job.embedding_sets().iter().map(|(settings, _)| settings.has_guide()).collect();
    if let Some(Value::Array(sets)) = keys.get_mut(split)
        && split == "train"
        && is_guided.len() == sets.len()
    {
        let mut is_guided = is_guided.into_iter();
        sets.retain(|_| is_guided.next().unwrap_or(true));
        for set in sets.iter_mut().filter_map(Value::as_object_mut) {
            set.remove("loss");
            set.remove("loss_args");
        }
    }
    data
}

/// A job that embeds `data` with the guide of `job`. `trains`: the data are a training split.
fn job_of(job: &JobFile, guide: &ModelSource, data: Value, trains: bool) -> RunResult<JobFile> {
    let own = json!({
        "name": job.name,
        "model": { "name_or_path": guide, "task": "embedding" },
        "data": data,
        "train": {
            "do_train": trains && job.train.do_train,
            "do_eval": job.train.do_eval,
            "prediction_loss_only": true,
            "per_device_eval_batch_size": job.train.per_device_eval_batch_size,
            "seed": job.train.seed,
            "data_seed": job.train.data_seed,
        },
        "resources": { "platform": job.resources.platform },
        "output_dir": job.output_dir,
    });
    serde_json::from_value(own)
        .map_err(|error| RunError::Panicked(format!("make the job of a guide: {error}")))
}

/// An error about the guide's model names its field.
pub(crate) fn named(error: RunError) -> RunError {
    const GUIDE: &str = "embedding.guide";
    match error {
        RunError::Field { name: MODEL, value, problem } => {
            RunError::Field { name: GUIDE, value, problem }
        }
        RunError::Hub { field: MODEL, source } => RunError::Hub { field: GUIDE, source },
        error => of_kind(GUIDE, error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn job(data: &str, more: &str) -> JobFile {
        let yaml = format!(
            "{{name: a, model: {{name_or_path: ./a, task: embedding}}, data: {{{data}}}, {more}, output_dir: out}}"
        );
        JobFile::parse(&yaml, Path::new("/base")).unwrap().job
    }

    /// The data of each job of the guide, as JSON without defaults.
    fn check(data: &str, more: &str, expect: &[(bool, &[&str])]) {
        let jobs = jobs_of_guide(&job(data, more)).unwrap();
        let paths = |job: &JobFile| -> Vec<String> {
            let data = &job.data;
            let splits = [&data.train, &data.validation, &data.test].into_iter().flatten();
            splits.flat_map(|it| &it.patterns).map(|it| it.display().to_string()).collect()
        };
        let found: Vec<_> = jobs.iter().map(|job| (job.train.do_train, paths(job))).collect();
        let expect: Vec<_> = expect
            .iter()
            .map(|(trains, paths)| (*trains, paths.iter().map(|it| (*it).to_owned()).collect()))
            .collect();
        assert_eq!(found, expect, "{data} {more}");
        for job in jobs {
            assert_eq!(job.model.name_or_path, ModelSource::Hub("org/guide".to_owned()));
            assert!(job.embedding_sets().iter().all(|(set, _)| !set.needs_label()));
        }
    }

    #[test]
    fn a_guide_embeds_the_rows_whose_loss_it_guides() {
        let gist = "embedding: {loss: gist, guide: org/guide}";
        check("train: a.csv", gist, &[(true, &["/base/a.csv"])]);
        let split = "train: a.csv, validation_split: 0.5, max_length: 8, texts: [q, a]";
        check(split, gist, &[(true, &["/base/a.csv"])]);
        let all = "train: a.csv, validation: b.csv, test: c.csv";
        let of_all =
            [(true, &["/base/a.csv"][..]), (false, &["/base/b.csv"]), (false, &["/base/c.csv"])];
        check(all, gist, &of_all);
        check(all, &format!("{gist}, train: {{do_predict: true}}"), &of_all[..2]);
        let predicts =
            format!("{gist}, train: {{do_train: false, do_eval: false, do_predict: true}}");
        check("test: c.csv", &predicts, &[]);
        let sets = "train: [{path: a.csv, loss: gist, loss_args: {margin: 0.1}}, {path: b.csv, loss: cosent}, \
                    {path: c.csv, loss: gist, limit: 5}], validation: d.csv, mixing: proportional";
        let by_sets = "embedding: {guide: org/guide}";
        check(sets, by_sets, &[(true, &["/base/a.csv", "/base/c.csv"])]);
    }
}
