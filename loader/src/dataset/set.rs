//! Tokenized rows: the tokens on disk, some bytes a row in memory, whatever the number of rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use traind_wording::counted_as;

use super::array::{TextVectors, VectorSizes};
use super::rows::Rows;
use super::tokens::Tokens;
use crate::batch::{ArraySpec, Padding, Target, TargetPadding};
use crate::error::{Error, Location, Result};
use crate::image::{Augmentation, CHANNELS, decode};
use crate::labels::{LabelArrays, LabelEncoder, Labels, about_doubtful};
use crate::tasks::{LackingRows, STARTS_WORD, TaskSpec, text_vectors};

/// Tokenized rows in data set order. Reading a row reads the disk, and may fail as disks do.
#[derive(Clone, Debug)]
pub struct TokenizedSet {
    pub(super) tokens: Arc<Tokens>,
    pub(super) rows: Rows,
    pub(super) labels: Labels,
    pub(super) task: TaskSpec,
    pub(super) about: About,
    /// The vectors of its texts, where another model guides the loss.
    pub(super) vectors: Option<Arc<TextVectors>>,
}

/// The description of a set besides its arrays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) files: Vec<FileRows>,
    pub(super) label_encoder: Option<LabelEncoder>,
    pub(super) truncated_rows: u64,
    pub(super) lacking: LackingRows,
    /// Rows with nothing to train on within the longest row, which make no example.
    pub(super) too_long: CountedRows,
    /// Problems of rows that were read nevertheless, or left out, each with the number of its file.
    pub(super) warnings: Vec<(u32, String)>,
    pub(super) labels: LabelArrays,
}

/// A file and its number of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRows {
    /// The path, or the URL of an object.
    pub path: PathBuf,
    /// The number of its rows, before any were left out.
    pub rows: u64,
    /// The number of the set that the file belongs to, from 0.
    pub set: u32,
}

/// Rows that were left out for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountedRows {
    pub(super) rows: u64,
    /// The first one, by its number in all files taken together.
    pub(super) first: Option<u32>,
}

impl TokenizedSet {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no row, which [`super::prepare`] rules out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of all rows, special ones included, padding not.
    pub fn tokens(&self) -> u64 {
        self.rows.tokens()
    }

    /// The token ids of a row.
    pub fn input_ids(&self, row: usize) -> Result<Vec<u32>> {
        self.tokens.input_ids.read(self.rows.span(row))
    }

    /// The token count of every row's target; None where rows have none.
    pub fn target_lengths(&self) -> Option<&[u32]> {
        let lengths = &self.rows.target_lengths;
        (!lengths.is_empty()).then_some(lengths.as_slice())
    }

    /// The token ids of a row's target; none where rows have none.
    pub fn target_ids(&self, row: usize) -> Result<Vec<u32>> {
        self.tokens.input_ids.read(self.rows.target_span(row))
    }

    /// The decoder's inputs and the labels of a row's target; None where rows have none.
    pub(crate) fn target(&self, row: usize, padding: TargetPadding) -> Result<Option<Target>> {
        if self.target_lengths().is_none() || self.sequences_per_row() > 1 {
            return Ok(None);
        }
        let ids: Vec<i32> = self.target_ids(row)?.into_iter().map(|id| id as i32).collect();
        Ok(Some(self.task.preprocessor().target(ids, padding)))
    }

    /// The segment of each token of a row; None where every row has but one.
    pub fn token_type_ids(&self, row: usize) -> Result<Option<Vec<u8>>> {
        Tokens::read(&self.tokens.token_type_ids, self.rows.span(row))
    }

    /// The tokens of a row that words begin with, if the task recorded the words.
    pub fn first_tokens_of_words(&self, row: usize) -> Result<Vec<usize>> {
        let parts = self.masking(row)?;
        let parts = parts.iter().enumerate().filter(|(_, part)| **part == STARTS_WORD);
        Ok(parts.map(|(token, _)| token).collect())
    }

    /// Each token's part in its word and so in masking, see `tasks/masked_lm.rs`; empty if
    /// the task did not record the words.
    pub(crate) fn masking(&self, row: usize) -> Result<Vec<u8>> {
        Ok(Tokens::read(&self.tokens.masking, self.rows.span(row))?.unwrap_or_default())
    }

