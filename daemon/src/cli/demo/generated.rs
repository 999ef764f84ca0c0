//! Generated texts of 20 topics, for hosts without a package index.
//!
//! Each text mixes words of its topic with words of other topics and with words of none, so that a
//! model has to weigh several words. One text in twelve has another topic's label, which bounds the
//! accuracy. `scripts/lib/corpora/generated_text.py` draws from the same words.

use super::row::Row;

/// A line for each topic, with its words; the last one has the words of no topic.
const WORDS: &str = include_str!("topics.txt");

/// Returns `count` rows, always the same ones.
pub(super) fn rows(count: usize) -> Vec<Row> {
    let mut topics: Vec<(&str, Vec<&str>)> = WORDS.lines().filter_map(topic).collect();
    let fillers = topics.pop().map(|(_, words)| words).unwrap_or_default();
    let mut generator = Generator(0);
    (0..count).map(|_| row(&mut generator, &topics, &fillers)).collect()
}

fn topic(line: &str) -> Option<(&str, Vec<&str>)> {
    let (name, words) = line.split_once(": ")?;
    Some((name, words.split(' ').collect()))
}

fn row(generator: &mut Generator, topics: &[(&str, Vec<&str>)], fillers: &[&str]) -> Row {
    let (name, own) = generator.choice(topics);
    let mut words: Vec<&str> =
        (0..generator.between(1, 3)).map(|_| *generator.choice(own)).collect();
    for _ in 0..generator.between(0, 2) {
        let (_, strange) = generator.choice(topics);
        words.push(*generator.choice(strange));
    }
    words.extend((0..generator.between(2, 14)).map(|_| *generator.choice(fillers)));
    generator.shuffle(&mut words);
    let is_wrong = generator.between(1, 12) == 1;
    let label = if is_wrong { generator.choice(topics).0 } else { name };
    Row { text: words.join(" "), label: label.to_owned() }
}

/// Pseudorandom numbers by SplitMix64 (Steele, Lea and Flood, 2014).
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    fn choice<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.between(0, items.len() - 1)]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.between(0, last));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn most_labels_are_the_topic_of_a_word_and_some_are_not() {
        let rows = rows(2000);
        let words_of = |label: &str| {
            let line = WORDS.lines().find(|line| line.starts_with(&format!("{label}: "))).unwrap();
            topic(line).unwrap().1
        };
        let right = rows.iter().filter(|row| {
            let words = words_of(&row.label);
            row.text.split(' ').any(|word| words.contains(&word))
        });
        let share = right.count() as f64 / rows.len() as f64;
        assert!((0.9..0.97).contains(&share), "{share}");
        let labels: BTreeSet<&str> = rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels.len(), 20);
    }
}
