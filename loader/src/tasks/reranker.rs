//! A query and its passages, which a model reads in pairs, as `CrossEncoderTrainer` prepares them: passages are in
//! columns, or in one column that has a list of them.
//!
//! An example has one sequence for each passage: the query and the passage. All rows of a set have as many; behind a
//! shorter list stand sequences of one token, which no loss counts.

use serde::Serialize;

use super::embedding::{joined, texts_and_label};
use super::{Example, Preprocessor, SetContext, row_labels, text_arrays};
use crate::batch::{ArraySpec, Padding};
use crate::chat::PairTemplate;
use crate::error::{Error, LabelProblem, Result};
use crate::labels::{LabelKind, LabelReader, LabelScale, LabelSpec, Labels, RowLabel};
use crate::source::{Row, Source, Value};
use crate::tokenize::{Encoded, TextTokenizer};

/// The label of a passage that a list lacks.
pub const NO_PASSAGE: f32 = -1e30;

/// The columns of a query and of its passages.
#[derive(Clone, Debug, Serialize)]
pub struct Reranker {
    /// The column of queries, and those of passages; none for all columns of the files but that of labels, in their
    /// order.
    pub texts: Vec<String>,
    /// The most passages of a row whose second column has a list of them. Where it has a text, rows are pairs.
    pub list_size: Option<usize>,
    /// The label of a row, where rows have one.
    pub label: Option<RerankerLabel>,
    /// The column of labels, which is no text even where none is read.
    pub label_column: String,
    /// The template that renders pairs; none where the tokenizer joins their texts.
    pub template: Option<PairTemplate>,
}

/// The label of a row.
#[derive(Clone, Debug, Serialize)]
pub struct RerankerLabel {
    /// The column and the kind of its labels.
    pub spec: LabelSpec,
    /// The numbers that the column has in a row.
    pub form: PassageLabels,
    /// The scale of these numbers.
    pub scale: LabelScale,
}

/// The numbers that a row has as its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PassageLabels {
    /// A class.
    Class,
    /// A number for each passage. In files without labels, the first passage has a 1 and the others a 0.
    Each,
    /// The margin of the first passage over each of the others, or a number for each, of which margins are made.
    Margins,
    /// A label for each passage, as `Each`, of columns that need not be labelled: the first of several passages is
    /// relevant.
    FirstOf(usize),
}

impl Reranker {
    /// The same task for files with the columns `available`: with the columns of texts and of labels that it takes.
    pub(super) fn for_columns(&self, available: &[String]) -> Self {
        let (texts, found) = texts_and_label(&self.texts, &self.label_column, available);
        let task = Self { texts, ..self.clone() };
        let label = task.label.as_ref().map(|label| task.label_in(label, found));
        Self { label, ..task }
    }

    /// The same task for the files of `source`, whose columns it has: without lists where the first passage is a text.
    pub(super) fn for_values(&self, source: &Source) -> Result<Self> {
        let column = self.texts.get(1).filter(|_| !self.has_columns());
        let Some(column) = column.filter(|column| source.columns().contains(column)) else {
            return Ok(self.clone());
        };
        let mut is_text = false;
        source.read_until(&[column], |_, records| {
            let mut values = (0..records.len()).map(|row| records.cell(column, row));
            let first = values.find(|value| !matches!(value, Value::Null));
            is_text = matches!(first, Some(Value::Text(_)));
            first.is_none()
        })?;
        if !is_text {
            return Ok(self.clone());
        }
        let task = Self { list_size: None, ..self.clone() };
        let label = task.label.as_ref();
        let label = label.map(|label| task.label_in(label, Some(&label.spec.column)));
        Ok(Self { label, ..task })
    }

    /// `label` in the column `found`, with as many numbers as rows have passages.
    fn label_in(&self, label: &RerankerLabel, found: Option<&str>) -> RerankerLabel {
        let passages = self.passages();
        let form = match (label.form, found) {
            (PassageLabels::Each, None) if self.has_columns() && passages > 1 => {
                PassageLabels::FirstOf(passages)
            }
            (form, _) => form,
        };
        let kind = match form {
            PassageLabels::Class => label.spec.kind.clone(),
            PassageLabels::Margins => numbers(passages.saturating_sub(1).max(1)),
            PassageLabels::Each | PassageLabels::FirstOf(_) => numbers(passages),
        };
        let column = found.unwrap_or(&label.spec.column).to_owned();
        let spec = LabelSpec { column, kind, ..label.spec.clone() };
        RerankerLabel { spec, form, scale: label.scale }
    }

