//! What a row means to a task: which columns it needs, and how they become examples. A new task
//! is a file here and a line in [`TaskSpec`] and in [`TaskSpec::task`].

mod causal_lm;
mod masked_lm;
mod question_answering;
mod row;
mod sequence_classification;
#[cfg(test)]
mod tests;
mod token_classification;

use serde::Serialize;

pub use causal_lm::CausalLm;
pub use masked_lm::MaskedLm;
pub(crate) use masked_lm::{CONTINUES_WORD, SPECIAL_TOKEN, STARTS_WORD};
pub use question_answering::{Answer, QuestionAnswering};
pub(crate) use question_answering::{NOT_IN_CONTEXT, answers};
pub(crate) use row::Row;
pub use sequence_classification::SequenceClassification;
pub use token_classification::TokenClassification;

use crate::labels::{LabelReader, RowLabel};
use crate::{Encoded, LabelSpec, Result, TextTokenizer};

/// A task with its column mapping (`data.text`, `data.label`, ...).
#[derive(Clone, Debug, Serialize)]
pub enum TaskSpec {
    SequenceClassification(SequenceClassification),
    TokenClassification(TokenClassification),
    QuestionAnswering(QuestionAnswering),
    MaskedLm(MaskedLm),
    CausalLm(CausalLm),
}

impl TaskSpec {
    pub(crate) fn preprocessor(&self) -> &dyn Preprocessor {
        match self {
            Self::SequenceClassification(task) => task,
            Self::TokenClassification(task) => task,
            Self::QuestionAnswering(task) => task,
            Self::MaskedLm(task) => task,
            Self::CausalLm(task) => task,
        }
    }

    /// The columns the task reads, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns = self.preprocessor().columns();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// Turns rows into examples. Pure: the same row always gives the same examples, in any thread.
pub(crate) trait Preprocessor: Sync {
    /// The columns to read.
    fn columns(&self) -> Vec<&str>;

    /// Fails where the settings cannot work, whatever the rows are.
    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        let _ = tokenizer;
        Ok(())
    }

    /// Where the labels lie, if rows have any in a column of their own.
    fn labels(&self) -> Option<&LabelSpec> {
        None
    }

    /// The examples of one row: usually one.
    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>>;

    /// Tokens of a block, for tasks whose examples are put end to end and cut into blocks.
    fn block_size(&self) -> Option<u32> {
        None
    }

    /// Whether the targets are the tokens themselves.
    fn predicts_inputs(&self) -> bool {
        false
    }
}

/// What all rows of a data set share.
pub(crate) struct SetContext<'set> {
    pub(crate) tokenizer: &'set dyn TextTokenizer,
    pub(crate) labels: Option<LabelReader<'set>>,
}

/// One row of the tokenized set. What a task has no use for stays empty.
#[derive(Default)]
pub(crate) struct Example {
    pub(crate) encoded: Encoded,
    pub(crate) label: Option<RowLabel>,
    /// A token's part in its word and so in masking, one a token: see `masked_lm.rs`.
    pub(crate) masking: Vec<u8>,
    /// The characters of the context that a token stands for, one pair a token.
    pub(crate) context_offsets: Vec<[u32; 2]>,
}
