//! One JSON document with its rows under `data`: SQuAD's files (articles of paragraphs of
//! questions), which are flattened to a row a question as `datasets` does, or plain rows. Such a
//! file is read whole.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::DataFile;
use super::jsonl::value;
use crate::source::{Records, Value};
use crate::{Error, Location, Result};

/// What a question gives, in SQuAD's own names.
const QUESTION_COLUMNS: [&str; 5] = ["id", "title", "context", "question", "answers"];

struct NestedJson {
    columns: Vec<String>,
    rows: Vec<Map<String, Json>>,
}

/// The rows of `document`, if it is one of this kind: None says that it is another.
pub(super) fn open(path: &Path, document: Json) -> Result<Option<Box<dyn DataFile>>> {
    let Json::Object(mut document) = document else {
        return Ok(None);
    };
    let Some(Json::Array(entries)) = document.remove("data") else {
        return Ok(None);
    };
    let is_squad = entries.first().is_some_and(|entry| entry.get("paragraphs").is_some());
    let rows = match is_squad {
        true => questions(path, entries)?,
        false => entries
            .into_iter()
            .zip(0..)
            .map(|entry| plain_row(path, entry))
            .collect::<Result<_>>()?,
    };
    let columns = match (is_squad, rows.first()) {
        (_, None) => return Err(Error::NoRows { files: path.display().to_string() }),
        (true, _) => QUESTION_COLUMNS.map(str::to_owned).to_vec(),
        (false, Some(first)) => first.keys().cloned().collect(),
    };
    Ok(Some(Box::new(NestedJson { columns, rows })))
}

impl DataFile for NestedJson {
    fn columns(&self) -> Result<Vec<String>> {
        Ok(self.columns.clone())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.len() as u64)
    }

    fn read(
        &self,
        _part: usize,
        columns: &[&str],
        sink: &mut dyn FnMut(Records) -> Result<()>,
    ) -> Result<()> {
        let mut records = Records::new(0, columns);
        for (row, number) in self.rows.iter().zip(0..) {
            let cell = |column: &&str| row.get(*column).cloned().map_or(Value::Null, value);
            records.push(number, columns.iter().map(cell));
            if records.is_full() {
                sink(records.take())?;
            }
        }
        sink(records)
    }
}

fn plain_row(path: &Path, (entry, row): (Json, u64)) -> Result<Map<String, Json>> {
    match entry {
        Json::Object(fields) => Ok(fields),
        _ => Err(bad_row(path, row, "expected an object in \"data\"".to_owned())),
    }
}

fn questions(path: &Path, articles: Vec<Json>) -> Result<Vec<Map<String, Json>>> {
    let mut rows = Vec::new();
    for article in &articles {
        let paragraphs = list(article, "paragraphs");
        let paragraphs = paragraphs.map_err(|message| bad_row(path, rows.len() as u64, message))?;
        for paragraph in paragraphs {
            let asked = list(paragraph, "qas");
            for asked in asked.map_err(|message| bad_row(path, rows.len() as u64, message))? {
                let row = question(article, paragraph, asked);
                rows.push(row.map_err(|message| bad_row(path, rows.len() as u64, message))?);
            }
        }
    }
    Ok(rows)
}

fn question(article: &Json, paragraph: &Json, asked: &Json) -> Result<Map<String, Json>, String> {
    let answers = list(asked, "answers")?;
    let of_each = |key| answers.iter().map(|answer| field(answer, key)).collect::<Result<_, _>>();
    let (text, answer_start): (Vec<Json>, Vec<Json>) = (of_each("text")?, of_each("answer_start")?);
    let cells = [
        field(asked, "id")?,
        article.get("title").cloned().unwrap_or_default(),
        field(paragraph, "context")?,
        field(asked, "question")?,
        json!({"text": text, "answer_start": answer_start}),
    ];
    Ok(QUESTION_COLUMNS.map(str::to_owned).into_iter().zip(cells).collect())
}

fn field(object: &Json, key: &str) -> Result<Json, String> {
    object.get(key).cloned().ok_or_else(|| format!("no {key:?} in a SQuAD file's question"))
}

fn list<'json>(object: &'json Json, key: &str) -> Result<&'json Vec<Json>, String> {
    let items = object.get(key).and_then(Json::as_array);
    items.ok_or_else(|| format!("no list {key:?} in a SQuAD file's question"))
}

fn bad_row(path: &Path, row: u64, message: String) -> Error {
    Error::BadRow { at: Location::of_row(path, row), message }
}
