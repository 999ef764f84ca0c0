//! Tokenizes some rows of a set whose other rows have no tokens yet.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::TokenizedSet;
use super::tokens::TokensWriter;
use crate::error::Result;
use crate::source::{Part, Records, Row, Source};
use crate::tasks::{Example, SetContext};
use crate::tokenize::TextTokenizer;

/// `outlines`, a set of rows without tokens, with the tokens of `rows`, in array files in `folder`.
pub(super) fn with_tokens(
    mut outlines: TokenizedSet,
    source: &Source,
    rows: &[u32],
    tokenizer: &dyn TextTokenizer,
    folder: &Path,
) -> Result<TokenizedSet> {
    let mut chosen: Vec<usize> = rows.iter().map(|&row| row as usize).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let records = read(&outlines, source, &chosen)?;
    let preprocessor = outlines.task.preprocessor();
    // Labels are those of the outlines.
    let context = SetContext { tokenizer, labels: None };
    let encode = |(part, records): &(Part, Records)| {
        preprocessor.encode(
            &Row { source, set: 0, first_file: 0, part: *part, records, record: 0 },
            &context,
        )
    };
    let examples: Vec<Result<Vec<Example>>> = records.par_iter().map(encode).collect();
    let mut tokens = TokensWriter::create(folder)?;
    for (row, examples) in chosen.into_iter().zip(examples) {
        for example in examples? {
            outlines.rows.place(row, tokens.len(), &example);
            tokens.push(&example)?;
        }
    }
    let (tokens, _) = tokens.finish()?;
    Ok(TokenizedSet { tokens: Arc::new(tokens), ..outlines })
}

/// The rows of the files that rows of a set came from, each by itself, in data set order.
fn read(set: &TokenizedSet, source: &Source, rows: &[usize]) -> Result<Vec<(Part, Records)>> {
    let columns = set.task.columns_among(source.columns());
    let wanted: Vec<u64> = rows.iter().map(|&row| set.source_row(row) as u64).collect();
    let starts: Vec<u64> = set
        .files()
        .iter()
        .scan(0, |start, file| Some(std::mem::replace(start, *start + file.rows)))
        .collect();
    let of_part = |part: Part| {
        let start = starts[part.file];
        let end = start + set.files()[part.file].rows;
        let in_file =
            wanted.partition_point(|&row| row < start)..wanted.partition_point(|&row| row < end);
        let in_file: Vec<u64> = wanted[in_file].iter().map(|row| row - start).collect();
        let mut found = Vec::new();
        source.read_some(part, &columns, &in_file, &mut |record| {
            found.push((part, record));
            Ok(())
        })?;
        Ok(found)
    };
    let parts: Vec<Result<Vec<_>>> = source.parts().into_par_iter().map(of_part).collect();
    Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
}
