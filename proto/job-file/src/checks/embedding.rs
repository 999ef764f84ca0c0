//! Fields of embedded texts that must fit the task and each other.

use std::collections::BTreeSet;

use traind_wording::counted;

use super::unread;
use crate::problems::{FIELD_UNUSED, Problems, join};
use crate::schema::JobFile;
use crate::schema::model::TaskName;
use crate::schema::objectives::embedding::{
    BatchSampler, DistanceMetric, Embedding, EmbeddingDirection, EmbeddingLoss, HardnessMode,
    PartitionMode,
};
use crate::section::given;

/// Rows of two classes, two of each.
const PAIRED_ROWS_MIN: u64 = 4;

/// Reports fields of section `embedding`, and columns of texts, that do not fit.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let (task, data) = (job.model.task, &job.data);
    unread::check_section(TaskName::Embedding, &job.embedding, job, problems);
    if task != TaskName::Embedding {
        let columns = [
            ("data.texts", task == TaskName::Reranker || data.texts.is_empty()),
            ("data.prompts", data.prompts.iter().next().is_none()),
        ];
        for (field, _) in columns.into_iter().filter(|(_, is_fitting)| !is_fitting) {
            problems.violation(field, format!("applies to embedding, not to {task}"));
        }
        return;
    }
    check_texts(job, problems);
    check_options(&job.embedding, problems);
    check_guide(job, problems);
    check_directions(&job.embedding, problems);
    check_hardness("embedding", &job.embedding, job.data.texts.len(), problems);
    check_matryoshka(&job.embedding, problems);
    check_pairs_of_classes(job, problems);
    if job.embedding.dense_out_features.is_some() && job.peft.method.is_some() {
        let description = "is not supported beside adapters, which are saved without it";
        problems.violation("embedding.dense_out_features", description);
    }
}

fn check_texts(job: &JobFile, problems: &mut Problems) {
    let (data, loss) = (&job.data, job.embedding.loss);
    if data.texts.is_empty() {
        let embedding = &job.embedding;
        let is_labelled = loss == EmbeddingLoss::Gist && embedding.guide_width.is_some();
        if is_labelled && !embedding.has_guide() && !job.only_predicts() {
            let description =
                "must name the columns of texts, of which the labels have the guide's vectors";
            problems.violation("data.texts", description);
        }
        return;
    }
    let is_of_set = job.embedding_sets().iter().any(|(set, _)| set.loss != loss);
    if !job.only_predicts() && !is_of_set {
        check_count("data.texts", loss, data.texts.len(), problems);
    }
    check_meanings(job, problems);
    let is_text = |column: &str| data.texts.iter().any(|text| text == column);
    if let Some((column, _)) = data.prompts.iter().find(|(column, _)| !is_text(column)) {
        let description = "is of no column of data.texts".to_owned();
        problems.violation(&format!("data.prompts.{column}"), description);
    }
}

/// Reports a number of columns of texts that a loss does not take.
pub(super) fn check_count(
    field: &str,
    loss: EmbeddingLoss,
    columns: usize,
    problems: &mut Problems,
) {
    if !loss.takes(columns) {
        let (columns, wanted) = (counted(columns, "column"), loss.needed_texts());
        let description = format!("has {columns}, and the loss `{loss}` needs {wanted}");
        problems.violation(field, description);
    }
}

/// Reports columns that are named twice.
pub(super) fn check_meanings(job: &JobFile, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for column in job.data.texts.iter().chain([&job.data.label]) {
        if !seen.insert(column) {
            problems.violation("data.texts", format!("column `{column}` has two meanings"));
        }
    }
}

/// Options belong to some of the losses.
fn check_options(embedding: &Embedding, problems: &mut Problems) {
    let loss = embedding.loss;
    let keys = given(embedding, "embedding", problems);
    unread::check_loss("embedding", &keys, &options_of(loss), loss, problems);
    if embedding.dense_out_features.is_none()
        && keys.iter().any(|key| key == "dense_activation_function")
    {
        let description = "needs embedding.dense_out_features";
        problems.violation("embedding.dense_activation_function", description);
    }
    let sampler = embedding.batch_sampler;
    if sampler == BatchSampler::GroupByLabel && loss != EmbeddingLoss::BatchHardTriplet {
        let description = format!("is `{sampler}`, but rows of the loss `{loss}` have no classes");
        problems.violation("embedding.batch_sampler", description);
    }
    let is_manhattan = embedding.distance_metric == Some(DistanceMetric::Manhattan);
    if is_manhattan && loss == EmbeddingLoss::BatchHardTriplet {
        let description = "must be euclidean or cosine for the loss `batch_hard_triplet`";
        problems.violation("embedding.distance_metric", description);
    }
}

/// The guide of `gist` is a model, or its vectors are labels of a length that must be known.
fn check_guide(job: &JobFile, problems: &mut Problems) {
    let embedding = &job.embedding;
    let is_guided = |settings: &Embedding| settings.loss == EmbeddingLoss::Gist;
    let by_sets = job.embedding_sets().iter().any(|(settings, _)| is_guided(settings));
    match (&embedding.guide, embedding.guide_width) {
        (Some(_), _) if !is_guided(embedding) && !by_sets => {
            let description = format!("does not apply to the loss `{}`", embedding.loss);
            problems.violation("embedding.guide", description);
        }
        (Some(_), Some(_)) => {
            let description =
                "is the length of vectors in labels, which are not read with embedding.guide";
            problems.violation("embedding.guide_width", description);
        }
        (None, None) if is_guided(embedding) => {
            let description = "is missing: the loss `gist` needs a model that embeds the texts; or their vectors as \
                               labels, with embedding.guide_width";
            problems.violation("embedding.guide", description);
        }
        _ => {}
    }
}

