//! Texts that share rows, as `pack_dataset` of TRL has them: a thousand texts at a time, as
//! `datasets.map` hands them to it.

use crate::labels::{IGNORED_LABEL, RowLabel};
use crate::tasks::{Example, PackingStrategy};
use crate::tokenize::Encoded;

const TEXTS_TOGETHER: usize = 1_000;

/// Collects examples and packs them.
pub(super) struct Packer {
    strategy: PackingStrategy,
    /// Tokens of a row.
    length: u32,
    /// Examples with the rows of the files that they come from.
    waiting: Vec<(u32, Example)>,
}

impl Packer {
    pub(super) fn new(strategy: PackingStrategy, length: u32) -> Packer {
        Packer { strategy, length, waiting: Vec::new() }
    }

    /// Takes an example. Returns packed ones once there are enough, each with the row of the files
    /// that its first text comes from.
    pub(super) fn push(&mut self, source_row: u32, example: Example) -> Vec<(u32, Example)> {
        self.waiting.push((source_row, example));
        match self.waiting.len() >= TEXTS_TOGETHER {
            true => self.take(),
            false => Vec::new(),
        }
    }

    /// Packs what is left.
    pub(super) fn take(&mut self) -> Vec<(u32, Example)> {
        let texts: Vec<Text> = std::mem::take(&mut self.waiting).into_iter().map(text).collect();
        match self.strategy {
            PackingStrategy::Bfd => {
                let lengths: Vec<u32> = texts.iter().map(|text| text.ids.len() as u32).collect();
                best_fit_decreasing(&lengths, self.length)
                    .into_iter()
                    .map(|row| joined(row.into_iter().map(|place| &texts[place])))
                    .collect()
            }
            PackingStrategy::Wrapped => wrapped(&texts, self.length as usize),
        }
    }
}

/// The tokens and targets of an example.
struct Text {
    source_row: u32,
    ids: Vec<u32>,
    targets: Vec<i32>,
}

fn text((source_row, example): (u32, Example)) -> Text {
    let targets = match example.label {
        Some(RowLabel::TokenIds(targets)) => targets,
        _ => vec![IGNORED_LABEL; example.encoded.input_ids.len()],
    };
    Text { source_row, ids: example.encoded.input_ids, targets }
}

/// A row of whole texts. The first token of each has no target, since nothing before it is seen.
fn joined<'texts>(texts: impl Iterator<Item = &'texts Text>) -> (u32, Example) {
    let (mut ids, mut targets, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = None;
    for text in texts {
        first.get_or_insert(text.source_row);
        starts.resize(ids.len(), 0);
        starts.push(1);
        ids.extend(&text.ids);
        targets.push(IGNORED_LABEL);
        targets.extend(text.targets.iter().skip(1));
    }
    starts.resize(ids.len(), 0);
    (first.unwrap_or_default(), example(ids, targets, starts))
}

/// Texts end to end, cut into rows of which the last may be shorter.
fn wrapped(texts: &[Text], length: usize) -> Vec<(u32, Example)> {
    let ids: Vec<u32> = texts.iter().flat_map(|text| text.ids.iter().copied()).collect();
    let targets: Vec<i32> = texts.iter().flat_map(|text| text.targets.iter().copied()).collect();
    let rows: Vec<u32> =
        texts.iter().flat_map(|text| text.ids.iter().map(|_| text.source_row)).collect();
    let starts = (0..ids.len()).step_by(length.max(1));
    let row = |start: usize| {
        let end = (start + length).min(ids.len());
        let cut = (ids[start..end].to_vec(), targets[start..end].to_vec());
        (rows[start], example(cut.0, cut.1, Vec::new()))
    };
    starts.map(row).collect()
}

fn example(input_ids: Vec<u32>, targets: Vec<i32>, text_starts: Vec<u8>) -> Example {
    Example {
        encoded: Encoded::of_one_text(input_ids),
        label: Some(RowLabel::TokenIds(targets)),
        text_starts,
        ..Example::default()
    }
}

/// The texts of each row, by their places: the longest first, each in the row with the least room
/// that is enough for it, the one that has had this room for the longest time. Texts without tokens
/// are in none; none is longer than `room_max`.
fn best_fit_decreasing(lengths: &[u32], room_max: u32) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).filter(|&text| lengths[text] > 0).collect();
    order.sort_by_key(|&text| std::cmp::Reverse(lengths[text]));
    let mut rows: Vec<Vec<usize>> = Vec::new();
    // The rows with each amount of room, in the order in which they came to it.
    let mut by_room: Vec<std::collections::VecDeque<usize>> =
        vec![Default::default(); room_max as usize + 1];
    for text in order {
        let length = lengths[text];
        let room = (length..room_max).find(|&room| !by_room[room as usize].is_empty());
        let row = room.and_then(|room| by_room[room as usize].pop_front());
        let row = row.unwrap_or_else(|| {
            rows.push(Vec::new());
            rows.len() - 1
        });
        rows[row].push(text);
        by_room[(room.unwrap_or(room_max) - length) as usize].push_back(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the documentation of TRL's `pack_dataset`.
    #[test]
    fn texts_fill_the_fullest_row_that_has_room() {
        assert_eq!(best_fit_decreasing(&[4, 2, 3, 1], 4), [vec![0], vec![2, 3], vec![1]]);
        assert_eq!(best_fit_decreasing(&[2, 2, 0, 2], 4), [vec![0, 1], vec![3]]);
        assert_eq!(best_fit_decreasing(&[], 4), Vec::<Vec<usize>>::new());
    }

    fn packed(strategy: PackingStrategy) -> Vec<(u32, Vec<u32>, Vec<u8>)> {
        let mut packer = Packer::new(strategy, 4);
        let texts: [&[u32]; 4] = [&[1, 2, 3, 4], &[6, 7], &[8, 9, 10], &[11]];
        for (row, ids) in (0..).zip(texts) {
            let targets = ids.iter().map(|&id| id as i32).collect();
            assert!(packer.push(row, example(ids.to_vec(), targets, Vec::new())).is_empty());
        }
        let rows = packer.take().into_iter();
        rows.map(|(row, example)| (row, example.encoded.input_ids, example.text_starts)).collect()
    }

    #[test]
    fn rows_know_where_texts_begin_unless_those_are_cut() {
        let bfd = [
            (0, vec![1, 2, 3, 4], vec![1, 0, 0, 0]),
            (2, vec![8, 9, 10, 11], vec![1, 0, 0, 1]),
            (1, vec![6, 7], vec![1, 0]),
        ];
        assert_eq!(packed(PackingStrategy::Bfd), bfd);
        let wrapped = [
            (0, vec![1, 2, 3, 4], vec![]),
            (1, vec![6, 7, 8, 9], vec![]),
            (2, vec![10, 11], vec![]),
        ];
        assert_eq!(packed(PackingStrategy::Wrapped), wrapped);
    }
}
