//! `reranker`: the objective of scored pairs of texts, under the names of sentence-transformers.

use std::ops::Bound;

use crate::section::{above, section};
use crate::spelled::spelled;

section! {
    /// The objective of `task: reranker`, under the names of sentence-transformers' losses of cross
    /// encoders.
    pub struct Reranker {
        /// Loss of a batch.
        loss: RerankerLoss = RerankerLoss::BinaryCrossEntropy;
        /// Factor of the loss of relevant passages, for `binary_cross_entropy`.
        pos_weight: Option<f64> = None, in above(0.0);
        /// The most passages of a row whose second column has a list of them. Programs are compiled
        /// for as many; shorter lists are padded. Without it, each column behind the first is a
        /// passage.
        list_size: Option<u32> = None, in 2.0..=4096.0;
        /// Weight of two passages in the loss `lambda`.
        weighting_scheme: WeightingScheme = WeightingScheme::NdcgLoss2pp;
        /// Weight of `ndcg_loss2` in `ndcg_loss2pp`.
        mu: f64 = 10.0, in (Bound::Included(0.0), Bound::Unbounded);
        /// Ranks that `lambda` counts: pairs with a passage among the first so many; all by default.
        k: Option<u32> = None, in 1.0..=4096.0;
        /// Steepness of the loss `lambda`: the factor of differences of scores.
        sigma: f64 = 1.0, in above(0.0);
        /// The least gain of a list that `lambda` divides by.
        eps: f64 = 1e-10, in above(0.0);
        /// Base of the logarithm of the loss `lambda`.
        reduction_log: ReductionLog = ReductionLog::Binary;
    }
}

spelled! {
    /// The loss of scored pairs. Rows have the columns in parentheses; instead of passages in columns
    /// they may have a list of them, with a list of labels (`reranker.list_size`).
    pub enum RerankerLoss {
        /// Relevance of each passage (query, passage, 1 or 0 or a number between), (query, relevant
        /// passage, irrelevant ones).
        BinaryCrossEntropy = "binary_cross_entropy",
        /// Squared error of each score (query, passage, score).
        Mse = "mse",
        /// One of several classes (text, text, class).
        CrossEntropy = "cross_entropy",
        /// Squared error of a teacher's margins (query, positive, negatives, a number for each
        /// negative or for each passage).
        MarginMse = "margin_mse",
        /// Cross entropy of the shares of a list (query, passages, labels).
        ListNet = "list_net",
        /// Order of a list, by the gain that its metric has of it (query, passages, labels).
        Lambda = "lambda",
    }
}

spelled! {
    /// The weight of two passages in the loss `lambda` (Wang et al., 2018).
    pub enum WeightingScheme {
        /// One (RankNet).
        None = "none",
        /// The discounted gain of the first passage.
        NdcgLoss1 = "ndcg_loss1",
        /// The difference of gains, by the distance of ranks.
        NdcgLoss2 = "ndcg_loss2",
        /// The difference of gains and of discounts (LambdaRank).
        LambdaRank = "lambda_rank",
        /// `mu` times `ndcg_loss2`, and `lambda_rank`.
        NdcgLoss2pp = "ndcg_loss2pp",
    }
}

spelled! {
    /// The base of a logarithm.
    pub enum ReductionLog {
        /// e.
        Natural = "natural",
        /// 2.
        Binary = "binary",
    }
}

impl RerankerLoss {
    /// Whether it compares the passages of a row, of which it needs several.
    pub fn compares_passages(self) -> bool {
        matches!(self, Self::MarginMse | Self::ListNet | Self::Lambda)
    }

    /// Whether rows may have a list of passages with a label each.
    pub fn takes_lists(self) -> bool {
        !matches!(self, Self::CrossEntropy | Self::MarginMse)
    }
}

impl Reranker {
    /// The passages of a row with `columns` columns of texts.
    pub fn passages(&self, columns: usize) -> usize {
        match (self.list_size, columns) {
            (Some(size), 0 | 2) => size as usize,
            (_, columns) => columns.saturating_sub(1).max(self.passages_min()),
        }
    }

    /// The fewest passages of a row.
    fn passages_min(&self) -> usize {
        if self.loss.compares_passages() { 2 } else { 1 }
    }
}
