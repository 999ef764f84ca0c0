//! Entities in sentences of labelled tokens, as counted by seqeval's default mode: any IOB or IOBES
//! scheme, including sequences that violate it.

use std::collections::HashSet;

use super::Metrics;
use super::averages::{ClassCounts, plain, ratio};

/// The tokens of a sentence.
pub(crate) struct Sentence<'a> {
    pub labels: Vec<&'a str>,
    pub predictions: Vec<&'a str>,
}

/// The label of a token outside of all entities.
const OUTSIDE: Tag<'static> = Tag { mark: 'O', kind: "_" };

/// Returns `precision`, `recall` and `f1` of entities, which are right where kind, start and end are,
/// and the `accuracy` of tokens.
pub(crate) fn entities(sentences: &[Sentence<'_>]) -> Metrics {
    let mut counts = ClassCounts::default();
    let (mut right, mut tokens) = (0.0, 0.0);
    for Sentence { labels, predictions } in sentences {
        let (true_spans, found_spans) = (spans(labels), spans(predictions));
        counts.support += true_spans.len() as u64;
        counts.predicted += found_spans.len() as u64;
        counts.correct += true_spans.intersection(&found_spans).count() as u64;
        right += labels.iter().zip(predictions).filter(|(a, b)| a == b).count() as f64;
        tokens += labels.len() as f64;
    }
    let mut metrics = plain(counts);
    metrics.insert("accuracy".to_owned(), ratio(right, tokens));
    metrics
}

/// An entity in a sentence.
#[derive(PartialEq, Eq, Hash)]
struct Span<'a> {
    kind: &'a str,
    first: usize,
    last: usize,
}

/// A label such as `B-LOC`: the mark `B` and the kind `LOC`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag<'a> {
    mark: char,
    kind: &'a str,
}

impl<'a> Tag<'a> {
    fn of(label: &'a str) -> Tag<'a> {
        let mut letters = label.chars();
        let mark = letters.next().unwrap_or('O');
        let rest = letters.as_str();
        let kind = rest.split_once('-').map_or(rest, |(_, kind)| kind);
        Tag { mark, kind: if kind.is_empty() { "_" } else { kind } }
    }

    fn is_entity(self) -> bool {
        !matches!(self.mark, 'O' | '.')
    }

    /// Whether an entity that this tag is part of ends before `next`.
    fn ends_before(self, next: Tag<'_>) -> bool {
        match (self.mark, next.mark) {
            ('E' | 'S', _) | ('B' | 'I', 'B' | 'S' | 'O') => true,
            _ => self.is_entity() && self.kind != next.kind,
        }
    }

    /// Whether an entity begins with this tag, which stands behind `previous`.
    fn begins_after(self, previous: Tag<'_>) -> bool {
        match (previous.mark, self.mark) {
            (_, 'B' | 'S') | ('E' | 'S' | 'O', 'E' | 'I') => true,
            _ => self.is_entity() && self.kind != previous.kind,
        }
    }
}

/// Returns the entities of a sentence with these labels.
fn spans<'a>(labels: &[&'a str]) -> HashSet<Span<'a>> {
    let tags = labels.iter().map(|label| Tag::of(label)).chain([OUTSIDE]);
    let mut spans = HashSet::new();
    let (mut previous, mut first) = (OUTSIDE, 0);
    for (index, tag) in tags.enumerate() {
        if previous.ends_before(tag) {
            spans.insert(Span { kind: previous.kind, first, last: index - 1 });
        }
        if tag.begins_after(previous) {
            first = index;
        }
        previous = tag;
    }
    spans
}
