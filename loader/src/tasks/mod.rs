//! Tasks: the columns that each reads, the examples it makes of a row and the arrays it makes of a
//! batch. A new task is a file here, a variant of [`TaskSpec`] and an arm of
//! [`TaskSpec::preprocessor`].

mod causal_lm;
mod cpo;
mod dpo;
mod embedding;
mod first_row;
mod image_classification;
mod kto;
mod lacking;
mod left_out;
mod masked_lm;
mod question_answering;
mod reranker;
mod reward;
mod seq2seq_lm;
mod sequence_classification;
mod sft;
#[cfg(test)]
mod tests;
mod token_classification;
mod tokenized;

use std::path::Path;

use serde::Serialize;

pub use causal_lm::CausalLm;
pub use cpo::Cpo;
pub use dpo::Dpo;
pub(crate) use dpo::completion_labels;
pub use embedding::{EmbeddedSet, Embedding, EmbeddingLabel, LabelCount};
pub use first_row::KnownTokenizer;
pub use image_classification::ImageClassification;
pub(crate) use kto::Continuations;
pub use kto::Kto;
pub(crate) use lacking::{Lack, LackingRows};
pub(crate) use left_out::LeftOut;
pub use masked_lm::MaskedLm;
pub(crate) use masked_lm::{CONTINUES_WORD, SPECIAL_TOKEN, STARTS_WORD};
pub use question_answering::{Answer, QuestionAnswering};
pub(crate) use question_answering::{NOT_IN_CONTEXT, answers};
pub use reranker::{NO_PASSAGE, PassageLabels, Reranker, RerankerLabel};
pub use reward::Reward;
pub use seq2seq_lm::{DecoderStart, Seq2SeqLm, TextColumn};
pub use sequence_classification::SequenceClassification;
pub use sft::{PackingStrategy, Sft};
pub use token_classification::TokenClassification;
pub use tokenized::Tokenized;

use crate::batch::{ArraySpec, POSITIONS, Padding, ROWS, Target, TargetPadding, fixed};
use crate::error::{Error, Result};
use crate::image::ImageProcessor;
use crate::labels::{IGNORED_LABEL, LabelReader, LabelSpec, Labels, RowLabel};
use crate::source::{Row, Source};
use crate::token_row::TokenLimits;
use crate::tokenize::{Encoded, TextTokenizer};

/// The usual names of the column of a row's label: the first is the job file's, and the Trainer reads the others.
const ROW_LABELS: [&str; 3] = ["label", "labels", "label_ids"];
/// The usual names of the column of words' labels, of which `run_ner` reads `ner_tags`.
const WORD_LABELS: [&str; 3] = ["labels", "ner_tags", "tags"];

/// The names that a column of labels may have: the one that is given, or where that is a usual one, any of these.
fn label_names<'a>(given: &'a str, usual: &[&'a str]) -> Vec<&'a str> {
    let others = usual.iter().copied().filter(|_| usual.contains(&given));
    std::iter::once(given).chain(others).collect()
}

/// The first of `names` that is a column of `available`.
fn first_among<'a>(names: &[&'a str], available: &[String]) -> Option<&'a str> {
    names.iter().copied().find(|name| available.iter().any(|column| column == name))
}

/// A task with its column mapping (`data.text`, `data.label`, ...).
#[derive(Clone, Debug, Serialize)]
pub enum TaskSpec {
    /// Classes of texts or of pairs of texts.
    SequenceClassification(SequenceClassification),
    /// Classes of words.
    TokenClassification(TokenClassification),
    /// Answers as spans of a context.
    QuestionAnswering(QuestionAnswering),
    /// Words that were masked.
    MaskedLm(MaskedLm),
    /// The next token of texts.
    CausalLm(CausalLm),
    /// A target text for each source.
    Seq2SeqLm(Seq2SeqLm),
    /// The next token of conversations and of completions.
    Sft(Sft),
    /// Pairs of a preferred and a rejected answer.
    Dpo(Dpo),
    /// Pairs of texts, of which one is to have the larger reward.
    Reward(Reward),
    /// Contrastive and odds ratio preference optimization.
    Cpo(Cpo),
    /// Completions that are desirable or not.
    Kto(Kto),
    /// Embeddings of texts.
    Embedding(Embedding),
    /// Scores of passages for a query.
    Reranker(Reranker),
    /// Classes of images.
    ImageClassification(ImageClassification),
    /// Another task, whose rows are tokenized already: see [`TaskSpec::for_columns`].
    Tokenized(Tokenized),
}

