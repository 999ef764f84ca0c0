//! Keys of embedded texts: columns, losses, guides, and the numbers of their vectors.

use crate::check;

/// Checks a job with these keys of its data and of other sections.
#[track_caller]
fn check_embedded(task: &str, data: &str, rest: &str, expect: &str) {
    let model = format!("model: {{name_or_path: ./bert, task: {task}}}");
    check(&format!("{model}\ndata: {{train: a.jsonl{data}}}\n{rest}"), expect);
}

#[test]
fn keys_of_embedded_texts() {
    check_embedded("embedding", "", "", "");
    let all = "embedding: {scale: 30, similarity: dot_score, matryoshka_dims: [8, 4], matryoshka_weights: [1, 0.5], \
               directions: [query_to_doc, doc_to_query], partition_mode: per_direction, pooling_mode: cls, \
               normalize: true}";
    check_embedded("embedding", ", texts: [q, a, n], prompts: {q: 'query: '}", all, "");
    let hard =
        "embedding: {hardness_mode: all_negatives, hardness_strength: 9, mini_batch_size: 8}";
    check_embedded("embedding", "", hard, "");
    let guided = "embedding: {loss: gist, guide_width: 384, temperature: 0.05, margin: 0.1, margin_strategy: relative, \
                  contrast_anchors: false, contrast_positives: false, mini_batch_size: 32, matryoshka_dims: [8]}";
    check_embedded("embedding", ", texts: [q, a, n], label: guide", guided, "");
    check_embedded("embedding", "", "embedding: {loss: gist, guide: org/name, margin: 0.1}", "");
    let triplet = "embedding: {loss: triplet, distance_metric: cosine, margin: 0.5}";
    check_embedded("embedding", ", texts: [q, a, n], label: score", triplet, "");
}

#[test]
fn columns_of_embedded_texts_that_do_not_fit() {
    for (data, rest, expect) in [
        (
            ", texts: [q]",
            "",
            "line 2: data.texts: has 1 column, and the loss `multiple_negatives_ranking` needs at least 2",
        ),
        (
            ", texts: [q, a]",
            "embedding: {loss: triplet}",
            "line 2: data.texts: has 2 columns, and the loss `triplet` needs 3",
        ),
        (", texts: [q, q]", "", "line 2: data.texts: column `q` has two meanings"),
        (
            ", texts: [q, a], prompts: {b: 'x'}",
            "",
            "line 2: data.prompts.b: is of no column of data.texts",
        ),
    ] {
        check_embedded("embedding", data, rest, expect);
    }
    let expect = "line 3: embedding.scale: applies to embedding, not to masked-lm";
    check_embedded("masked-lm", "", "embedding: {scale: 3}", expect);
    let expect = "line 2: data.texts: applies to embedding, not to masked-lm";
    check_embedded("masked-lm", ", texts: [a]", "", expect);
}

#[test]
fn guides_that_do_not_fit() {
    for (data, rest, expect) in [
        (
            "",
            "embedding: {loss: gist, guide_width: 2}",
            "line 2: data.texts: must name the columns of texts, of which the labels have the guide's vectors",
        ),
        (
            ", texts: [q, a]",
            "embedding: {loss: gist}",
            "line 3: embedding.guide: is missing: the loss `gist` needs a model that embeds the texts; or their \
             vectors as labels, with embedding.guide_width",
        ),
        (
            ", texts: [q, a]",
            "embedding: {guide: org/name}",
            "line 3: embedding.guide: does not apply to the loss `multiple_negatives_ranking`",
        ),
        (
            "",
            "embedding: {loss: gist, guide: org/name, guide_width: 2}",
            "line 3: embedding.guide_width: is the length of vectors in labels, which are not read with \
             embedding.guide",
        ),
        (
            "",
            "embedding: {loss: gist, guide: a/b/c}",
            "line 3: embedding.guide: `a/b/c` is neither a folder that exists nor a hub id such as `org/name`",
        ),
    ] {
        check_embedded("embedding", data, rest, expect);
    }
}

