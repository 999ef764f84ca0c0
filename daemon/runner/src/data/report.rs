//! The event that reports a prepared split.

use prost::Message;
use traind_loader::SetStats;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{ClassCount, DataPrepared, TokenLengths};

/// The longest name of a class, and the bytes of all that fit into an event beside the rest.
const NAME_BYTES_MAX: usize = 200;
const CLASSES_BYTES_MAX: usize = 512 << 10;

pub(super) fn event(split: &str, stats: &SetStats, cache_hit: bool, seconds: f64) -> Kind {
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
        classes: classes(&stats.class_histogram),
        cache_hit,
        seconds,
        truncated_rows: stats.truncated_rows,
    })
}

/// The first classes, as many as fit, with names of a limited length: a column of texts may be taken for labels.
fn classes(histogram: &[(String, u64)]) -> Vec<ClassCount> {
    let mut left = CLASSES_BYTES_MAX;
    let counts = histogram.iter().map(|(label, rows)| {
        let mut label = label.clone();
        label.truncate(label.floor_char_boundary(NAME_BYTES_MAX));
        ClassCount { label, rows: *rows }
    });
    let fits = |count: &ClassCount| {
        // With the tags and lengths of both.
        let bytes = count.encoded_len() + 4;
        left = left.saturating_sub(bytes);
        left > 0
    };
    counts.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_classes_and_long_names_fit_into_an_event() {
        let long: Vec<(String, u64)> = (0..20).map(|id| ("é".repeat(100_000), id)).collect();
        let found = classes(&long);
        assert_eq!((found.len(), found[19].rows), (20, 19));
        assert!(found.iter().all(|class| class.label.len() == NAME_BYTES_MAX));
        let many: Vec<(String, u64)> =
            (0..65_536).map(|id| (format!("class {id:030}"), 1)).collect();
        let found = classes(&many);
        let bytes: usize = found.iter().map(|class| class.encoded_len() + 4).sum();
        assert!(found.len() > 10_000 && bytes <= CLASSES_BYTES_MAX, "{bytes}");
        assert_eq!(found[7].label, many[7].0);
    }
}