impl TaskSpec {
    pub(crate) fn preprocessor(&self) -> &dyn Preprocessor {
        match self {
            Self::SequenceClassification(task) => task,
            Self::TokenClassification(task) => task,
            Self::QuestionAnswering(task) => task,
            Self::MaskedLm(task) => task,
            Self::CausalLm(task) => task,
            Self::Seq2SeqLm(task) => task,
            Self::Sft(task) => task,
            Self::Dpo(task) => task,
            Self::Reward(task) => task,
            Self::Cpo(task) => task,
            Self::Kto(task) => task,
            Self::Embedding(task) => task,
            Self::Reranker(task) => task,
            Self::ImageClassification(task) => task,
            Self::Tokenized(task) => task,
        }
    }

    /// The column of labels that files with the columns `available` have, although the task reads none of its kind.
    pub(crate) fn unread_label<'a>(&'a self, available: &[String]) -> Option<&'a str> {
        match self {
            Self::Embedding(task) => task.unread_label(available),
            _ => None,
        }
    }

    /// The task for files with the columns `available`, whose rows may be tokenized already, and whose labels may stand
    /// under another usual name.
    pub fn for_columns(&self, available: &[String]) -> Self {
        self.for_columns_within(available, TokenLimits::default())
    }

    /// The task for files with the columns `available`, whose rows have no more tokens than `limits` where they are
    /// tokenized already.
    pub(crate) fn for_columns_within(&self, available: &[String], limits: TokenLimits) -> Self {
        match self {
            Self::Embedding(task) => return Self::Embedding(task.for_columns(available)),
            Self::Reranker(task) => return Self::Reranker(task.for_columns(available)),
            Self::Reward(task) => return Self::Reward(task.for_columns(available)),
            Self::Kto(task) => return Self::Kto(task.for_columns(available)),
            _ => {}
        }
        let tokenized = Tokenized::of(self, available, limits).map(Self::Tokenized);
        tokenized.unwrap_or_else(|| self.with_usual_labels(available))
    }

    /// The task for the files of one of several sets, which may have columns of their own: `available`.
    pub(crate) fn for_columns_of_set(&self, set: usize, available: &[String]) -> Self {
        match self {
            Self::Embedding(task) => Self::Embedding(task.for_columns_of_set(set, available)),
            _ => self.clone(),
        }
    }

    /// The task for files whose values say what a row has: texts or lists of them.
    pub(crate) fn for_values(&self, source: &Source) -> Result<Self> {
        match self {
            Self::Reranker(task) => Ok(Self::Reranker(task.for_values(source)?)),
            _ => Ok(self.clone()),
        }
    }

    /// Fails where files have no column of texts to embed.
    pub(crate) fn check_texts(&self, set: usize, source: &Source) -> Result<()> {
        let texts = match self {
            Self::Embedding(task) => task.texts_of_set(set),
            Self::Reranker(task) => &task.texts,
            _ => return Ok(()),
        };
        match texts.is_empty() {
            true => Err(Error::NoTexts {
                file: source.files().next().map(Path::to_path_buf).unwrap_or_default(),
                available: source.columns().join(", "),
            }),
            false => Ok(()),
        }
    }

    /// The error about the classes of all rows, in words of losses that compare rows by them.
    pub(crate) fn about_classes(&self, error: Error) -> Error {
        match (self, error) {
            (Self::Embedding(_), Error::LabelsAreNumbers { column, found }) => {
                Error::ClassesAreNumbers { column, found }
            }
            (Self::Embedding(_), Error::OneLabel { column, label }) => {
                Error::OneClass { column, label }
            }
            (_, error) => error,
        }
    }

    /// The task with the column of labels that files have, where they lack the one that is named.
    fn with_usual_labels(&self, available: &[String]) -> Self {
        let mut task = self.clone();
        let (label, usual) = match &mut task {
            Self::SequenceClassification(task) => (task.label.as_mut(), ROW_LABELS),
            Self::ImageClassification(task) => (task.label.as_mut(), ROW_LABELS),
            Self::TokenClassification(task) => (task.labels.as_mut(), WORD_LABELS),
            _ => (None, ROW_LABELS),
        };
        if let Some(label) = label
            && let Some(found) = first_among(&label_names(&label.column, &usual), available)
        {
            label.column = found.to_owned();
        }
        task
    }

    /// The sequences that a model reads of a row, each as a row of its own, of files whose columns are known.
    pub fn sequences_per_row(&self) -> usize {
        self.preprocessor().sequences_per_row()
    }

    /// The columns the task reads, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns = self.preprocessor().columns();
        columns.extend(self.weight());
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The column of rows' weights, if they have any.
    fn weight(&self) -> Option<&str> {
        self.preprocessor().labels()?.weight.as_deref()
    }

    /// The columns that the task reads of files with the columns `available`, each once.
    pub fn columns_among(&self, available: &[String]) -> Vec<&str> {
        self.columns_of_set(0, available)
    }

    /// The columns that the task reads of the files of one of several sets.
    pub(crate) fn columns_of_set(&self, set: usize, available: &[String]) -> Vec<&str> {
        let mut columns = self.preprocessor().columns_of_set(set, available);
        columns.extend(self.weight());
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// Turns rows into examples. Pure: the same row always gives the same examples, in any thread.
pub(crate) trait Preprocessor: Sync {
    /// The columns to read.
    fn columns(&self) -> Vec<&str>;

    /// The columns to read of files that have the columns `available`.
    fn columns_among(&self, _available: &[String]) -> Vec<&str> {
        self.columns()
    }

    /// The columns to read of the files of one of several sets, whose layouts may differ.
    fn columns_of_set(&self, _set: usize, available: &[String]) -> Vec<&str> {
        self.columns_among(available)
    }

    /// Fails where the settings cannot work, whatever the rows are.
    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        let _ = tokenizer;
        Ok(())
    }

    /// The column of labels, if rows have one.
    fn labels(&self) -> Option<&LabelSpec> {
        None
    }

    /// The examples of one row: usually one.
    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>>;

    /// Returns true if [`Self::outline`] takes much less time than [`Self::encode`].
    fn has_outlines(&self) -> bool {
        false
    }

    /// The examples of one row, as [`Self::encode`] returns them but without their tokens.
    fn outline(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        self.encode(row, context)
    }

    /// The arrays that a batch consists of, by the kind of the set's labels. [`text_arrays`] are
    /// those of every text.
    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec>;

    /// The target of a row whose example has the tokens `ids` as its target.
    fn target(&self, ids: Vec<i32>, _padding: TargetPadding) -> Target {
        Target { decoder_input_ids: Vec::new(), labels: ids }
    }

    /// Tokens of a block, for tasks whose examples are put end to end and cut into blocks.
    fn block_size(&self) -> Option<u32> {
        None
    }

    /// How examples share rows, and the tokens of such a row.
    fn packing(&self) -> Option<(PackingStrategy, u32)> {
        None
    }

    /// The sequences that a model reads of a row, each as a row of its own: those of its example, or 2 where the
    /// target is one, with token labels of its own.
    fn sequences_per_row(&self) -> usize {
        1
    }

    /// How sequences are made of rows that are a prompt and a completion.
    fn continuations(&self) -> Option<Continuations> {
        None
    }

    /// The order of the examples of all rows, by the row of the files that each is of and by their labels; None where
    /// they stay as they are.
    fn order(&self, _source_rows: &[u32], _labels: &Labels) -> Option<Vec<usize>> {
        None
    }

    /// Why a row that has its texts makes no example; None where such rows need no word.
    fn why_left_out(&self, _row: &Row<'_>, _context: &SetContext<'_>) -> Result<Option<LeftOut>> {
        Ok(None)
    }

    /// Returns true if the tokens are their own targets.
    fn predicts_inputs(&self) -> bool {
        false
    }

    /// The column of images, if rows have one.
    fn image_column(&self) -> Option<&str> {
        None
    }

    /// Turns images into pixels, where rows have images.
    fn image_processor(&self) -> Option<&ImageProcessor> {
        None
    }

    /// The most rows to encode before their examples are written.
    fn rows_at_a_time(&self) -> usize {
        usize::MAX
    }
}

