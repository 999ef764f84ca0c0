//! The place of a core in its job's mesh, and what it sends to the others.

use traind_proto::v1::{Communication, StageUsage};

use super::bytes;

/// "stage 1, bubble 12 %".
pub(crate) fn stage(usage: &StageUsage) -> String {
    format!("stage {}, bubble {:.0} %", usage.stage, usage.bubble_percent)
}

/// The axes along which a core sends data, with each one's bytes per second.
pub(crate) fn axes(sent: &Communication) -> impl Iterator<Item = (&'static str, f64)> {
    let axes = [
        ("data", sent.data_bytes_per_second),
        ("tensor", sent.tensor_bytes_per_second),
        ("pipeline", sent.pipeline_bytes_per_second),
        ("hosts", sent.hosts_bytes_per_second),
    ];
    axes.into_iter().filter(|(_, rate)| *rate > 0.0)
}

/// "data 12.0 MiB/s (40 %), tensor 18.0 MiB/s (60 %)"; empty if the core sends nothing.
pub(crate) fn communication(sent: &Communication) -> String {
    let total: f64 = axes(sent).map(|(_, rate)| rate).sum();
    let text = |(axis, rate): (&str, f64)| {
        format!("{axis} {}/s ({:.0} %)", bytes(rate as u64), 100.0 * rate / total)
    };
    axes(sent).map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_its_bytes_and_its_share() {
        let mut sent = Communication::default();
        assert_eq!(communication(&sent), "");
        sent.pipeline_bytes_per_second = 1024.0;
        assert_eq!(communication(&sent), "pipeline 1.0 KiB/s (100 %)");
        sent.tensor_bytes_per_second = 3.0 * 1024.0;
        assert_eq!(communication(&sent), "tensor 3.0 KiB/s (75 %), pipeline 1.0 KiB/s (25 %)");
    }
}