/// The settings of losses, with whether `loss` reads each.
pub(super) fn options_of(loss: EmbeddingLoss) -> [(&'static str, bool); 14] {
    let (is_guided, is_ranking) =
        (loss == EmbeddingLoss::Gist, loss == EmbeddingLoss::MultipleNegativesRanking);
    [
        ("scale", loss.has_scale()),
        ("similarity", loss.has_similarity()),
        ("directions", is_ranking),
        ("partition_mode", is_ranking),
        ("hardness_mode", is_ranking),
        ("hardness_strength", is_ranking),
        ("mini_batch_size", loss.ranks_batch()),
        ("distance_metric", loss.has_distance()),
        ("margin", loss.has_distance() || is_guided),
        ("temperature", is_guided),
        ("margin_strategy", is_guided),
        ("contrast_anchors", is_guided),
        ("contrast_positives", is_guided),
        ("guide_width", is_guided),
    ]
}

fn check_directions(embedding: &Embedding, problems: &mut Problems) {
    const FIELD: &str = "embedding.directions";
    let directions = &embedding.directions;
    if !directions.contains(&EmbeddingDirection::QueryToDoc) {
        problems.violation(FIELD, "must contain query_to_doc, which has the positives");
    }
    let without_positives = [EmbeddingDirection::QueryToQuery, EmbeddingDirection::DocToDoc];
    let other = directions.iter().find(|direction| without_positives.contains(direction));
    if let (Some(direction), PartitionMode::PerDirection) = (other, embedding.partition_mode) {
        let description =
            format!("must be joint with {direction}, which has no positive of its own");
        problems.violation("embedding.partition_mode", description);
    }
}

/// Both keys of hardness belong together. `texts` is the number of columns of texts, 0 where it is unknown.
pub(super) fn check_hardness(
    section: &str,
    embedding: &Embedding,
    texts: usize,
    problems: &mut Problems,
) {
    let strength = embedding.hardness_strength;
    let Some(mode) = embedding.hardness_mode else {
        if strength > 0.0 {
            let field = join(section, "hardness_strength");
            problems.violation(&field, format!("needs {section}.hardness_mode"));
        }
        return;
    };
    let field = join(section, "hardness_mode");
    if strength == 0.0 {
        let description = format!("has no effect: {section}.hardness_strength is 0");
        problems.warning(FIELD_UNUSED, &field, description);
    } else if mode == HardnessMode::HardNegatives && texts == 2 {
        let description = "has no effect: rows with two texts have no negatives of their own";
        problems.warning(FIELD_UNUSED, &field, description);
    }
}

fn check_matryoshka(embedding: &Embedding, problems: &mut Problems) {
    let (dims, weights) = (&embedding.matryoshka_dims, &embedding.matryoshka_weights);
    if dims.contains(&0) {
        problems.violation("embedding.matryoshka_dims", "must be above 0");
    }
    if let Some(width) = embedding.dense_out_features
        && let Some(dim) = dims.iter().find(|dim| **dim > width)
    {
        let description = format!(
            "has {dim}, but embeddings have {} (embedding.dense_out_features)",
            counted(width, "number")
        );
        problems.violation("embedding.matryoshka_dims", description);
    }
    if let Some(weights) = weights.as_ref().filter(|weights| weights.len() != dims.len()) {
        let description = format!(
            "has {}, but embedding.matryoshka_dims has {}",
            counted(weights.len(), "weight"),
            counted(dims.len(), "number")
        );
        problems.violation("embedding.matryoshka_weights", description);
    }
    if !dims.is_empty() && embedding.loss == EmbeddingLoss::Mse {
        let description = "does not apply to the loss `mse`, whose labels are whole embeddings";
        problems.violation("embedding.matryoshka_dims", description);
    }
}

/// Batches of pairs of classes have an even number of rows. Sizes that only the run finds are checked there.
fn check_pairs_of_classes(job: &JobFile, problems: &mut Problems) {
    let (sampler, train, parallel) = (job.embedding.batch_sampler, &job.train, &job.parallel);
    let is_known = train.do_train && !train.auto_find_batch_size && !parallel.auto;
    let (cores, shared) = (job.resources.total_cores(), parallel.tensor * parallel.pipeline);
    if sampler != BatchSampler::GroupByLabel || !is_known || !cores.is_multiple_of(shared) {
        return;
    }
    let rows = u64::from(train.per_device_train_batch_size) * u64::from(cores / shared);
    if rows < PAIRED_ROWS_MIN || !rows.is_multiple_of(2) {
        let description = format!(
            "is `{sampler}`, but a batch has {} on all cores, and pairs of two classes need an even number \
             from {PAIRED_ROWS_MIN} on",
            counted(rows, "row")
        );
        problems.violation("embedding.batch_sampler", description);
    }
}
