//! Texts that a row needs and lacks. Such rows are counted and reported, so that none is trained on as
//! an empty text in silence.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    Cpo, Dpo, Kto, QuestionAnswering, Reward, Seq2SeqLm, SequenceClassification, Sft, TaskSpec,
    TextColumn,
};
use crate::layouts::Layouts;
use crate::source::{Row, Value};

/// A text that a row lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack<'a> {
    /// The column, with the field of a struct behind a period.
    pub(crate) column: Cow<'a, str>,
    /// Whether the row makes no example, rather than one of an empty text.
    pub(crate) is_left_out: bool,
}

/// The rows of a set that lack a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LackingRows {
    pub(crate) rows: u64,
    pub(crate) left_out: u64,
    /// The first one, by its number in all files taken together, and the column.
    pub(crate) first: Option<(u32, String)>,
    /// Its file in a folder whose files are rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
}

impl LackingRows {
    /// Counts a row, which is `file` where each file is a row.
    pub(crate) fn add(&mut self, source_row: u32, lack: &Lack<'_>, file: Option<&Path>) {
        self.rows += 1;
        self.left_out += u64::from(lack.is_left_out);
        if self.first.is_none() {
            self.first = Some((source_row, lack.column.clone().into_owned()));
            self.file = file.map(Path::to_owned);
        }
    }
}

impl TaskSpec {
    /// The first text that a row needs and lacks.
    pub(crate) fn lack<'a>(&'a self, row: &Row<'_>) -> Option<Lack<'a>> {
        let kept = |column: &'a str| Lack { column: column.into(), is_left_out: false };
        let left_out = |column: &'a str| Lack { column: column.into(), is_left_out: true };
        match self {
            Self::SequenceClassification(task) => {
                texts_of(task).find(|column| is_empty(row, column)).map(kept)
            }
            Self::QuestionAnswering(QuestionAnswering { question, context, .. }) => {
                [question.as_str(), context].into_iter().find(|it| is_empty(row, it)).map(kept)
            }
            Self::MaskedLm(task) => is_null(row, &task.text).then(|| kept(&task.text)),
            Self::CausalLm(task) => is_null(row, &task.text).then(|| kept(&task.text)),
            Self::Seq2SeqLm(task) => {
                column_without_text(task, row).map(|column| Lack { column, is_left_out: true })
            }
            Self::Sft(task) => lack_of_sft(task, row),
            Self::Dpo(task) => column_without_answer(task, row).map(left_out),
            Self::Reward(Reward { pairs, .. }) | Self::Cpo(Cpo { pairs, .. }) => {
                column_without_answer(pairs, row).map(left_out)
            }
            Self::Kto(task) => column_without_completion(task, row).map(left_out),
            Self::Embedding(task) => lack_of_texts(task.texts_of_set(row.set), row),
            Self::Reranker(task) => lack_of_texts(&task.texts, row),
            // Rows without words, tokens or image are errors.
            Self::TokenClassification(_) | Self::Tokenized(_) | Self::ImageClassification(_) => {
                None
            }
        }
    }
}

fn is_null(row: &Row<'_>, column: &str) -> bool {
    row.find(column) == Some(&Value::Null)
}

/// Returns true for a missing value and for a conversation without a message.
fn has_no_message(row: &Row<'_>, column: &str) -> bool {
    match row.find(column) {
        Some(Value::List(messages)) => messages.is_empty(),
        found => found == Some(&Value::Null),
    }
}

/// Returns true for a missing value and for an empty text; false where files lack the column.
fn is_empty(row: &Row<'_>, column: &str) -> bool {
    match row.find(column) {
        Some(Value::Text(text)) => text.is_empty(),
        Some(value) => *value == Value::Null,
        None => false,
    }
}

fn texts_of(task: &SequenceClassification) -> impl Iterator<Item = &str> {
    [Some(task.text.as_str()), task.text_pair.as_deref()].into_iter().flatten()
}

