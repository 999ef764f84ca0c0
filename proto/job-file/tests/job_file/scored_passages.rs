//! Keys of rerankers.

use crate::check;

#[test]
fn keys_of_scored_passages() {
    let check_task = |task: &str, data: &str, rest: &str, expect: &str| {
        let model = format!("model: {{name_or_path: ./bert, task: {task}}}");
        check(&format!("{model}\ndata: {{train: a.jsonl{data}}}\n{rest}"), expect);
    };
    check_task("reranker", "", "", "");
    check_task("reranker", ", texts: [q, p], label: score", "reranker: {pos_weight: 4}", "");
    let lambda = "reranker: {loss: lambda, list_size: 8, weighting_scheme: ndcg_loss2pp, mu: 5, k: 4, sigma: 2, \
                  eps: 1.0e-6, reduction_log: natural}";
    check_task("reranker", ", texts: [q, docs]", lambda, "");
    check_task("reranker", ", texts: [q, p, n, m]", "reranker: {loss: margin_mse}", "");
    for (data, rest, expect) in [
        (
            ", texts: [q]",
            "",
            "line 2: data.texts: has 1 column, and a row has a query and at least one passage",
        ),
        (", texts: [q, q]", "", "line 2: data.texts: column `q` has two meanings"),
        (
            ", texts: [q, p]",
            "reranker: {loss: list_net}",
            "line 2: data.texts: has 2 columns, and the loss `list_net` compares passages: name more of them, \
             or set reranker.list_size where they are lists",
        ),
        (
            ", texts: [q, p]",
            "reranker: {loss: margin_mse}",
            "line 2: data.texts: has 2 columns, and the loss `margin_mse` compares passages: name more of them",
        ),
        (
            ", texts: [q, p, n]",
            "reranker: {loss: cross_entropy}",
            "line 2: data.texts: has 3 columns, and the loss `cross_entropy` needs 2",
        ),
        (
            ", texts: [q, p, n]",
            "reranker: {list_size: 4}",
            "line 2: data.texts: has 3 columns, but reranker.list_size is for a list of passages in one column",
        ),
        (
            "",
            "reranker: {loss: margin_mse, list_size: 4}",
            "line 3: reranker.list_size: does not apply to the loss `margin_mse`, whose passages are columns",
        ),
        ("", "reranker: {loss: mse, k: 3}", "line 3: reranker.k: does not apply to the loss `mse`"),
        (
            "",
            "reranker: {loss: lambda, list_size: 4, weighting_scheme: none, mu: 3}",
            "line 3: reranker.mu: applies to the weighting scheme `ndcg_loss2pp`, not to `none`",
        ),
        (
            ", label_map: {a: b, c: d}",
            "",
            "line 2: data.label_map: applies to classes, not to the loss `binary_cross_entropy`",
        ),
        (
            "",
            "train: {label_smoothing_factor: 0.1}",
            "line 3: train.label_smoothing_factor: applies to classes and tokens, not to reranker",
        ),
        ("", "train: {loss: mse}", "line 3: train.loss: applies to labels, not to reranker"),
        (", prompts: {q: x}", "", "line 2: data.prompts: applies to embedding, not to reranker"),
    ] {
        check_task("reranker", data, rest, expect);
    }
    let expect = "line 3: reranker.loss: applies to reranker, not to masked-lm";
    check_task("masked-lm", "", "reranker: {loss: mse}", expect);
}

#[test]
fn numbers_of_scores_fit_the_loss() {
    let labels = |loss: &str, num_labels: u32, expect: &str| {
        let model =
            format!("model: {{name_or_path: ./bert, task: reranker, num_labels: {num_labels}}}");
        check(&format!("{model}\ndata: {{train: a.jsonl}}\nreranker: {{loss: {loss}}}"), expect);
    };
    labels("cross_entropy", 3, "");
    labels("mse", 1, "");
    labels(
        "cross_entropy",
        1,
        "line 1: model.num_labels: must be at least 2 for the loss `cross_entropy`",
    );
    labels(
        "mse",
        3,
        "line 1: model.num_labels: must be 1 for the loss `mse`, which compares scores",
    );
}
