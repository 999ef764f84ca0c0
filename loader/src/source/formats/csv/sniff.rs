//! The delimiter of a file that does not say it.

use std::io::{BufRead, BufReader, Read};

use super::options::CsvOptions;
use super::tokenizer::{Record, Tokenizer};

const CANDIDATES: [u8; 4] = [b',', b';', b'\t', b'|'];
const LINES: usize = 50;
const BYTES: u64 = 1 << 18;

/// The candidate that divides most of the first records into as many fields as the first one, more than
/// one. A comma where none does.
pub(super) fn delimiter(file: impl Read, options: &CsvOptions) -> std::io::Result<u8> {
    let mut start = Vec::new();
    file.take(BYTES).read_to_end(&mut start)?;
    let score = |&delimiter: &u8| {
        let widths = widths(&start, options, delimiter);
        let first = widths.first().copied().unwrap_or(0);
        let alike = widths.iter().filter(|width| **width == first).count();
        if first > 1 { (alike, first) } else { (0, 0) }
    };
    // The first of equals is taken: `max_by_key` would take the last.
    let best = CANDIDATES.iter().rev().max_by_key(|delimiter| score(delimiter));
    Ok(best.copied().filter(|best| score(best).0 > 0).unwrap_or(b','))
}

/// The number of fields of the first records.
fn widths(start: &[u8], options: &CsvOptions, delimiter: u8) -> Vec<usize> {
    let mut input: Box<dyn BufRead + '_> = Box::new(BufReader::new(start));
    let (mut tokenizer, mut record) = (Tokenizer::new(options, delimiter), Record::default());
    let mut widths = Vec::new();
    while widths.len() < LINES && matches!(tokenizer.next(&mut input, &mut record), Ok(true)) {
        widths.push(record.len());
    }
    widths
}