fn column_without_text<'a>(task: &'a Seq2SeqLm, row: &Row<'_>) -> Option<Cow<'a, str>> {
    let columns = [Some(&task.source), task.target.as_ref()].into_iter().flatten();
    let mut without = columns.filter(|text| match &text.field {
        Some(_) => is_null(row, &text.column) || text.text(row).is_ok_and(str::is_empty),
        None => is_empty(row, &text.column),
    });
    without.next().map(TextColumn::name)
}

/// An empty text, unlike a missing one, ends as any other, which is its only token.
fn lack_of_sft<'a>(task: &'a Sft, row: &Row<'_>) -> Option<Lack<'a>> {
    let has = |column: &str| row.find(column).is_some();
    let needed = match &task.layouts {
        Some(layouts) => layouts.needed(row, false),
        None if has(&task.prompt) => vec![task.prompt.as_str(), &task.completion],
        None if has(&task.messages) => vec![task.messages.as_str()],
        None => vec![task.text.as_str()],
    };
    if let Some(column) = needed.into_iter().find(|column| has_no_message(row, column)) {
        return Some(Lack { column: column.into(), is_left_out: true });
    }
    let is_text = task.layouts.is_none() && !has(&task.prompt) && !has(&task.messages);
    (is_text && is_empty(row, &task.text))
        .then(|| Lack { column: task.text.as_str().into(), is_left_out: false })
}

/// A row with a text that is missing would be no pair.
fn lack_of_texts<'a>(texts: &'a [String], row: &Row<'_>) -> Option<Lack<'a>> {
    let find = |lacks: fn(&Row<'_>, &str) -> bool| {
        texts.iter().map(String::as_str).find(|column| lacks(row, column))
    };
    let lack = |is_left_out| move |column: &'a str| Lack { column: column.into(), is_left_out };
    find(is_null).map(lack(true)).or_else(|| find(is_empty).map(lack(false)))
}

/// A prompt may be missing where both answers are conversations, which then begin with it.
fn column_without_answer<'a>(task: &'a Dpo, row: &Row<'_>) -> Option<&'a str> {
    let mut needed = match &task.layouts {
        Some(layouts) => layouts.needed(row, true),
        None => vec![task.chosen.as_str(), &task.rejected],
    };
    let is_text = |column: &str| matches!(row.find(column), Some(Value::Text(_)));
    if task.layouts.is_none() && is_text(&task.chosen) && is_text(&task.rejected) {
        needed.push(&task.prompt);
    }
    if matches!(row.find(&task.prompt), Some(Value::List(messages)) if messages.is_empty()) {
        needed.push(&task.prompt);
    }
    needed.into_iter().find(|column| has_no_message(row, column))
}

fn column_without_completion<'a>(task: &'a Kto, row: &Row<'_>) -> Option<&'a str> {
    if task.is_paired {
        return column_without_answer(&task.pairs, row);
    }
    let needed = match &task.pairs.layouts {
        Some(layouts) => layouts.needed(row, false),
        None => vec![task.pairs.prompt.as_str(), &task.completion],
    };
    needed.into_iter().find(|column| has_no_message(row, column))
}