    /// Returns the characters of the context that each token of a window stands for, both
    /// `u32::MAX` where it is not part of the context; None where the task did not keep them.
    pub fn context_offsets(&self, row: usize) -> Result<Option<Vec<[u32; 2]>>> {
        Tokens::read(&self.tokens.context_offsets, self.rows.span(row))
    }

    /// A 1 for each token of a row that a text begins with, else a 0; None where each row is one text.
    pub(crate) fn text_starts(&self, row: usize) -> Result<Option<Vec<u8>>> {
        Tokens::read(&self.tokens.text_starts, self.rows.span(row))
    }

    /// A 1 for each token of a row that no token attends to, else a 0; None where all rows have 0 alone.
    pub fn unattended(&self, row: usize) -> Result<Option<Vec<u8>>> {
        Tokens::read(&self.tokens.unattended, self.rows.span(row))
    }

    /// The token count of every row.
    pub fn lengths(&self) -> &[u32] {
        &self.rows.lengths
    }

    /// Whether the files hold tokens in place of texts.
    pub fn is_pretokenized(&self) -> bool {
        matches!(self.task, TaskSpec::Tokenized(_))
    }

    /// Returns false where rows were tokens without a column that says where words begin.
    pub fn knows_words(&self) -> bool {
        match &self.task {
            TaskSpec::Tokenized(task) => task.knows_words(),
            _ => true,
        }
    }

    /// The sequences that a model reads of a row, each as a row of its own.
    pub fn sequences_per_row(&self) -> usize {
        self.task.preprocessor().sequences_per_row()
    }

    /// The columns of texts to embed or to score, in their order; none of other tasks.
    pub fn text_columns(&self) -> &[String] {
        match &self.task {
            TaskSpec::Embedding(task) => &task.texts,
            TaskSpec::Reranker(task) => &task.texts,
            _ => &[],
        }
    }

    /// The columns of texts of each set whose rows make batches of their own; none where rows are all alike.
    pub fn texts_of_sets(&self) -> Vec<&[String]> {
        match &self.task {
            TaskSpec::Embedding(task) => task.sets.iter().map(|set| &set.texts[..]).collect(),
            _ => Vec::new(),
        }
    }

    /// The number of the set that each row is from.
    pub fn sets_of_rows(&self) -> Vec<u32> {
        let ends = self.about.files.iter().scan(0, |end, file| {
            *end += file.rows;
            Some(*end)
        });
        let ends: Vec<u64> = ends.collect();
        let set_of = |row: usize| {
            let source_row = self.source_row(row) as u64;
            let file = ends.partition_point(|end| *end <= source_row);
            self.about.files.get(file).map_or(0, |file| file.set)
        };
        (0..self.len()).map(set_of).collect()
    }

    /// Whether rows have several sequences, which stand one behind the other.
    pub fn has_sequences(&self) -> bool {
        !self.rows.sequence_lengths.is_empty()
    }

    /// The tokens of each sequence of a row.
    pub fn sequences(&self, row: usize) -> Result<Vec<Vec<u32>>> {
        let mut ids = self.input_ids(row)?;
        let lengths = self.rows.sequences(row);
        let mut sequences = Vec::with_capacity(lengths.len().max(1));
        for &length in lengths.iter().skip(1).rev() {
            sequences.push(ids.split_off(ids.len() - length as usize));
        }
        sequences.push(ids);
        sequences.reverse();
        Ok(sequences)
    }

    /// The positions that a row takes: those of its longest sequence.
    pub fn positions(&self, row: usize) -> u32 {
        if let Some(made) = self.task.preprocessor().continuations() {
            return self.continued_positions(row, made);
        }
        if let Some(&longest) = self.rows.sequences(row).iter().max() {
            return longest;
        }
        let second = match self.sequences_per_row() {
            1 => 0,
            _ => self.target_lengths().map_or(0, |lengths| lengths[row]),
        };
        self.lengths()[row].max(second)
    }

    /// The number of values in the pixels of each row's image; `None` where rows have none.
    pub(crate) fn pixel_values(&self) -> Option<usize> {
        let processor = self.task.preprocessor().image_processor()?;
        Some(processor.size().iter().product::<usize>() * CHANNELS)
    }

