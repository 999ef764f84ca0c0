//! Sets of embedded texts with a loss, or columns, of their own.

use super::embedding::{check_count, check_hardness, options_of};
use super::unread;
use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::data_set::DataSet;
use crate::schema::model::TaskName;
use crate::schema::objectives::embedding::{
    BatchSampler, DistanceMetric, Embedding, EmbeddingDirection, EmbeddingLoss, PartitionMode,
};
use crate::section::given;

/// Reports sets that do not fit their loss, the mixing or each other.
pub(super) fn check(job: &JobFile, problems: &mut Problems) {
    if job.model.task != TaskName::Embedding {
        return check_other_task(job, problems);
    }
    check_mixing(job, problems);
    if !job.mixes_batches() {
        return;
    }
    let sets = job.embedding_sets();
    for (place, (settings, texts)) in sets.iter().enumerate() {
        check_set(job, &format!("data.train[{place}]"), settings, texts, problems);
    }
    for (place, set) in job.data.train.iter().flat_map(|files| &files.sets).enumerate() {
        let (path, loss) =
            (format!("data.train[{place}].loss_args"), job.embedding.of_set(set).loss);
        let keys = given(&set.loss_args, &path, problems);
        unread::check_loss(&path, &keys, &options_of(loss), loss, problems);
    }
    let of_classes =
        |(settings, _): &&(Embedding, &[String])| settings.loss == EmbeddingLoss::BatchHardTriplet;
    let with_classes = sets.iter().filter(of_classes).count();
    if with_classes > 0 && with_classes < sets.len() {
        let description = "has the loss `batch_hard_triplet`, whose labels are classes, beside others; all sets or none \
             can have it";
        problems.violation("data.train", description);
    }
    let (sampler, others) = (job.embedding.batch_sampler, with_classes < sets.len());
    if sampler == BatchSampler::GroupByLabel && others {
        let description = format!("is `{sampler}`, but not all sets of data.train have classes");
        problems.violation("embedding.batch_sampler", description);
    }
    if job.embedding.mini_batch_size.is_some() && with_classes > 0 {
        let description =
            "cannot be combined with the loss `batch_hard_triplet` of sets of data.train";
        problems.violation("embedding.mini_batch_size", description);
    }
}

/// Refuses what is of embedded texts alone in jobs of another task.
fn check_other_task(job: &JobFile, problems: &mut Problems) {
    let task = job.model.task;
    if job.data.mixing.is_of_batches() {
        let description =
            format!("is `{}`, which applies to embedding, not to {task}", job.data.mixing);
        problems.violation("data.mixing", description);
    }
    for (field, _) in sets_with_objectives(job) {
        let description =
            format!("has `texts`, `loss` or `loss_args`, which apply to embedding, not to {task}");
        problems.violation(&field, description);
    }
}

/// The sets with a loss or columns of their own, with the fields of their splits.
fn sets_with_objectives(job: &JobFile) -> Vec<(String, &DataSet)> {
    let data = &job.data;
    let splits = [("train", &data.train), ("validation", &data.validation), ("test", &data.test)];
    let sets = splits.into_iter().flat_map(|(split, files)| {
        let sets = files.iter().flat_map(|files| files.sets.iter().enumerate());
        sets.map(move |(place, set)| (format!("data.{split}[{place}]"), set))
    });
    sets.filter(|(_, set)| set.has_objective()).collect()
}

fn check_mixing(job: &JobFile, problems: &mut Problems) {
    let mixing = job.data.mixing;
    for (field, _) in sets_with_objectives(job) {
        if !field.starts_with("data.train") {
            let description = "has `texts`, `loss` or `loss_args`, which only sets that are trained on can have; rows are \
                 evaluated with data.texts and embedding.loss";
            problems.violation(&field, description);
        } else if !mixing.is_of_batches() {
            let description = "has `texts`, `loss` or `loss_args`, for which each batch must have rows of one set: give \
                 data.mixing: proportional or round_robin";
            problems.violation(&field, description);
        }
    }
    if mixing.is_of_batches() && job.data.validation_split.is_some() {
        let description =
            format!("cannot be combined with data.mixing: {mixing}; give files in data.validation");
        problems.violation("data.validation_split", description);
    }
}

fn check_set(
    job: &JobFile,
    path: &str,
    settings: &Embedding,
    texts: &[String],
    problems: &mut Problems,
) {
    let has_own = *settings != job.embedding;
    if !texts.is_empty() && (has_own || *texts != job.data.texts[..]) {
        check_count(path, settings.loss, texts.len(), problems);
    }
    if let Some(twice) = texts
        .iter()
        .enumerate()
        .find(|(at, text)| **text == job.data.label || texts[..*at].contains(text))
    {
        problems.violation(path, format!("column `{}` has two meanings", twice.1));
    }
    if has_own {
        check_own_objective(path, settings, texts, problems);
    }
}

/// Reports settings of a set's own loss that do not fit each other, or the columns of `texts`.
fn check_own_objective(
    path: &str,
    settings: &Embedding,
    texts: &[String],
    problems: &mut Problems,
) {
    let loss = settings.loss;
    let has_labels = loss == EmbeddingLoss::Gist && !settings.has_guide();
    let wrong = [
        (
            has_labels && settings.guide_width.is_some() && texts.is_empty(),
            "must name its `texts`, of which the labels have the guide's vectors",
        ),
        (
            has_labels && settings.guide_width.is_none(),
            "has the loss `gist`, which needs embedding.guide, or `guide_width` in its `loss_args` for vectors in labels",
        ),
        (
            settings.has_guide() && settings.guide_width.is_some(),
            "has `guide_width`, the length of vectors in labels, which are not read with embedding.guide",
        ),
        (
            loss == EmbeddingLoss::Mse && !settings.matryoshka_dims.is_empty(),
            "has the loss `mse`, whose labels are whole embeddings, beside embedding.matryoshka_dims",
        ),
        (
            loss == EmbeddingLoss::BatchHardTriplet
                && settings.distance_metric == Some(DistanceMetric::Manhattan),
            "has a `distance_metric` that must be euclidean or cosine for the loss `batch_hard_triplet`",
        ),
        (
            !settings.directions.contains(&EmbeddingDirection::QueryToDoc),
            "has `directions` that must contain query_to_doc, which has the positives",
        ),
        (
            settings.partition_mode == PartitionMode::PerDirection
                && [EmbeddingDirection::QueryToQuery, EmbeddingDirection::DocToDoc]
                    .iter()
                    .any(|direction| settings.directions.contains(direction)),
            "has a `partition_mode` that must be joint with directions that have no positive",
        ),
    ];
    check_hardness(&format!("{path}.loss_args"), settings, texts.len(), problems);
    for (_, description) in wrong.into_iter().filter(|(is_wrong, _)| *is_wrong) {
        problems.violation(path, description);
    }
}
