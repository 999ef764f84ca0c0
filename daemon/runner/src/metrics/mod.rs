//! Metrics of a whole split, computed on the host from results in dataset
//! order. Each equals scikit-learn's of the same name.

mod classification;

pub(crate) use classification::{ConfusionMatrix, argmax};

use std::collections::BTreeMap;

/// Metric values by name, without a split's prefix.
pub(crate) type Metrics = BTreeMap<String, f64>;