    /// The pixels of a row's image, as an evaluation sees it, or as it is trained on in an epoch; none
    /// where rows have no images.
    pub(crate) fn pixels(
        &self,
        row: usize,
        augmented: Option<(Augmentation, u64)>,
    ) -> Result<Vec<u8>> {
        let processor = self.task.preprocessor().image_processor();
        let (Some(processor), Some(images)) = (processor, &self.tokens.images) else {
            return Ok(Vec::new());
        };
        let place = self.rows.span(row).start;
        let image = decode(&images.read(place)?).map_err(|problem| {
            let at = self.origin(row).unwrap_or_else(|| Location::of_row(Path::new(""), place));
            let column = self.task.preprocessor().image_column().unwrap_or_default().to_owned();
            Error::Image { at, column, path: None, problem: Box::new(problem) }
        })?;
        let pixels = match augmented {
            Some((augmentation, epoch)) => {
                processor.view(&image, augmentation, epoch, self.source_row(row) as u64)
            }
            None => processor.whole(&image),
        };
        Ok(pixels.values)
    }

    /// The targets.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The weight of a row in the loss: 1 unless the files give another.
    pub fn weight(&self, row: usize) -> f32 {
        self.rows.weight(row)
    }

    /// The targets of a row's tokens, where tokens have some of their own.
    pub fn token_labels(&self, row: usize) -> Result<Option<Vec<i32>>> {
        Tokens::read(&self.tokens.labels, self.rows.span(row))
    }

    /// The targets of the tokens of a row's target, where that is a sequence of its own.
    pub(crate) fn target_token_labels(&self, row: usize) -> Result<Option<Vec<i32>>> {
        Tokens::read(&self.tokens.labels, self.rows.target_span(row))
    }

    /// The share of the tokens of `rows` whose predictions are compared with a label: that of the token behind them.
    /// `None` where tokens have no labels.
    pub fn predicted_share(&self, rows: &[u32]) -> Result<Option<f64>> {
        let (mut tokens, mut predicted) = (0, 0);
        for &row in rows {
            let row = row as usize;
            let labels = [self.token_labels(row)?, self.target_token_labels(row)?];
            for labels in labels.iter().flatten() {
                tokens += labels.len();
                predicted += labels.iter().skip(1).filter(|label| **label >= 0).count();
            }
        }
        Ok((tokens > 0).then(|| predicted as f64 / tokens as f64))
    }

    /// The arrays that a batch of its rows consists of.
    pub(crate) fn arrays(&self, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = self.task.preprocessor().arrays(&self.labels, padding);
        arrays.extend(self.vectors.as_ref().map(|vectors| text_vectors(vectors.width())));
        arrays
    }

    /// The sizes of vectors with `width` numbers of all of its texts.
    pub fn vector_sizes(&self, width: usize) -> VectorSizes {
        VectorSizes { rows: self.len(), texts: self.sequences_per_row(), width }
    }

    /// The same set, whose batches have the vectors of its texts beside them, as `guide_vectors`. Parts have none.
    pub fn with_vectors(&self, vectors: TextVectors) -> Self {
        Self { vectors: Some(vectors.into()), ..self.clone() }
    }

    /// The vector of a text of a row, where another model guides the loss.
    pub(crate) fn text_vector(&self, row: usize, text: usize) -> Result<Vec<f32>> {
        self.vectors.as_ref().map_or(Ok(Vec::new()), |vectors| vectors.of_text(row, text))
    }

    /// The rule from raw labels to ids, for the other splits.
    pub fn label_encoder(&self) -> Option<&LabelEncoder> {
        self.about.label_encoder.as_ref()
    }

    /// The files, in order, with their row counts.
    pub fn files(&self) -> &[FileRows] {
        &self.about.files
    }

    /// The number of rows that were cut to the tokenizer's `max_length`.
    pub fn truncated_rows(&self) -> u64 {
        self.about.truncated_rows
    }

    /// Returns the row that was made of each row of the files, if there is one; None unless rows were left out because
    /// they lack a text, and for no other reason.
    pub fn rows_of_files(&self) -> Option<Vec<Option<u32>>> {
        let all: u64 = self.about.files.iter().map(|file| file.rows).sum();
        let left_out = self.about.lacking.left_out;
        if left_out == 0 || all != self.len() as u64 + left_out {
            return None;
        }
        let mut rows = vec![None; all as usize];
        for (row, source) in self.rows.source_rows.iter().enumerate() {
            rows[*source as usize] = Some(row as u32);
        }
        Some(rows)
    }