    /// Whether each passage has a column.
    fn has_columns(&self) -> bool {
        self.list_size.is_none() || self.texts.len() > 2
    }

    /// The passages of a row: at least one, also before the files are known.
    fn passages(&self) -> usize {
        match self.list_size {
            Some(size) if !self.has_columns() => size,
            _ => self.texts.len().saturating_sub(1).max(1),
        }
    }

    fn query(&self) -> &str {
        self.texts.first().map_or("", String::as_str)
    }

    /// The passages of a row, at most as many as rows have.
    fn passages_of<'row>(&self, row: &Row<'row>) -> Result<Vec<&'row str>> {
        let columns = self.texts.get(1..).unwrap_or_default();
        if self.has_columns() {
            return columns.iter().map(|column| row.text_or_empty(column)).collect();
        }
        let column = columns.first().map_or("", String::as_str);
        let found = row.texts(column)?;
        if found.is_empty() || found.len() > self.passages() {
            return Err(Error::Passages {
                at: row.location(),
                column: column.to_owned(),
                found: found.len(),
                list_size: self.passages(),
            });
        }
        Ok(found)
    }

    /// The label of a row with `passages` passages.
    fn label(
        &self,
        row: &Row<'_>,
        labels: &LabelReader<'_>,
        passages: usize,
    ) -> Result<Option<RowLabel>> {
        let Some(RerankerLabel { form, scale, .. }) = &self.label else { return Ok(None) };
        let mut values = match form {
            PassageLabels::Class => return labels.read(row).map(Some),
            PassageLabels::FirstOf(count) => {
                (0..*count).map(|place| f32::from(u8::from(place == 0))).collect()
            }
            PassageLabels::Each | PassageLabels::Margins => labels.read_numbers(row)?,
        };
        let wanted = match form {
            PassageLabels::Margins => passages.saturating_sub(1),
            _ => passages,
        };
        if *form == PassageLabels::Margins && values.len() == passages {
            values = values[1..].iter().map(|value| values[0] - value).collect();
        }
        if values.len() != wanted {
            let problem = LabelProblem::PassageCount { found: values.len(), passages };
            return Err(labels.error(row.location(), problem));
        }
        scale.check(&values).map_err(|problem| labels.error(row.location(), problem))?;
        values.resize(labels.width(), NO_PASSAGE);
        Ok(Some(RowLabel::Numbers(values)))
    }
}

fn numbers(count: usize) -> LabelKind {
    LabelKind::Regression { num_labels: count as u32 }
}

impl Preprocessor for Reranker {
    fn columns(&self) -> Vec<&str> {
        let label = self.label.as_ref();
        let read = label.filter(|label| !matches!(label.form, PassageLabels::FirstOf(_)));
        let column = read.map(|label| label.spec.column.as_str());
        self.texts.iter().map(String::as_str).chain(column).collect()
    }

    fn labels(&self) -> Option<&LabelSpec> {
        self.label.as_ref().map(|label| &label.spec)
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let (query, passages) = (row.text_or_empty(self.query())?, self.passages_of(row)?);
        let columns = self.texts.get(1..).unwrap_or_default();
        let encode = |(place, passage): (usize, &&str)| match &self.template {
            Some(template) => {
                let column = columns.get(place).or(columns.first()).map_or("", String::as_str);
                template.encode(row, column, [query, passage], context.tokenizer)
            }
            None => {
                let encoded = context.tokenizer.encode(query, Some(passage));
                encoded.map_err(|problem| row.tokenize_error(problem))
            }
        };
        let mut pairs = passages.iter().enumerate().map(encode).collect::<Result<Vec<_>>>()?;
        let missing = self.passages().saturating_sub(pairs.len());
        pairs.extend((0..missing).map(|_| no_passage(context.tokenizer)));
        let label = context.labels.as_ref().map(|labels| self.label(row, labels, passages.len()));
        Ok(vec![Example { label: label.transpose()?.flatten(), ..joined(pairs) }])
    }

    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        arrays.extend(row_labels(labels));
        arrays
    }

    fn sequences_per_row(&self) -> usize {
        self.passages()
    }
}

