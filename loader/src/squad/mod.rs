//! From a question answering model's logits back to text, and how well it answers: what SQuAD's
//! tools and transformers' `run_qa` compute.

mod metric;
mod postprocess;

pub use metric::{Share, SquadScores, score};
pub use postprocess::{AnswerOptions, Candidate, Prediction, WindowLogits, predict};

use crate::dataset::DatasetOptions;
use crate::error::{Error, Result};
use crate::source::{Row, Source, Value};
use crate::tasks::{Answer, TaskSpec, answers};

/// A question as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The id by which predictions name the question.
    pub id: String,
    /// The text that has the answer.
    pub context: String,
    /// The answers; a question without any cannot be answered.
    pub answers: Vec<Answer>,
}

/// Reads the questions of a question answering set that are `wanted`, by the
/// [`crate::TokenizedSet::source_row`] of their windows, in data set order: all of a large set
/// would not fit into memory.
pub fn read_questions(
    options: &DatasetOptions,
    wanted: impl Fn(usize) -> bool,
) -> Result<Vec<Question>> {
    let TaskSpec::QuestionAnswering(task) = &options.task else {
        let message = "only question answering has questions".to_owned();
        return Err(Error::BadOption { field: "model.task", message });
    };
    let source = Source::open(&options.files)?;
    let columns = options.task.columns();
    source.require_columns(&columns)?;
    let mut questions: Vec<Question> = Vec::new();
    let mut source_row = 0;
    for part in source.parts() {
        source.read(part, &columns, &mut |records| {
            for record in 0..records.len() {
                let number = source_row;
                source_row += 1;
                if !wanted(number) {
                    continue;
                }
                let row =
                    Row { source: &source, set: 0, first_file: 0, part, records: &records, record };
                let context = row.text_or_empty(&task.context)?;
                let id = task.id.as_deref().map(|column| id_text(&row, column)).transpose()?;
                let column = task.answers.as_deref();
                let answers = column.map(|column| answers::read(&row, column, context));
                questions.push(Question {
                    id: id.unwrap_or_else(|| number.to_string()),
                    context: context.to_owned(),
                    answers: answers.transpose()?.unwrap_or_default(),
                });
            }
            Ok(())
        })?;
    }
    Ok(questions)
}

fn id_text(row: &Row<'_>, column: &str) -> Result<String> {
    match row.cell(column) {
        Value::Int(id) => Ok(id.to_string()),
        _ => row.text(column).map(str::to_owned),
    }
}
