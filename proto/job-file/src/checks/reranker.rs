//! Fields of scored pairs that must fit the task and each other.

use super::unread;
use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::model::TaskName;
use crate::schema::objectives::reranker::{Reranker, RerankerLoss, WeightingScheme};
use crate::section::given;

/// Reports fields of section `reranker`, and columns of texts, that do not fit.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    unread::check_section(TaskName::Reranker, &job.reranker, job, problems);
    if job.model.task != TaskName::Reranker {
        return;
    }
    check_texts(job, problems);
    check_options(&job.reranker, problems);
    check_labels(job, problems);
}

fn check_texts(job: &JobFile, problems: &mut Problems) {
    let (reranker, texts) = (&job.reranker, &job.data.texts);
    let loss = reranker.loss;
    if let (Some(_), false) = (reranker.list_size, loss.takes_lists()) {
        let description =
            format!("does not apply to the loss `{loss}`, whose passages are columns");
        problems.violation("reranker.list_size", description);
        return;
    }
    let refused = match texts.len() {
        0 => None,
        1 => Some("has 1 column, and a row has a query and at least one passage".to_owned()),
        2 if loss.compares_passages() && reranker.list_size.is_none() => Some(format!(
            "has 2 columns, and the loss `{loss}` compares passages: name more of them{}",
            if loss.takes_lists() {
                ", or set reranker.list_size where they are lists"
            } else {
                ""
            }
        )),
        3.. if loss == RerankerLoss::CrossEntropy => {
            Some(format!("has {} columns, and the loss `{loss}` needs 2", texts.len()))
        }
        3.. if reranker.list_size.is_some() => Some(format!(
            "has {} columns, but reranker.list_size is for a list of passages in one column",
            texts.len()
        )),
        _ => None,
    };
    if let Some(description) = refused {
        problems.violation("data.texts", description);
    }
    super::embedding::check_meanings(job, problems);
}

/// Options belong to some of the losses.
fn check_options(reranker: &Reranker, problems: &mut Problems) {
    let loss = reranker.loss;
    let is_lambda = loss == RerankerLoss::Lambda;
    let read = [
        ("pos_weight", loss == RerankerLoss::BinaryCrossEntropy),
        ("weighting_scheme", is_lambda),
        ("mu", is_lambda),
        ("k", is_lambda),
        ("sigma", is_lambda),
        ("eps", is_lambda),
        ("reduction_log", is_lambda),
    ];
    let keys = given(reranker, "reranker", problems);
    unread::check_loss("reranker", &keys, &read, loss, problems);
    let scheme = reranker.weighting_scheme;
    let has_mu = keys.iter().any(|key| key == "mu");
    if is_lambda && has_mu && scheme != WeightingScheme::NdcgLoss2pp {
        let description =
            format!("applies to the weighting scheme `ndcg_loss2pp`, not to `{scheme}`");
        problems.violation("reranker.mu", description);
    }
}

/// One label is a score; classes are several.
fn check_labels(job: &JobFile, problems: &mut Problems) {
    const FIELD: &str = "model.num_labels";
    let loss = job.reranker.loss;
    match (loss, job.model.num_labels) {
        (RerankerLoss::CrossEntropy, Some(1)) => {
            problems.violation(FIELD, "must be at least 2 for the loss `cross_entropy`");
        }
        (RerankerLoss::CrossEntropy, _) | (_, None | Some(1)) => {}
        (loss, Some(_)) => {
            let description = format!("must be 1 for the loss `{loss}`, which compares scores");
            problems.violation(FIELD, description);
        }
    }
    if job.data.label_map.is_some() && loss != RerankerLoss::CrossEntropy {
        let description = format!("applies to classes, not to the loss `{loss}`");
        problems.violation("data.label_map", description);
    }
}