/// The sequence in the place of a passage that a list lacks: one token, since attention to none has no value.
fn no_passage(tokenizer: &dyn TextTokenizer) -> Encoded {
    let first = tokenizer.encode("", None).ok().and_then(|it| it.input_ids.first().copied());
    Encoded::of_one_text(vec![first.unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{check_error, prepared};
    use super::*;
    use crate::batch::{ArrayValues, BatchAxis, BatchSizes};
    use crate::collate::Collator;
    use crate::dataset::TokenizedSet;
    use crate::sampler::{BatchPlan, ScheduledBatch};
    use crate::tasks::TaskSpec;

    fn task(texts: &[&str], list_size: Option<usize>, form: Option<PassageLabels>) -> TaskSpec {
        let kind = numbers(1);
        let spec =
            LabelSpec { column: "label".to_owned(), kind, weight: None, ignored: Vec::new() };
        TaskSpec::Reranker(Reranker {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            list_size,
            label: form.map(|form| RerankerLabel { spec, form, scale: LabelScale::Any }),
            label_column: "label".to_owned(),
            template: None,
        })
    }

    fn set(task: &TaskSpec, rows: &[&str]) -> Arc<TokenizedSet> {
        prepared(task, &rows.join("\n"), 32).unwrap()
    }

    fn check_labels(task: &TaskSpec, rows: &[&str], width: usize, values: &[f32]) {
        let set = set(task, rows);
        assert_eq!(*set.labels(), Labels::Numbers { width, values: values.to_vec() });
        assert_eq!(set.sequences_per_row(), task_passages(&set));
    }

    fn task_passages(set: &TokenizedSet) -> usize {
        set.sequences(0).unwrap().len()
    }

    #[test]
    fn each_passage_is_a_sequence_with_its_query() {
        let rows = [r#"{"q": "the file", "a": "file", "b": "the the the"}"#];
        let found = set(&task(&[], None, None), &rows);
        assert_eq!(
            (found.sequences_per_row(), found.text_columns()),
            (2, &["q", "a", "b"].map(str::to_owned)[..])
        );
        let sequences = found.sequences(0).unwrap();
        let lengths: Vec<usize> = sequences.iter().map(Vec::len).collect();
        assert_eq!(lengths, [3 + 3, 3 + 5]);
        assert_eq!(sequences[0][..4], sequences[1][..4]);
        let types = found.token_type_ids(0).unwrap().unwrap();
        assert_eq!(types, [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1]);
        // Batches keep the segments of each sequence.
        let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, 8);
        let plan = BatchPlan { sizes, rows: vec![0], cores: 1 };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let batch = Collator::new(found, Padding::behind(0)).collate(scheduled).unwrap();
        let array = batch.cores[0].array("token_type_ids").unwrap();
        let expect = vec![0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1];
        assert_eq!(array.values, ArrayValues::S32(expect));
    }

    #[test]
    fn shorter_lists_have_sequences_of_one_token_and_labels_that_do_not_count() {
        let lists = task(&["q", "docs"], Some(3), Some(PassageLabels::Each));
        let rows = [
            r#"{"q": "the", "docs": ["file"], "label": [0.5]}"#,
            r#"{"q": "the", "docs": ["file", "the", ""], "label": [0, 2, 1]}"#,
        ];
        check_labels(&lists, &rows, 3, &[0.5, NO_PASSAGE, NO_PASSAGE, 0.0, 2.0, 1.0]);
        let lengths = |row: usize| -> Vec<usize> {
            set(&lists, &rows).sequences(row).unwrap().iter().map(Vec::len).collect()
        };
        assert_eq!((lengths(0), lengths(1)), (vec![5, 1, 1], vec![5, 5, 4]));
        let check = |bad: &str, expect: &str| {
            check_error(&lists, rows[1], bad, &format!(" (line 2), column {expect}"));
        };
        check(
            r#"{"q": "the", "docs": ["a", "b", "c", "d"], "label": [1, 2, 3, 4]}"#,
            r#""docs": 4 passages, where 1 to 3 are expected: reranker.list_size is the most that a row may have"#,
        );
        check(
            r#"{"q": "the", "docs": ["a", "b"], "label": [1]}"#,
            r#""label": 1 label for 2 passages"#,
        );
        check(
            r#"{"q": "the", "docs": "a", "label": [1]}"#,
            r#""docs": expected a list of texts, found text"#,
        );
        check(
            r#"{"q": "the", "docs": ["a"], "label": ["x"]}"#,
            r#""label": "x" is not a number to regress on"#,
        );
    }

    /// The passages of pairs to train on beside lists to evaluate, which have a size.
    #[test]
    fn a_text_in_place_of_a_list_is_the_only_passage() {
        let lists = task(&["q", "docs"], Some(3), Some(PassageLabels::Each));
        let rows = [
            r#"{"q": "the", "docs": null, "label": 0}"#,
            r#"{"q": "the", "docs": "file", "label": 1}"#,
            r#"{"q": "the", "docs": "the", "label": 0}"#,
        ];
        // A row without a text is left out.
        check_labels(&lists, &rows, 1, &[1.0, 0.0]);
        let bad = r#"{"q": "the", "docs": ["file"], "label": 1}"#;
        check_error(
            &lists,
            rows[1],
            bad,
            " (line 2), column \"docs\": expected text, found a list",
        );
    }

    #[test]
    fn the_first_passage_is_relevant_where_no_label_says_so() {
        let columns = task(&["q", "a", "b", "c"], None, Some(PassageLabels::Each));
        let row = r#"{"q": "the", "a": "file", "b": "the", "c": "file"}"#;
        check_labels(&columns, &[row], 3, &[1.0, 0.0, 0.0]);
        let row = r#"{"q": "the", "a": "file", "b": "the", "c": "file", "scores": [1, 2, 3]}"#;
        check_labels(&columns, &[row], 3, &[1.0, 2.0, 3.0]);
    }

    #[test]
    fn margins_are_given_or_made_of_scores() {
        let margins = task(&["q", "a", "b", "c"], None, Some(PassageLabels::Margins));
        let texts = r#""q": "the", "a": "file", "b": "the", "c": "file""#;
        let row = |label: &str| format!("{{{texts}, \"label\": {label}}}");
        check_labels(&margins, &[&row("[0.5, 2]")], 2, &[0.5, 2.0]);
        check_labels(&margins, &[&row("[3, 2.5, 1]")], 2, &[0.5, 2.0]);
        check_error(
            &margins,
            &row("[1, 2]"),
            &row("1"),
            " (line 2), column \"label\": 1 label for 3 passages",
        );
        let one = task(&["q", "a", "b"], None, Some(PassageLabels::Margins));
        check_labels(&one, &[&row("0.25")], 1, &[0.25]);
    }

    /// Probabilities may be soft, in a column and in a list.
    #[test]
    fn a_label_that_is_no_probability_is_refused_with_its_row() {
        let probable = |list_size| {
            let TaskSpec::Reranker(mut task) =
                task(&["q", "a"], list_size, Some(PassageLabels::Each))
            else {
                panic!()
            };
            task.label.as_mut().unwrap().scale = LabelScale::Probability;
            TaskSpec::Reranker(task)
        };
        let row = |label: &str| format!("{{\"q\": \"the\", \"a\": \"file\", \"label\": {label}}}");
        check_labels(&probable(None), &[&row("0.25")], 1, &[0.25]);
        let expect = |found: &str| {
            let found = found.to_owned();
            format!(" (line 2), column \"label\": {}", LabelProblem::NotAProbability { found })
        };
        check_error(&probable(None), &row("1"), &row("4"), &expect("4"));
        let list = |label: &str| {
            format!("{{\"q\": \"the\", \"a\": [\"file\", \"the\"], \"label\": {label}}}")
        };
        check_labels(&probable(Some(2)), &[&list("[1, 0.5]")], 2, &[1.0, 0.5]);
        check_error(&probable(Some(2)), &list("[1, 0]"), &list("[1, -1]"), &expect("-1"));
    }

    #[test]
    fn a_pair_has_a_number_or_a_class() {
        let row = r#"{"q": "the", "a": "file", "label": 0.75}"#;
        check_labels(&task(&[], None, Some(PassageLabels::Each)), &[row], 1, &[0.75]);
        let TaskSpec::Reranker(mut classes) = task(&[], None, Some(PassageLabels::Class)) else {
            panic!()
        };
        let label = classes.label.as_mut().unwrap();
        label.spec.kind = LabelKind::Infer { num_labels: None };
        let rows = ["x", "y", "x"]
            .map(|class| format!("{{\"q\": \"the\", \"a\": \"file\", \"label\": {class:?}}}"));
        let found = set(&TaskSpec::Reranker(classes), &[&rows[0], &rows[1], &rows[2]]);
        assert_eq!(*found.labels(), Labels::Class(vec![0, 1, 0]));
    }
}
