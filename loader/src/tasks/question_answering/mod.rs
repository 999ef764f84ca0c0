//! Answers that are spans of a context, as `run_qa` prepares them: a long context is cut into
//! overlapping windows, each an example with the question before it. Targets are the first and
//! last token of the answer; a window without the answer points at its classification token.
//!
//! One case is unlike `run_qa`: where the answer begins with the last context token of a window,
//! the script steps past the special token behind it and trains on a start after the end. Here
//! the start is that last token.

pub(crate) mod answers;

use serde::Serialize;

pub use answers::Answer;

use super::{Example, Preprocessor, SetContext, text_arrays};
use crate::batch::{ArraySpec, Padding, ROWS, RowData, fixed};
use crate::error::{Error, Result};
use crate::labels::{Labels, RowLabel};
use crate::source::Row;
use crate::tokenize::{SpannedEncoding, TextTokenizer, TokenSpan, WindowOptions};

/// The offsets of a token outside the context.
pub(crate) const NOT_IN_CONTEXT: [u32; 2] = [u32::MAX; 2];

/// The columns of a question answering job. Without answers rows can only be predicted on.
#[derive(Clone, Debug, Serialize)]
pub struct QuestionAnswering {
    /// The column of question ids in the predictions; None numbers the questions.
    pub id: Option<String>,
    /// The column of questions.
    pub question: String,
    /// The column of the texts that answer them.
    pub context: String,
    /// The column of answers; None for rows to predict.
    pub answers: Option<String>,
    /// Tokens that two windows of one context share.
    pub doc_stride: u32,
    /// Keeps the offsets of each token in the context, to turn positions back into text.
    pub keep_offsets: bool,
}

impl Preprocessor for QuestionAnswering {
    fn columns(&self) -> Vec<&str> {
        let needed = [Some(self.question.as_str()), Some(self.context.as_str())];
        needed.into_iter().chain([self.answers.as_deref(), self.id.as_deref()]).flatten().collect()
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        match tokenizer.max_length() {
            Some(max_length) if self.doc_stride >= max_length => {
                let message = format!("{} must be below max_length {max_length}", self.doc_stride);
                Err(Error::BadOption { field: "data.doc_stride", message })
            }
            _ => Ok(()),
        }
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let tokenizer = context.tokenizer;
        let text = row.text_or_empty(&self.context)?;
        let question = row.text_or_empty(&self.question)?.trim_start();
        let answers = self.answers.as_deref().map(|column| answers::read(row, column, text));
        let answers = answers.transpose()?;
        let windows =
            WindowOptions { max_length: tokenizer.max_length(), doc_stride: self.doc_stride };
        let windows = tokenizer.encode_windows(question, text, windows);
        let windows = windows.map_err(|problem| row.tokenize_error(problem))?;
        let example = |window: SpannedEncoding| {
            let label = answers.as_ref().map(|answers| {
                let empty = empty_position(&window, tokenizer.cls_token_id());
                let found = answers.first().and_then(|answer| answer_span(&window.spans, answer));
                let (start, end) = found.unwrap_or((empty, empty));
                RowLabel::Span(start as i32, end as i32)
            });
            let context_offsets = match self.keep_offsets {
                true => window.spans.iter().map(context_offset).collect(),
                false => Vec::new(),
            };
            Example { encoded: window.encoded, label, context_offsets, ..Example::default() }
        };
        Ok(windows.into_iter().map(example).collect())
    }

    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        if let Labels::Span { .. } = labels {
            let start =
                |row: &RowData<'_>| row.answer().map(|(start, _)| start).into_iter().collect();
            let end = |row: &RowData<'_>| row.answer().map(|(_, end)| end).into_iter().collect();
            arrays.push(ArraySpec::s32("start_positions", &[ROWS], 0, start));
            arrays.push(ArraySpec::s32("end_positions", &[ROWS], 0, end));
            // A slot without a row has a position too: no softmax may run over nothing.
            let padded_length =
                ArraySpec::s32("padded_length", &[ROWS], 1, |row| vec![row.padded_length as i32]);
            arrays.push(padded_length);
            let weights = |row: &RowData<'_>| row.answer_weights.to_vec();
            arrays.push(ArraySpec::f32("answer_weights", &[ROWS, fixed(2)], 0.0, weights));
        }
        arrays
    }
}

/// The token that "no answer" points at.
fn empty_position(window: &SpannedEncoding, cls_token_id: Option<u32>) -> usize {
    let token = window.encoded.input_ids.iter().position(|id| Some(*id) == cls_token_id);
    token.unwrap_or(0)
}

fn is_context(token: &TokenSpan) -> bool {
    token.sequence == Some(1)
}

fn context_offset(token: &TokenSpan) -> [u32; 2] {
    if is_context(token) { [token.start, token.end] } else { NOT_IN_CONTEXT }
}

/// The first and last token of an answer that lies in the window from end to end.
fn answer_span(tokens: &[TokenSpan], answer: &Answer) -> Option<(usize, usize)> {
    let (start, end) = (answer.start, answer.start + answer.text.chars().count() as u32);
    let first = tokens.iter().position(is_context)?;
    let last = tokens.iter().rposition(is_context)?;
    if tokens[first].start > start || tokens[last].end < end {
        return None;
    }
    let context = &tokens[first..=last];
    let begin = context.partition_point(|token| token.start <= start).checked_sub(1)?;
    let finish = context.partition_point(|token| token.end < end);
    Some((first + begin, first + finish))
}