/// The arrays of rows of text. A slot without a row attends to its first position, so that no
/// softmax runs over nothing, and has no weight in losses and metrics.
fn text_arrays(padding: &Padding) -> Vec<ArraySpec> {
    let (token_id, token_type_id) = (padding.token_id as i32, i32::from(padding.token_type_id));
    let sizes = [ROWS, POSITIONS];
    vec![
        ArraySpec::s32("input_ids", &sizes, token_id, |row| row.input_ids.clone()),
        ArraySpec::s32("attention_mask", &sizes, 0, |row| row.attention())
            .at_first_position()
            .with_empty_slots(1),
        ArraySpec::s32("token_type_ids", &sizes, token_type_id, |row| row.segments()),
        sample_weights(),
    ]
}

/// The weight of each row in losses and metrics; empty slots weigh nothing.
fn sample_weights() -> ArraySpec {
    ArraySpec::f32("sample_weights", &[ROWS], 0.0, |row| vec![row.weight])
}

/// The labels of rows, if they have any.
fn row_labels(labels: &Labels) -> Option<ArraySpec> {
    match labels {
        Labels::Class(_) => Some(ArraySpec::s32("labels", &[ROWS], 0, |row| row.class())),
        Labels::Numbers { width: 1, .. } => {
            Some(ArraySpec::f32("labels", &[ROWS], 0.0, |row| row.numbers()))
        }
        Labels::Numbers { width, .. } => {
            Some(ArraySpec::f32("labels", &[ROWS, fixed(*width)], 0.0, |row| row.numbers()))
        }
        Labels::MultiLabel(labels) => {
            let sizes = [ROWS, fixed(labels.classes)];
            Some(ArraySpec::f32("labels", &sizes, 0.0, |row| row.numbers()))
        }
        Labels::None | Labels::Token | Labels::Span { .. } | Labels::InputIds => None,
    }
}

