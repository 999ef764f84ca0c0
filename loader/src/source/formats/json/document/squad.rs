//! A question of a SQuAD file as a row.

use serde_json::{Value as Json, json};

use super::Fields;

/// The columns of a question, by SQuAD's own names.
pub(super) const QUESTION_COLUMNS: [&str; 5] = ["id", "title", "context", "question", "answers"];

/// A key that a question, or the object around it, lacks.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAQuestion {
    #[error("no {key:?} in a SQuAD file's question")]
    NoKey { key: &'static str },
    #[error("no list {key:?} in a SQuAD file's question")]
    NoList { key: &'static str },
}

/// Hands the questions of a paragraph to `sink`, up to the first that is none.
pub(super) fn questions<E>(
    title: &Json,
    paragraph: &Json,
    mut sink: impl FnMut(Fields) -> Result<(), E>,
) -> Result<Result<(), E>, NotAQuestion> {
    for asked in list(paragraph, "qas")? {
        if let Err(error) = sink(question(title, paragraph, asked)?) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

fn question(title: &Json, paragraph: &Json, asked: &Json) -> Result<Fields, NotAQuestion> {
    let answers = list(asked, "answers")?;
    let of_each = |key| answers.iter().map(|answer| field(answer, key)).collect::<Result<_, _>>();
    let (text, answer_start): (Vec<Json>, Vec<Json>) = (of_each("text")?, of_each("answer_start")?);
    let cells = [
        field(asked, "id")?,
        title.clone(),
        field(paragraph, "context")?,
        field(asked, "question")?,
        json!({"text": text, "answer_start": answer_start}),
    ];
    Ok(QUESTION_COLUMNS.map(str::to_owned).into_iter().zip(cells).collect())
}

fn field(object: &Json, key: &'static str) -> Result<Json, NotAQuestion> {
    object.get(key).cloned().ok_or(NotAQuestion::NoKey { key })
}

fn list<'json>(object: &'json Json, key: &'static str) -> Result<&'json Vec<Json>, NotAQuestion> {
    object.get(key).and_then(Json::as_array).ok_or(NotAQuestion::NoList { key })
}