#[test]
fn losses_of_embedded_texts_that_do_not_fit() {
    for (data, rest, expect) in [
        (
            "",
            "embedding: {temperature: 0.1}",
            "line 3: embedding.temperature: does not apply to the loss `multiple_negatives_ranking`",
        ),
        (
            "",
            "embedding: {loss: cosine_similarity, scale: 3}",
            "line 3: embedding.scale: does not apply to the loss `cosine_similarity`",
        ),
        (
            "",
            "embedding: {loss: cosent, margin: 3}",
            "line 3: embedding.margin: does not apply to the loss `cosent`",
        ),
        (
            "",
            "embedding: {loss: batch_hard_triplet, distance_metric: manhattan}",
            "line 3: embedding.distance_metric: must be euclidean or cosine for the loss \
             `batch_hard_triplet`",
        ),
        (
            "",
            "embedding: {directions: doc_to_query}",
            "line 3: embedding.directions: must contain query_to_doc, which has the positives",
        ),
        (
            "",
            "embedding: {directions: [query_to_doc, doc_to_doc], partition_mode: per_direction}",
            "line 3: embedding.partition_mode: must be joint with doc_to_doc, which has no positive of \
             its own",
        ),
        (
            "",
            "embedding: {hardness_strength: 9}",
            "line 3: embedding.hardness_strength: needs embedding.hardness_mode",
        ),
        (
            "",
            "embedding: {loss: cosent, hardness_mode: all_negatives}",
            "line 3: embedding.hardness_mode: does not apply to the loss `cosent`",
        ),
        (
            "",
            "embedding: {batch_sampler: group_by_label}",
            "line 3: embedding.batch_sampler: is `group_by_label`, but rows of the loss \
             `multiple_negatives_ranking` have no classes",
        ),
        (
            ", label: l",
            "embedding: {loss: batch_hard_triplet, batch_sampler: group_by_label}\n\
             train: {per_device_train_batch_size: 3}",
            "line 3: embedding.batch_sampler: is `group_by_label`, but a batch has 3 rows on all cores, and \
             pairs of two classes need an even number from 4 on",
        ),
        (
            "",
            "embedding: {loss: cosent, mini_batch_size: 8}",
            "line 3: embedding.mini_batch_size: does not apply to the loss `cosent`",
        ),
    ] {
        check_embedded("embedding", data, rest, expect);
    }
}

#[test]
fn settings_of_losses_without_effect() {
    for (data, rest, expect) in [
        (
            "",
            "embedding: {hardness_mode: all_negatives}",
            "line 3: embedding.hardness_mode: has no effect: embedding.hardness_strength is 0",
        ),
        (
            ", texts: [q, a]",
            "embedding: {hardness_mode: hard_negatives, hardness_strength: 5}",
            "line 3: embedding.hardness_mode: has no effect: rows with two texts have no negatives of their own",
        ),
        (
            "",
            "embedding: {gather_across_devices: true}",
            "line 3: embedding.gather_across_devices: has no effect: losses that compare rows compare those of all \
             cores in any case",
        ),
        (
            "",
            "embedding: {similarity_fct: dot_score}",
            "line 3: embedding.similarity_fct: is read as `similarity`",
        ),
        (
            "",
            "embedding: {loss: triplet, triplet_margin: 1}",
            "line 3: embedding.triplet_margin: is read as `margin`",
        ),
    ] {
        check_embedded("embedding", data, rest, expect);
    }
}

#[test]
fn vectors_that_do_not_fit() {
    for (data, rest, expect) in [
        (
            "",
            "embedding: {dense_activation_function: relu}",
            "line 3: embedding.dense_activation_function: needs embedding.dense_out_features",
        ),
        (
            "",
            "embedding: {dense_out_features: 8}\npeft: {method: lora}",
            "line 3: embedding.dense_out_features: is not supported beside adapters, which are saved \
             without it",
        ),
        (
            "",
            "embedding: {matryoshka_dims: [4, 0]}",
            "line 3: embedding.matryoshka_dims: must be above 0",
        ),
        (
            "",
            "embedding: {matryoshka_dims: [64, 32], dense_out_features: 32}",
            "line 3: embedding.matryoshka_dims: has 64, but embeddings have 32 numbers \
             (embedding.dense_out_features)",
        ),
        (
            "",
            "embedding: {matryoshka_dims: [4], matryoshka_weights: [1, 2]}",
            "line 3: embedding.matryoshka_weights: has 2 weights, but embedding.matryoshka_dims has 1 \
             number",
        ),
        (
            "",
            "embedding: {loss: mse, matryoshka_dims: [4]}",
            "line 3: embedding.matryoshka_dims: does not apply to the loss `mse`, whose labels are \
             whole embeddings",
        ),
        (
            "",
            "train: {label_smoothing_factor: 0.1}",
            "line 3: train.label_smoothing_factor: applies to classes and tokens, not to embedding",
        ),
    ] {
        check_embedded("embedding", data, rest, expect);
    }
}
