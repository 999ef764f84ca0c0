//! Counts with their nouns in messages: `1 core`, `2 cores`.
//!
//! Depends on nothing, so that every package can.

use std::fmt;

/// A count and a noun in the number that goes with it.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a, N> {
    count: N,
    noun: &'a str,
    /// The noun's plural, where it does not follow from the noun.
    plural: Option<&'a str>,
}

/// Returns `count` with its noun, which is given in the singular.
pub fn counted<N: fmt::Display>(count: N, noun: &str) -> Counted<'_, N> {
    Counted { count, noun, plural: None }
}

/// Returns the same for words whose plural does not follow from the last one, such as a noun with its verb.
pub fn counted_as<'a, N: fmt::Display>(
    count: N,
    singular: &'a str,
    plural: &'a str,
) -> Counted<'a, N> {
    Counted { count, noun: singular, plural: Some(plural) }
}

impl<N: fmt::Display> fmt::Display for Counted<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count.to_string();
        match (count.as_str(), self.plural) {
            ("1", _) => write!(f, "{count} {}", self.noun),
            (_, Some(plural)) => write!(f, "{count} {plural}"),
            (_, None) => write!(f, "{count} {}", plural_of(self.noun)),
        }
    }
}

fn plural_of(noun: &str) -> String {
    if let Some(stem) = noun.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    // The "ch" of a batch or a branch hisses, and that of an epoch does not.
    let hisses = ["s", "x", "tch", "nch", "sh"].iter().any(|end| noun.ends_with(end));
    format!("{noun}{}", if hisses { "es" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_counts() {
        let check = |counted: Counted<'_, f64>, expect| assert_eq!(counted.to_string(), expect);
        check(counted(1.0, "hour"), "1 hour");
        check(counted(1.5, "hour"), "1.5 hours");
        check(counted(0.0, "CPU core"), "0 CPU cores");
        check(counted(2.5, "epoch"), "2.5 epochs");
        check(counted(2.0, "class"), "2 classes");
        check(counted(2.0, "batch"), "2 batches");
        check(counted(2.0, "query"), "2 queries");
        check(counted(2.0, "day"), "2 days");
        check(counted_as(1.0, "row has", "rows have"), "1 row has");
        check(counted_as(3.0, "row has", "rows have"), "3 rows have");
    }
}
