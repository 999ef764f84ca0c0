//! Sets of embedded texts with losses of their own.

use traind_job_file::{EmbeddingLoss, JobFile};

use super::{check, job};

/// A job with these sets, mixed by round robin.
fn sets(sets: &str, more: &str) -> String {
    format!(
        "model: {{name_or_path: ./bert, task: embedding}}\n\
         data: {{train: {sets}, mixing: round_robin}}\n{more}"
    )
}

#[test]
fn a_loss_of_a_set_begins_with_the_defaults() {
    let keys = sets(
        "[{path: a.jsonl, texts: [q, a], loss_args: {scale: 5}}, b.jsonl, {path: c.jsonl, loss: triplet}, \
          {path: d.jsonl, loss: cosent, loss_args: {similarity: dot_score}}]",
        "embedding: {scale: 30, matryoshka_dims: [8]}",
    );
    let job = job(&keys);
    let sets = job.embedding_sets();
    let found: Vec<_> =
        sets.iter().map(|(set, texts)| (set.loss, set.scale, texts.len())).collect();
    let ranking = EmbeddingLoss::MultipleNegativesRanking;
    let expect = [
        (ranking, 5.0, 2),
        (ranking, 30.0, 0),
        (EmbeddingLoss::Triplet, 20.0, 0),
        (EmbeddingLoss::Cosent, 20.0, 0),
    ];
    assert_eq!(found, expect);
    assert!(sets.iter().all(|(set, _)| set.matryoshka_dims == [8]));
    assert_eq!(sets[3].0.similarity.unwrap().to_string(), "dot_score");
    assert_eq!(job.widest_embedding().1, 3);
    // A resolved job file is read as the same job.
    let resolved = serde_json::to_string(&job).unwrap();
    assert_eq!(serde_json::from_str::<JobFile>(&resolved).unwrap(), job);
}

/// A guide is that of all sets whose loss has one.
#[test]
fn a_guide_is_of_the_job() {
    let keys = sets(
        "[{path: a.jsonl, loss: gist, loss_args: {margin: 0.1}}, {path: b.jsonl, loss: cosent}]",
        "embedding: {guide: org/name}",
    );
    let job = job(&keys);
    let has_guide: Vec<bool> =
        job.embedding_sets().iter().map(|(set, _)| set.has_guide()).collect();
    assert_eq!(has_guide, [true, false]);
    assert!(job.models().any(|(field, _)| field == "embedding.guide"));
    assert!(!job.embedding_sets()[0].0.needs_label() && job.embedding_sets()[1].0.needs_label());
}

#[test]
fn plain_files_are_sets_too() {
    let job = job(&sets("[a.jsonl, b.jsonl]", ""));
    let sets = job.embedding_sets();
    assert!(sets.len() == 2 && sets.iter().all(|(set, _)| *set == job.embedding));
}

fn check_all(cases: impl IntoIterator<Item = (String, &'static str)>) {
    cases.into_iter().for_each(|(keys, expect)| check(&keys, expect));
}

#[test]
fn sets_that_do_not_fit_their_loss_are_refused() {
    check_all([
        (
            sets("[{path: a.jsonl, loss: triplet, loss_args: {scale: 2}}]", ""),
            "line 2: data.train[0].loss_args.scale: does not apply to the loss `triplet`",
        ),
        (
            sets("[{path: a.jsonl, loss: triplet, texts: [q, a]}]", ""),
            "line 2: data.train[0]: has 2 columns, and the loss `triplet` needs 3",
        ),
        (
            sets("[{path: a.jsonl, texts: [q, q]}]", ""),
            "line 2: data.train[0]: column `q` has two meanings",
        ),
        (
            sets("[{path: a.jsonl, loss_args: {hardness_strength: 2}}]", ""),
            "line 2: data.train[0].loss_args.hardness_strength: needs data.train[0].loss_args.hardness_mode",
        ),
        (
            sets("[{path: a.jsonl, loss: gist, loss_args: {guide_width: 2}}]", ""),
            "line 2: data.train[0]: must name its `texts`, of which the labels have the guide's vectors",
        ),
        (
            sets("[{path: a.jsonl, loss: gist, texts: [q, a]}]", ""),
            "line 2: data.train[0]: has the loss `gist`, which needs embedding.guide, or `guide_width` in its \
             `loss_args` for vectors in labels",
        ),
        (
            sets(
                "[{path: a.jsonl, loss: gist, loss_args: {guide_width: 2}}]",
                "embedding: {guide: org/name}",
            ),
            "line 2: data.train[0]: has `guide_width`, the length of vectors in labels, which are not read with \
             embedding.guide",
        ),
        (
            sets("[{path: a.jsonl, loss: cosent}]", "embedding: {guide: org/name}"),
            "line 3: embedding.guide: does not apply to the loss `multiple_negatives_ranking`",
        ),
    ]);
}

#[test]
fn sets_that_do_not_fit_each_other_or_the_mixing_are_refused() {
    check_all([
        (
            sets("[a.jsonl, {path: b.jsonl, loss: batch_hard_triplet}]", ""),
            "line 2: data.train: has the loss `batch_hard_triplet`, whose labels are classes, beside others; all \
             sets or none can have it",
        ),
        (
            sets("[{path: b.jsonl, loss: batch_hard_triplet}]", "embedding: {mini_batch_size: 4}"),
            "line 3: embedding.mini_batch_size: cannot be combined with the loss `batch_hard_triplet` of sets of \
             data.train",
        ),
        (
            sets("[a.jsonl], validation_split: 0.1", ""),
            "line 2: data.validation_split: cannot be combined with data.mixing: round_robin; give files in \
             data.validation",
        ),
        (
            sets("[{path: a.jsonl, weight: 2}]", ""),
            "line 2: data.train: has weights, which data.mixing: round_robin does not read",
        ),
        (
            sets("[a.jsonl], validation: [{path: b.jsonl, loss: cosent}]", ""),
            "line 2: data.validation[0]: has `texts`, `loss` or `loss_args`, which only sets that are trained on can \
             have; rows are evaluated with data.texts and embedding.loss",
        ),
        (
            sets("[{path: a.jsonl, loss: cosent}]", "").replace(", mixing: round_robin", ""),
            "line 2: data.train[0]: has `texts`, `loss` or `loss_args`, for which each batch must have rows of one \
             set: give data.mixing: proportional or round_robin",
        ),
        (
            "data: {train: [{path: a.csv, loss: cosent}], mixing: proportional}".to_owned(),
            "line 1: data.mixing: is `proportional`, which applies to embedding, not to sequence-classification
             line 1: data.train[0]: has `texts`, `loss` or `loss_args`, which apply to embedding, not to \
             sequence-classification",
        ),
    ]);
}
