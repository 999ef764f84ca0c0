//! Metrics of a whole split, computed on the host. Each equals its counterpart in scikit-learn, scipy,
//! seqeval, rouge_score, sacrebleu or SQuAD's scripts, which a fixture of `scripts/fixtures/metrics.py` shows.
//!
//! Imports `vectors`.

mod averages;
mod bleu;
mod classification;
mod embedding;
mod entities;
mod multi_label;
mod regression;
mod reranking;
mod rouge;
mod squad;
mod stemmer;

#[cfg(test)]
mod tests;

pub(crate) use bleu::bleu;
pub(crate) use classification::{ConfusionMatrix, argmax};
pub(crate) use embedding::{Embedded, retrieval, similarity, triplets};
pub(crate) use entities::{Sentence, entities};
pub(crate) use multi_label::multi_label;
pub(crate) use regression::regression;
pub(crate) use reranking::{Ranked, correlation, relevance, reranking};
pub(crate) use rouge::rouge;
pub(crate) use squad::squad;

use std::collections::BTreeMap;

/// Metric values by name, without a split's prefix.
pub(crate) type Metrics = BTreeMap<String, f64>;