    /// The rows that lack a text in words, with the first of them; None if there are none.
    pub fn about_rows_without_text(&self) -> Option<String> {
        let LackingRows { rows, left_out, first, file } = &self.about.lacking;
        let (row, column) = first.as_ref()?;
        let mut at = origin(&self.about.files, *row as usize)?;
        if let Some(file) = file {
            at = Location::of_row(&at.file.join(file), 0);
        }
        let have = counted_as(*rows, "row has", "rows have");
        let handled = match left_out {
            0 => "read as empty texts".to_owned(),
            all if all == rows => "left out".to_owned(),
            some => format!("{some} of them left out, the others read as empty texts"),
        };
        Some(format!("{have} no text, {handled}; the first is {at}, column {column:?}"))
    }

    /// The rows that were left out since they are too long, in words, with the first of them; None if
    /// there are none.
    pub fn about_rows_too_long(&self) -> Option<String> {
        let CountedRows { rows, first } = &self.about.too_long;
        let at = origin(&self.about.files, (*first)? as usize)?;
        let have = counted_as(*rows, "row has", "rows have");
        Some(format!(
            "{have} nothing to train on within data.max_length, left out; the first is {at}"
        ))
    }

    /// Warnings about classes that may be none, each with the number of its rows.
    pub fn about_doubtful_labels(&self) -> Vec<String> {
        let Labels::Class(ids) = &self.labels else { return Vec::new() };
        about_doubtful(self.label_encoder(), |id| {
            ids.iter().filter(|label| **label as usize == id).count() as u64
        })
    }

    /// Problems of rows that were read nevertheless, or left out, each with its file.
    pub fn row_warnings(&self) -> Vec<String> {
        let warning = |(file, warning): &(u32, String)| {
            let file = self.about.files.get(*file as usize)?;
            Some(format!("{}: {warning}", file.path.display()))
        };
        self.about.warnings.iter().filter_map(warning).collect()
    }

    /// The row of all files taken together that a row of the set came from: the question of a
    /// window, the text with which a block begins.
    pub fn source_row(&self, row: usize) -> usize {
        self.rows.source_row(row) as usize
    }

    /// The file and row that a row of the set came from.
    pub fn origin(&self, row: usize) -> Option<Location> {
        (row < self.len()).then(|| origin(&self.about.files, self.source_row(row))).flatten()
    }

    /// Returns true if `first`, a set of the same rows of which only some have tokens, is equal besides.
    pub fn continues(&self, first: &Self) -> bool {
        let is_same = |(whole, first): (&u32, &u32)| *first == 0 || whole == first;
        self.rows.source_rows == first.rows.source_rows
            && self.rows.weights == first.rows.weights
            && self.labels == first.labels
            && self.about.label_encoder == first.about.label_encoder
            && self.about.files == first.about.files
            && self.rows.lengths.iter().zip(&first.rows.lengths).all(is_same)
    }

    /// Checks that the arrays fit together; the error names those that do not.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let tokens = self.tokens.input_ids.len();
        let file_rows = self.about.files.iter().map(|file| file.rows).sum();
        if !self.tokens.fit() {
            return Err("an array of tokens has another length than the tokens");
        }
        if !self.rows.fit(tokens, file_rows) {
            return Err("the rows do not fit the tokens or the files");
        }
        match self.labels.fit(self.len()) {
            true => Ok(()),
            false => Err("the number of labels is not the number of rows"),
        }
    }
}

/// The file and row of row `row` of all files taken together.
pub(super) fn origin(files: &[FileRows], row: usize) -> Option<Location> {
    origin_of(files, row).map(|(file, row)| Location::of_row(&files[file].path, row))
}

/// The number of the file and the row in it of a row of all files taken together.
pub(super) fn origin_of(files: &[FileRows], row: usize) -> Option<(usize, u64)> {
    let mut row = row as u64;
    for (number, file) in files.iter().enumerate() {
        if row < file.rows {
            return Some((number, row));
        }
        row -= file.rows;
    }
    None
}
