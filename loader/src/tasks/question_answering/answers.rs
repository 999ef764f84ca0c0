//! The answers of a question as data sets write them: `{text: [...], answer_start: [...]}`, or a
//! list of `{text, answer_start}`. Starts count characters, not bytes.

use crate::error::{AnswerProblem, Error, Result};
use crate::source::Value;
use crate::tasks::Row;

/// One right answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answer's text.
    pub text: String,
    /// Its first character in the context.
    pub start: u32,
}

/// The answers of a row, each of which is where it says it is. None means: cannot be answered.
pub(crate) fn read(row: &Row<'_>, column: &str, context: &str) -> Result<Vec<Answer>> {
    let pairs = pairs(row.cell(column));
    let answers = pairs.and_then(|pairs| {
        pairs.into_iter().map(|(text, start)| located(text, start, context)).collect()
    });
    answers.map_err(|problem| Error::Answer {
        at: row.location(),
        column: column.to_owned(),
        problem: Box::new(problem),
    })
}

fn pairs(answers: &Value) -> Result<Vec<(&str, i64)>, AnswerProblem> {
    match answers {
        Value::Null => Ok(Vec::new()),
        Value::Struct(fields) => {
            let texts = items(field(fields, "text"))?;
            let starts = items(field(fields, "answer_start"))?;
            let (text_count, start_count) = (texts.len(), starts.len());
            if text_count != start_count {
                return Err(AnswerProblem::Count { texts: text_count, starts: start_count });
            }
            texts.iter().zip(starts).map(|(text, start)| pair(text, start)).collect()
        }
        Value::List(answers) => answers.iter().map(single).collect(),
        other => Err(AnswerProblem::Shape { found: other.kind() }),
    }
}

fn single(answer: &Value) -> Result<(&str, i64), AnswerProblem> {
    match answer {
        Value::Struct(fields) => pair(field(fields, "text"), field(fields, "answer_start")),
        other => Err(AnswerProblem::Shape { found: other.kind() }),
    }
}

fn pair<'value>(text: &'value Value, start: &Value) -> Result<(&'value str, i64), AnswerProblem> {
    match (text, start) {
        (Value::Text(text), Value::Int(start)) => Ok((text, *start)),
        (Value::Text(_), other) | (other, _) => Err(AnswerProblem::Shape { found: other.kind() }),
    }
}

fn field<'fields>(fields: &'fields [(String, Value)], name: &str) -> &'fields Value {
    let found = fields.iter().find(|(field, _)| field == name);
    found.map_or(&Value::Null, |(_, value)| value)
}

fn items(value: &Value) -> Result<&[Value], AnswerProblem> {
    match value {
        Value::List(items) => Ok(items),
        other => Err(AnswerProblem::Shape { found: other.kind() }),
    }
}

fn located(text: &str, start: i64, context: &str) -> Result<Answer, AnswerProblem> {
    let behind = usize::try_from(start).ok().and_then(|start| {
        let bytes = context.char_indices().map(|(byte, _)| byte).chain([context.len()]).nth(start);
        bytes.map(|byte| &context[byte..])
    });
    match (behind, u32::try_from(start)) {
        (Some(behind), Ok(start)) if behind.starts_with(text) => {
            Ok(Answer { text: text.to_owned(), start })
        }
        _ => {
            let length = text.chars().count();
            let found = behind.unwrap_or_default().chars().take(length).collect();
            Err(AnswerProblem::NotThere { answer: text.to_owned(), start, found })
        }
    }
}