impl Layouts {
    /// The columns without which a row has nothing to train on, for fine-tuning or for pairs.
    fn needed(&self, row: &Row<'_>, for_pairs: bool) -> Vec<&str> {
        let layout = self.of_set(row.set);
        let mut needed = vec![layout.required_of(row)];
        match for_pairs {
            true => needed.extend([layout.fields.chosen.as_str(), &layout.fields.rejected]),
            false => needed.extend(layout.answer()),
        }
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::prepared;
    use super::super::{CausalLm, DecoderStart};
    use super::*;
    use crate::layouts::{Encoding, PromptFormat, PromptStyle, RowFields, RowFormat, RowLayout};

    /// Checks the number of examples that the rows make, and what is said of those without a text.
    #[track_caller]
    fn check(task: &TaskSpec, rows: &[&str], examples: usize, expect: Option<&str>) {
        let set = prepared(task, &rows.join("\n"), 512).unwrap();
        let about = set.about_rows_without_text();
        let about = about.map(|about| {
            let (before, name) = about.split_once("the first is ").unwrap();
            format!("{before}{}", name.rsplit('/').next().unwrap())
        });
        assert_eq!((set.len(), about.as_deref()), (examples, expect));
    }

    fn sft() -> Sft {
        let [messages, prompt, completion, text] =
            ["messages", "prompt", "completion", "text"].map(str::to_owned);
        Sft {
            messages,
            prompt,
            completion,
            text,
            template: None,
            eos_token: Some("[SEP]".to_owned()),
            max_length: 512,
            assistant_only_loss: false,
            completion_only_loss: None,
            packing: None,
            layouts: None,
            position_ids: false,
        }
    }

    #[test]
    fn prompts_and_texts_that_are_missing_are_left_out_and_counted() {
        let task = TaskSpec::Sft(sft());
        let rows = [
            r#"{"prompt": "the"}"#,
            r#"{"prompt": "the", "completion": "file"}"#,
            r#"{"completion": "file"}"#,
            r#"{"prompt": "", "completion": ""}"#,
        ];
        let about = "2 rows have no text, left out; a.jsonl, row 0, column \"completion\"";
        check(&task, &rows, 2, Some(about));
        let rows =
            [r#"{"text": "the"}"#, r#"{"text": null}"#, r#"{"text": ""}"#, r#"{"text": "the"}"#];
        let about = "2 rows have no text, 1 of them left out, the others read as empty texts; \
            a.jsonl, row 1, column \"text\"";
        check(&task, &rows, 3, Some(about));
        check(&task, &rows[..1], 1, None);
        let error = prepared(&task, rows[1], 512).unwrap_err();
        assert!(error.starts_with("a.jsonl: the only row was left out: it has no text"), "{error}");
    }

    #[test]
    fn rows_that_are_too_long_are_left_out_and_counted() {
        let task = TaskSpec::Sft(Sft { max_length: 3, ..sft() });
        let rows = [
            r#"{"prompt": "the file the file", "completion": "the"}"#,
            r#"{"prompt": "the", "completion": "file"}"#,
        ];
        let set = prepared(&task, &rows.join("\n"), 512).unwrap();
        let about = set.about_rows_too_long().unwrap();
        let expect =
            "1 row has nothing to train on within data.max_length, left out; the first is ";
        assert!(about.starts_with(expect) && about.ends_with("a.jsonl, row 0"), "{about}");
        assert_eq!((set.len(), set.about_rows_without_text()), (1, None));
        let error = prepared(&task, rows[0], 512).unwrap_err();
        let expect = "the only row was left out: it has nothing to train on within data.max_length";
        assert!(error.starts_with(&format!("a.jsonl: {expect}")), "{error}");
        let rows = [rows[0], r#"{"prompt": "the"}"#].join("\n");
        let error = prepared(&task, &rows, 512).unwrap_err();
        assert!(error.ends_with(r#"; 1 has no text in column "completion""#), "{error}");
    }

    #[test]
    fn answers_that_are_missing_are_left_out_and_counted() {
        let [prompt, chosen, rejected] = ["prompt", "chosen", "rejected"].map(str::to_owned);
        let eos_token = Some("[SEP]".to_owned());
        let (template, layouts, max_length) = (None, None, 512);
        let task = Dpo { prompt, chosen, rejected, template, eos_token, layouts, max_length };
        let rows = [
            r#"{"prompt": "the", "chosen": "file", "rejected": "files"}"#,
            r#"{"prompt": "the", "chosen": "file"}"#,
            r#"{"chosen": "file", "rejected": "files"}"#,
        ];
        let about = "2 rows have no text, left out; a.jsonl, row 1, column \"rejected\"";
        check(&TaskSpec::Dpo(task.clone()), &rows, 1, Some(about));
        let rows = [rows[0], r#"{"prompt": "the", "chosen": [], "rejected": "files"}"#];
        let about = "1 row has no text, left out; a.jsonl, row 1, column \"chosen\"";
        check(&TaskSpec::Dpo(task.clone()), &rows, 1, Some(about));
        let rows = [rows[0], r#"{"prompt": [], "chosen": "file", "rejected": "files"}"#];
        let about = "1 row has no text, left out; a.jsonl, row 1, column \"prompt\"";
        check(&TaskSpec::Dpo(task), &rows, 1, Some(about));
        let task = TaskSpec::Sft(sft());
        let error = prepared(&task, r#"{"messages": []}"#, 512).unwrap_err();
        assert!(error.starts_with("a.jsonl: the only row was left out: it has no text"), "{error}");
    }

    #[test]
    fn instructions_and_outputs_that_are_missing_are_left_out_and_counted() {
        let name = str::to_owned;
        let fields = RowFields {
            instruction: name("instruction"),
            input: name("input"),
            output: name("output"),
            history: name("history"),
            system: name("system"),
            messages: name("messages"),
            other_messages: None,
            text: name("text"),
            chosen: name("chosen"),
            rejected: name("rejected"),
        };
        let layout = RowLayout {
            format: RowFormat::Alpaca,
            fields,
            roles: Vec::new(),
            message_fields: Vec::new(),
            training: Vec::new(),
            drops_system: false,
        };
        let prompts = PromptFormat::of_style(PromptStyle::Instruct);
        let encoding = Encoding::Instructions { prompts, train_on_inputs: false };
        let layouts =
            Layouts { layouts: vec![layout], encoding, bos_token: None, drops_long_rows: false };
        let task = TaskSpec::Sft(Sft { layouts: Some(layouts), ..sft() });
        let rows = [
            r#"{"instruction": "the", "output": "file"}"#,
            r#"{"instruction": "the", "input": "file"}"#,
            r#"{"instruction": null, "output": "file"}"#,
        ];
        let about = "2 rows have no text, left out; a.jsonl, row 1, column \"output\"";
        check(&task, &rows, 1, Some(about));
    }

    #[test]
    fn other_tasks_count_rows_without_text() {
        let column = |name: &str| TextColumn { column: name.to_owned(), field: None };
        let task = TaskSpec::Seq2SeqLm(Seq2SeqLm {
            source: column("source"),
            target: Some(column("target")),
            source_prefix: String::new(),
            max_target_length: 8,
            ignore_pad_token_for_loss: true,
            decoder_start: DecoderStart::Token(0),
        });
        let rows = [r#"{"source": "the", "target": "file"}"#, r#"{"source": "the", "target": ""}"#];
        let about = "1 row has no text, left out; a.jsonl, row 1, column \"target\"";
        check(&task, &rows, 1, Some(about));
        let field = |language: &str| TextColumn {
            column: "translation".to_owned(),
            field: Some(language.to_owned()),
        };
        let TaskSpec::Seq2SeqLm(columns) = task else { unreachable!("made above") };
        let task = TaskSpec::Seq2SeqLm(Seq2SeqLm {
            source: field("en"),
            target: Some(field("de")),
            ..columns
        });
        let rows = [
            r#"{"translation": {"en": "the", "de": "file"}}"#,
            r#"{"translation": {"en": "the"}}"#,
            r#"{"translation": {"en": "the", "de": null}}"#,
            r#"{"translation": {"de": "file"}}"#,
            r#"{"translation": null}"#,
        ];
        let about = "4 rows have no text, left out; a.jsonl, row 1, column \"translation.de\"";
        check(&task, &rows, 1, Some(about));
        let error = prepared(&task, &rows[1..3].join("\n"), 512).unwrap_err();
        let expect = "they have no text in a column such as \"translation.de\"";
        assert!(error.ends_with(expect), "{error}");
        let task = TaskSpec::CausalLm(CausalLm { text: "text".to_owned(), block_size: 2 });
        let rows = [r#"{"text": "the file"}"#, r#"{"id": 1}"#, r#"{"text": ""}"#];
        let about = "1 row has no text, read as empty texts; a.jsonl, row 1, column \"text\"";
        let blocks = prepared(&task, &rows.join("\n"), 512).unwrap().len();
        check(&task, &rows, blocks, Some(about));
    }
}
