//! Lists of hosts as clusters write them: `n1,n2`, and Slurm's `n[01-03,7],gpu5`.

/// Whether a list has a host.
pub(crate) fn contains(list: &str, host: &str) -> bool {
    let mut depth = 0;
    let mut items = list.split(|letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    !host.is_empty() && items.any(|item| matches(item, host))
}

/// Whether an item such as `rack[1-2]-n[01-16]` stands for a host, among others.
fn matches(item: &str, host: &str) -> bool {
    let Some((prefix, rest)) = item.split_once('[') else { return item == host };
    let Some((ranges, rest)) = rest.split_once(']') else { return false };
    let Some(host) = host.strip_prefix(prefix) else { return false };
    let digits = host.bytes().take_while(u8::is_ascii_digit).count();
    (1..=digits).any(|length| {
        let (number, after) = host.split_at(length);
        ranges.split(',').any(|range| is_within(range, number)) && matches(rest, after)
    })
}

/// Whether a number is in a range such as `7` or `01-16`, with as many digits as the range's first one has.
fn is_within(range: &str, number: &str) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let parsed = [first, last, number].map(|text| text.parse::<u64>().ok());
    let [Some(from), Some(to), Some(value)] = parsed else { return false };
    let width = first.len();
    (from..=to).contains(&value) && format!("{value:0width$}") == number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_lists_of_all_forms() {
        for (list, host, expect) in [
            ("n1", "n1", true),
            ("n1,n2", "n2", true),
            ("n[1-3,7],gpu5", "n2", true),
            ("n[1-3,7],gpu5", "n7", true),
            ("n[1-3,7],gpu5", "gpu5", true),
            ("n[1-3,7],gpu5", "n5", false),
            ("n[01-16]", "n02", true),
            ("n[01-16]", "n2", false),
            ("n[8-12]", "n10", true),
            ("rack[1-2]-n[01-16]", "rack2-n16", true),
            ("rack[1-2]-n[01-16]", "rack3-n16", false),
            ("n[1-3", "n1", false),
            ("n[1-3]", "n1,n9", false),
            ("", "", false),
        ] {
            assert_eq!(contains(list, host), expect, "{host} in {list}");
        }
    }
}
