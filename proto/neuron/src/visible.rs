//! `NEURON_RT_VISIBLE_CORES`, which selects the cores of a process.

/// The cores of a process. The daemon schedules the first ones of its own: numbers of cores count from the first.
pub const VISIBLE_CORES: &str = "NEURON_RT_VISIBLE_CORES";

/// Parses "0-3" or "0-1,4".
pub fn parse_core_ranges(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        numbers.extend(first..=last.min(first.saturating_add(1024)));
    }
    Some(numbers)
}

/// Formats ascending cores as "0-3", or "0-1,4" with a gap.
pub fn core_ranges(cores: &[u32]) -> String {
    let runs = cores.chunk_by(|left, right| left + 1 == *right);
    let texts = runs.map(|run| match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Whether the runtime takes these cores: it takes a range without gaps.
pub fn is_core_range(cores: &[u32]) -> bool {
    !cores.is_empty() && cores.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_gaps_seen() {
        let is_range = |text: &str| parse_core_ranges(text).map(|cores| is_core_range(&cores));
        for range in ["0", "8-15", "0,1,2", " 3-4 , 5"] {
            assert_eq!(is_range(range), Some(true), "{range}");
        }
        for gaps in ["0,2", "5-3", "1,0", "0-3,5", "4294967295,0"] {
            assert_eq!(is_range(gaps), Some(false), "{gaps}");
        }
        for wrong in ["", "a", "0-", "-1", "0;1"] {
            assert_eq!(is_range(wrong), None, "{wrong}");
        }
        assert_eq!(parse_core_ranges("0-1,4"), Some(vec![0, 1, 4]));
    }
}