/// The vector with `width` numbers that another model has of each text.
pub(crate) fn text_vectors(width: usize) -> ArraySpec {
    ArraySpec::f32("guide_vectors", &[ROWS, fixed(width)], 0.0, |row| row.vector.clone())
}

/// The arrays of rows of text whose tokens have targets.
fn token_target_arrays(padding: &Padding) -> Vec<ArraySpec> {
    let mut arrays = text_arrays(padding);
    arrays.push(ArraySpec::s32("labels", &[ROWS, POSITIONS], IGNORED_LABEL, |row| row.targets()));
    arrays
}

/// The state that all rows of a data set share.
pub(crate) struct SetContext<'set> {
    pub(crate) tokenizer: &'set dyn TextTokenizer,
    pub(crate) labels: Option<LabelReader<'set>>,
}

/// One row of the tokenized set. Fields that a task does not use stay empty.
#[derive(Default)]
pub(crate) struct Example {
    pub(crate) encoded: Encoded,
    pub(crate) label: Option<RowLabel>,
    /// The tokens of each of its sequences, which stand one behind the other in `encoded`. All examples of a set have
    /// as many, and none where an example is one sequence.
    pub(crate) sequence_lengths: Vec<u32>,
    /// The weight in the loss. All examples of a set have one, or none has.
    pub(crate) weight: Option<f32>,
    /// The tokens of a text to write. All examples of a set have one, or none has.
    pub(crate) target: Option<Vec<u32>>,
    /// The part of each token in its word, for masking: see `masked_lm.rs`.
    pub(crate) masking: Vec<u8>,
    /// The range of characters of the context that each token stands for.
    pub(crate) context_offsets: Vec<[u32; 2]>,
    /// A 1 for the first token of each text that shares the row, else a 0.
    pub(crate) text_starts: Vec<u8>,
    /// A 1 for each token that no token attends to, else a 0; empty where tokens attend to all.
    pub(crate) unattended: Vec<u8>,
    /// The encoded image. All examples of a set have one, or none has.
    pub(crate) image: Option<Vec<u8>>,
}
