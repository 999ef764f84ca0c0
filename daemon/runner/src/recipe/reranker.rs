//! The objective of a job that scores passages.

use std::sync::Arc;

use traind_job_file::{JobFile, ReductionLog, Reranker, RerankerLoss as Named, WeightingScheme};
use traind_models::tasks::embedding::EmbeddingLoss;
use traind_models::tasks::reranker::{
    BinaryCrossEntropy, CrossEntropy, Lambda, ListNet, MarginMse, Mse, Weighting,
};

use crate::step::EmbeddingObjective;

/// The objective of rows with `passages` passages.
pub(super) fn objective(job: &JobFile, passages: usize) -> EmbeddingObjective {
    let loss = loss(&job.reranker, passages);
    // Rows of other passages are refused where they are trained on.
    let loss = loss.filter(|loss| loss.texts().contains(&passages));
    EmbeddingObjective { loss, texts: passages, part_rows: None, of_sets: Vec::new() }
}

pub(super) fn loss(job: &Reranker, passages: usize) -> Option<Arc<dyn EmbeddingLoss>> {
    if job.loss.compares_passages() && passages < 2 {
        return None;
    }
    Some(match job.loss {
        Named::BinaryCrossEntropy => {
            Arc::new(BinaryCrossEntropy { passages, pos_weight: job.pos_weight.unwrap_or(1.0) })
        }
        Named::Mse => Arc::new(Mse { passages }),
        Named::CrossEntropy => Arc::new(CrossEntropy),
        Named::MarginMse => Arc::new(MarginMse { negatives: passages - 1 }),
        Named::ListNet => Arc::new(ListNet { passages }),
        Named::Lambda => Arc::new(Lambda {
            passages,
            weighting: weighting(job),
            k: job.k.map(|k| k as usize),
            sigma: job.sigma,
            eps: job.eps,
            is_binary: job.reduction_log == ReductionLog::Binary,
        }),
    })
}

pub(super) fn weighting(job: &Reranker) -> Weighting {
    match job.weighting_scheme {
        WeightingScheme::None => Weighting::None,
        WeightingScheme::NdcgLoss1 => Weighting::NdcgLoss1,
        WeightingScheme::NdcgLoss2 => Weighting::NdcgLoss2,
        WeightingScheme::LambdaRank => Weighting::LambdaRank,
        WeightingScheme::NdcgLoss2pp => Weighting::NdcgLoss2pp { mu: job.mu },
    }
}
