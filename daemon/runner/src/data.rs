//! The job's splits, tokenized: the first thing a run does, since everything
//! else (labels, shapes, step counts) follows from them.

use std::path::Path;
use std::sync::Arc;

use traind_job_file::{Data, DataFiles, JobFile};
use traind_loader::{
    DatasetOptions, HuggingFaceTokenizer, LabelEncoder, LabelKind, LabelSpec, LabelTarget,
    SequenceClassification, SetStats, TaskSpec, TextTokenizer, TokenizedSet,
};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{ClassCount, DataPrepared, TokenLengths};

use crate::context::Context;
use crate::failure::RunResult;

/// One tokenized split.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// `train`, `validation` or `test`.
    pub name: &'static str,
    pub set: Arc<TokenizedSet>,
}

/// All splits of the job.
#[derive(Debug)]
pub(crate) struct Splits {
    pub train: Split,
    pub validation: Option<Split>,
    pub test: Option<Split>,
    /// `None` where rows carry numbers to regress on.
    pub encoder: Option<LabelEncoder>,
}

/// Reads and tokenizes all splits; labels of the others follow the training
/// split's rule.
pub(crate) fn prepare(
    context: &Context,
    tokenizer: &HuggingFaceTokenizer,
    regression: bool,
) -> RunResult<Splits> {
    let job = &context.spec.job;
    let kind = label_kind(job, regression)?;
    let train = prepare_split(context, tokenizer, "train", &job.data.train, &kind)?;
    let encoder = train.set.label_encoder().cloned();
    let kind = encoder.clone().map_or(kind, LabelKind::Encoder);
    let other = |name, files: &Option<DataFiles>| {
        let files = files.as_ref();
        files.map(|files| prepare_split(context, tokenizer, name, files, &kind)).transpose()
    };
    Ok(Splits {
        train,
        validation: other("validation", &job.data.validation)?,
        test: other("test", &job.data.test)?,
        encoder,
    })
}

fn label_kind(job: &JobFile, regression: bool) -> RunResult<LabelKind> {
    let num_labels = job.model.num_labels;
    Ok(match &job.data.label_map {
        _ if regression => LabelKind::Regression,
        None => LabelKind::Infer { num_labels },
        Some(map) => {
            let entries = label_targets(&map.iter().collect::<Vec<_>>());
            LabelKind::Encoder(LabelEncoder::from_map(&entries, num_labels)?)
        }
    })
}

/// Class names that are all numbers are class ids.
fn label_targets(entries: &[(&str, &str)]) -> Vec<(String, LabelTarget)> {
    let numbered = entries.iter().all(|(_, class)| class.parse::<u32>().is_ok());
    let target = |class: &str| match class.parse() {
        Ok(id) if numbered => LabelTarget::Id(id),
        _ => LabelTarget::Name(class.to_owned()),
    };
    entries.iter().map(|(label, class)| ((*label).to_owned(), target(class))).collect()
}

fn prepare_split(
    context: &Context,
    tokenizer: &HuggingFaceTokenizer,
    name: &'static str,
    files: &DataFiles,
    kind: &LabelKind,
) -> RunResult<Split> {
    let options = DatasetOptions {
        files: files.patterns.iter().map(|pattern| path_text(pattern)).collect(),
        task: task_spec(&context.spec.job.data, kind),
        cache_dir: Some(context.spec.cache_dir.clone()),
    };
    let prepared = traind_loader::prepare(&options, tokenizer as &dyn TextTokenizer)?;
    for warning in &prepared.warnings {
        context.journal.warn("TOKEN_CACHE", warning)?;
    }
    let stats = SetStats::of(&prepared.set);
    let seconds = prepared.duration.as_secs_f64();
    context.journal.record(event(name, &stats, prepared.cache_hit, seconds))?;
    Ok(Split { name, set: prepared.set })
}

fn task_spec(data: &Data, kind: &LabelKind) -> TaskSpec {
    TaskSpec::SequenceClassification(SequenceClassification {
        text: data.text.clone(),
        text_pair: data.text_pair.clone(),
        label: Some(LabelSpec { column: data.label.clone(), kind: kind.clone() }),
    })
}

fn event(split: &str, stats: &SetStats, cache_hit: bool, seconds: f64) -> Kind {
    let classes = stats.class_histogram.iter();
    Kind::DataPrepared(DataPrepared {
        split: split.to_owned(),
        rows: stats.rows,
        files: stats.files,
        tokens: stats.tokens,
        lengths: Some(TokenLengths {
            mean: stats.tokens as f64 / stats.rows as f64,
            p50: stats.lengths.p50,
            p90: stats.lengths.p90,
            p99: stats.lengths.p99,
            max: stats.lengths.max,
        }),
        classes: classes
            .map(|(label, rows)| ClassCount { label: label.clone(), rows: *rows })
            .collect(),
        cache_hit,
        seconds,
        truncated_rows: stats.truncated_rows,
    })
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
