//! The event that reports a prepared split.

use traind_loader::SetStats;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{ClassCount, DataPrepared, TokenLengths};

pub(super) fn event(split: &str, stats: &SetStats, cache_hit: bool, seconds: f64) -> Kind {
    let classes = stats.class_histogram.iter();
    Kind::DataPrepared(DataPrepared {
        split: split.to_owned(),
        rows: stats.rows,
        files: stats.files,
        tokens: stats.tokens,
        lengths: Some(TokenLengths {
            mean: stats.mean_length,
            p50: stats.lengths.p50,
            p90: stats.lengths.p90,
            p99: stats.lengths.p99,
            max: stats.lengths.max,
        }),
        classes: classes
            .map(|(label, rows)| ClassCount { label: label.clone(), rows: *rows })
            .collect(),
        cache_hit,
        seconds,
        truncated_rows: stats.truncated_rows,
    })
}
