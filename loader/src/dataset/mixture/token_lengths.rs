//! The lengths of rows that are tokenized already, as far as they are known before a run.

use super::Mixture;
use super::part::SourcePart;
use crate::source::Row;
use crate::tasks::Tokenized;
use crate::tokenize::TextTokenizer;

/// The most tokens that are read for the lengths of a split, which takes about a second.
const TOKENS_MAX: u64 = 1 << 24;

/// The tokens of the longest row of a split whose rows are tokenized already, and of the longest target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenLengths {
    /// The tokens of the longest row.
    pub row: u32,
    /// The tokens of the longest target; 0 where rows have none.
    pub target: u32,
    /// Whether there are no longer ones. All rows were read, or the first ones of many are equally long, as blocks are.
    pub are_known: bool,
}

impl TokenLengths {
    /// Reads the first rows of the files.
    pub(super) fn of(
        mixture: &Mixture,
        parts: &[SourcePart],
        task: &Tokenized,
        tokenizer: &dyn TextTokenizer,
    ) -> TokenLengths {
        Self::within(TOKENS_MAX, mixture, parts, task, tokenizer)
    }

    fn within(
        tokens_max: u64,
        mixture: &Mixture,
        parts: &[SourcePart],
        task: &Tokenized,
        tokenizer: &dyn TextTokenizer,
    ) -> TokenLengths {
        let mut seen = Seen { left: tokens_max, longest: [0; 2], shortest: [usize::MAX; 2] };
        let is_whole = parts.iter().all(|part| {
            let limit = mixture.sets[part.set].limit.filter(|_| part.range.is_whole());
            seen.read(part, limit, task, tokenizer)
        });
        let [row, target] = seen.longest;
        let are_blocks = seen.left == 0 && seen.longest == seen.shortest;
        let are_known = is_whole || are_blocks;
        let lengths = [row, target].map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        TokenLengths { row: lengths[0], target: lengths[1], are_known }
    }
}

/// The rows so far.
struct Seen {
    /// The tokens that may still be read.
    left: u64,
    longest: [usize; 2],
    shortest: [usize; 2],
}

impl Seen {
    /// Reads the rows of a part, at most the first `limit`. Returns whether it read all of them: not where there are
    /// many tokens, or a row has a fault, which is not that of its length.
    fn read(
        &mut self,
        part: &SourcePart,
        limit: Option<u64>,
        task: &Tokenized,
        tokenizer: &dyn TextTokenizer,
    ) -> bool {
        let available = part.source.columns();
        let columns = task.columns_of_lengths().into_iter();
        let columns: Vec<&str> =
            columns.filter(|column| available.iter().any(|name| name == column)).collect();
        let (mut left, mut is_whole) = (limit.unwrap_or(u64::MAX), true);
        let read = part.source.read_until(&columns, |place, records| {
            for record in 0..records.len() {
                let Some(rest) = left.checked_sub(1) else { return false };
                left = rest;
                let (source, set, first_file) = (&part.source, part.set, part.first_file);
                let row = Row { source, set, first_file, part: place, records, record };
                is_whole = self.left > 0 && self.row(&row, task, tokenizer).is_some();
                if !is_whole {
                    return false;
                }
            }
            true
        });
        is_whole && read.is_ok()
    }

    fn row(
        &mut self,
        row: &Row<'_>,
        task: &Tokenized,
        tokenizer: &dyn TextTokenizer,
    ) -> Option<()> {
        let lengths = task.lengths(row, tokenizer).ok()?;
        self.left = self.left.saturating_sub(lengths.iter().sum::<usize>() as u64);
        let seen = self.longest.iter_mut().zip(&mut self.shortest);
        for ((longest, shortest), length) in seen.zip(lengths) {
            *longest = length.max(*longest);
            *shortest = length.min(*shortest);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources::open_parts;
    use super::*;
    use crate::source::Files;
    use crate::tasks::{MaskedLm, TaskSpec};
    use crate::testing::{DataFolder, WordTokenizer};
    use crate::token_row::TokenLimits;

    #[test]
    fn rows_are_known_where_all_are_read_or_the_first_ones_are_blocks() {
        let tokenizer = WordTokenizer::reading(|word| word.parse().unwrap());
        let check = |rows: &str, limit, tokens_max, (row, are_known): (u32, bool)| {
            let folder = DataFolder::new();
            let files: Files = [folder.write("a.jsonl", rows)].into_iter().collect();
            let mut mixture = Mixture::from(files);
            mixture.sets[0].limit = limit;
            let task = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
            let (parts, task) = open_parts(&mixture, &task, TokenLimits::default()).unwrap();
            let TaskSpec::Tokenized(task) = task else { panic!("{task:?}") };
            let found = TokenLengths::within(tokens_max, &mixture, &parts, &task, &tokenizer);
            assert_eq!(found, TokenLengths { row, target: 0, are_known }, "{rows}");
        };
        let ragged = "{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1]}\n";
        check(ragged, None, 100, (3, true));
        check(ragged, None, 5, (3, false));
        check(ragged, Some(1), 100, (2, true));
        let blocks = "{\"input_ids\": [1, 2]}\n".repeat(9);
        check(&blocks, None, 5, (2, true));
        let padded = "{\"input_ids\": [1, 0, 0], \"attention_mask\": [1, 0, 0]}\n";
        check(padded, None, 5, (1, true));
        // A fault of a row is the run's to report.
        check("{\"input_ids\": [1]}\n{\"input_ids\": [1, -2]}\n", None, 5, (1, false));
    }
}
