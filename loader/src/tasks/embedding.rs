//! Texts that a model embeds, as `SentenceTransformerTrainer` prepares them: pairs, triplets with any number of
//! negatives, or single texts, each with a label or without.
//!
//! An example has one sequence for each column of texts, in their order. Every text is tokenized by itself, behind the
//! prompt of its column.
//!
//! Where sets of rows make batches of their own, each has columns of its own. Rows of those with fewer texts have empty
//! sequences behind them, which no batch has, and a label of zeros where their loss reads none.

use serde::Serialize;

use super::{Example, Preprocessor, SetContext, first_among, label_names, row_labels, text_arrays};
use crate::batch::{ArraySpec, Padding};
use crate::error::{Error, LabelProblem, Result};
use crate::labels::{LabelKind, LabelScale, LabelSpec, Labels, RowLabel};
use crate::source::Row;
use crate::tokenize::Encoded;

/// The names of the column of labels in sentence-transformers.
const LABELS: [&str; 4] = ["label", "labels", "score", "scores"];

/// The columns of texts to embed.
#[derive(Clone, Debug, Serialize)]
pub struct Embedding {
    /// The columns of texts; none for all columns of the files but that of labels, in their order.
    pub texts: Vec<String>,
    /// The prompts of columns. A text of another column has none.
    pub prompts: Vec<(String, String)>,
    /// The label of a row, where rows can have one.
    pub label: Option<EmbeddingLabel>,
    /// The column of labels, which is no text even where none is read.
    pub label_column: String,
    /// The sets whose rows make batches of their own; none where all rows are alike.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<EmbeddedSet>,
}

/// One of several sets.
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddedSet {
    /// Its columns of texts; none for all columns of its files but that of labels, in their order.
    pub texts: Vec<String>,
    /// Whether its rows have labels.
    pub has_label: bool,
    /// The scale of these.
    pub scale: LabelScale,
}

/// The label of a row of texts.
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddingLabel {
    /// The column and the kind of its labels.
    pub spec: LabelSpec,
    /// Whether files must have the column. Without this, the label of files that lack it is none.
    pub is_required: bool,
    /// The scale of its numbers. Sets of a mixture have their own.
    pub scale: LabelScale,
    /// The count of its numbers, where that follows from the columns of texts.
    #[serde(skip)]
    pub count: LabelCount,
    /// A description of the label's numbers with the settings that their count follows from, for errors.
    #[serde(skip)]
    pub numbers: &'static str,
}

/// The numbers of a label, where its kind is one of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelCount {
    /// The number that the label's kind has.
    #[default]
    OfKind,
    /// One for each text but the first two, and at least one: the margins of negatives.
    OfNegatives,
}

impl Embedding {
    /// The same task for files with the columns `available`: with the columns of texts and of labels that it takes.
    pub(super) fn for_columns(&self, available: &[String]) -> Self {
        let (texts, column) = texts_and_label(&self.texts, &self.label_column, available);
        let label = self.label.as_ref().and_then(|label| label.read_from(column));
        let label = label.map(|label| label.beside(texts.len()));
        Self { texts, label, ..self.clone() }
    }

    /// The task with the columns of texts of one of several sets. The first one with labels names their column.
    pub(super) fn for_columns_of_set(&self, set: usize, available: &[String]) -> Self {
        let mut task = self.clone();
        let Some(own) = task.sets.get_mut(set) else { return task };
        let (texts, column) = texts_and_label(&own.texts, &self.label_column, available);
        own.texts = texts;
        if own.has_label && !self.sets[..set].iter().any(|set| set.has_label) {
            let label = self.label.as_ref().and_then(|label| label.read_from(column));
            let texts = task.sets[set].texts.len();
            task.label = label.map(|label| label.beside(texts));
        }
        task
    }

    /// The column of labels that files with the columns `available` have, although the loss reads none.
    pub(super) fn unread_label<'a>(&'a self, available: &[String]) -> Option<&'a str> {
        let is_unread = self.label.is_none() && self.sets.is_empty();
        let (_, column) = texts_and_label(&self.texts, &self.label_column, available);
        column.filter(|column| is_unread && !self.texts.iter().any(|text| text == column))
    }

    /// Returns true where rows have a label of one number.
    pub fn has_score(&self) -> bool {
        let is_one = |label: &EmbeddingLabel| {
            matches!(label.spec.kind, LabelKind::Regression { num_labels: 1 })
        };
        self.label.as_ref().is_some_and(is_one)
    }

    /// The columns of texts of a set.
    pub(crate) fn texts_of_set(&self, set: usize) -> &[String] {
        self.sets.get(set).map_or(&self.texts, |set| &set.texts)
    }

    /// The sequences of a row, or of the longest one: at least one, also before the files are known.
    fn sequences(&self) -> usize {
        let of_sets = self.sets.iter().map(|set| set.texts.len()).max();
        of_sets.unwrap_or(self.texts.len()).max(1)
    }

    /// The column that has the labels of a set; none where it has none.
    fn label_of_set(&self, set: usize) -> Option<&str> {
        let has_label = self.sets.get(set).is_none_or(|set| set.has_label);
        self.label.as_ref().filter(|_| has_label).map(|label| label.spec.column.as_str())
    }

    fn prompt(&self, column: &str) -> &str {
        let of_column = |(name, _): &&(String, String)| name == column;
        self.prompts.iter().find(of_column).map_or("", |(_, prompt)| prompt)
    }

    /// Fails for a label that the loss does not take.
    fn check_scale(&self, row: &Row<'_>, column: &str, label: &RowLabel) -> Result<()> {
        let of_set = self.sets.get(row.set).map(|set| set.scale);
        let of_label = || self.label.as_ref().map(|label| label.scale);
        let scale = of_set.or_else(of_label).unwrap_or_default();
        let RowLabel::Numbers(numbers) = label else { return Ok(()) };
        scale.check(numbers).map_err(|problem| Error::Label {
            at: row.location(),
            column: column.to_owned(),
            problem: Box::new(problem),
        })
    }

    /// An error about a label's numbers says what they are.
    fn about_label(&self, error: Error) -> Error {
        let Some(label) = &self.label else { return error };
        match error {
            Error::Label { at, column, problem } => {
                let problem = match *problem {
                    LabelProblem::Count { found, num_labels: wanted } => {
                        LabelProblem::Numbers { found, wanted, are: label.numbers }
                    }
                    problem => problem,
                };
                Error::Label { at, column, problem: Box::new(problem) }
            }
            error => error,
        }
    }

    fn encode_text(
        &self,
        row: &Row<'_>,
        context: &SetContext<'_>,
        column: &str,
    ) -> Result<Encoded> {
        let (prompt, text) = (self.prompt(column), row.text_or_empty(column)?);
        let encoded = match prompt {
            "" => context.tokenizer.encode(text, None),
            prompt => context.tokenizer.encode(&format!("{prompt}{text}"), None),
        };
        encoded.map_err(|problem| row.tokenize_error(problem))
    }
}

/// Whether a column has the numbers of rows that pandas writes beside the data.
fn is_index(name: &str) -> bool {
    name.is_empty() || name == "Unnamed: 0" || name.starts_with("__index_level_")
}

/// The columns of texts, all but that of labels and pandas' index unless `texts` names them, and that of labels if
/// files have one.
pub(super) fn texts_and_label<'a>(
    texts: &[String],
    label_column: &'a str,
    available: &[String],
) -> (Vec<String>, Option<&'a str>) {
    let names = label_names(label_column, &LABELS);
    let is_text = |name: &&String| !names.contains(&name.as_str()) && !is_index(name);
    let texts = match texts.is_empty() {
        true => available.iter().filter(is_text).cloned().collect(),
        false => texts.to_vec(),
    };
    (texts, first_among(&names, available))
}

impl EmbeddingLabel {
    /// The label of rows with `texts` texts.
    fn beside(mut self, texts: usize) -> Self {
        if self.count == LabelCount::OfNegatives {
            let num_labels = texts.saturating_sub(2).max(1) as u32;
            self.spec.kind = LabelKind::Regression { num_labels };
        }
        self
    }

    /// The label in the column that files have; none where they may lack it and do.
    fn read_from(&self, column: Option<&str>) -> Option<Self> {
        let column = match (column, self.is_required) {
            (Some(column), _) => column.to_owned(),
            (None, true) => self.spec.column.clone(),
            (None, false) => return None,
        };
        Some(Self { spec: LabelSpec { column, ..self.spec.clone() }, ..self.clone() })
    }
}

impl Preprocessor for Embedding {
    fn columns(&self) -> Vec<&str> {
        self.columns_of_set(0, &[])
    }

    fn columns_of_set(&self, set: usize, _available: &[String]) -> Vec<&str> {
        let texts = self.texts_of_set(set).iter().map(String::as_str);
        texts.chain(self.label_of_set(set)).collect()
    }

    fn labels(&self) -> Option<&LabelSpec> {
        self.label.as_ref().map(|label| &label.spec)
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let texts = self.texts_of_set(row.set).iter();
        let texts = texts.map(|column| self.encode_text(row, context, column));
        let mut texts = texts.collect::<Result<Vec<_>>>()?;
        texts.resize_with(self.sequences(), Encoded::default);
        let label = match (&context.labels, self.label_of_set(row.set)) {
            (Some(labels), Some(column)) => {
                let label = labels.read(row).map_err(|error| self.about_label(error))?;
                self.check_scale(row, column, &label)?;
                Some(label)
            }
            (Some(labels), None) => Some(RowLabel::Numbers(vec![0.0; labels.width()])),
            (None, _) => None,
        };
        Ok(vec![Example { label, ..joined(texts) }])
    }

    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        arrays.extend(row_labels(labels));
        arrays
    }

    fn sequences_per_row(&self) -> usize {
        self.sequences()
    }
}

/// The example of a row's texts, which stand one behind the other.
pub(super) fn joined(texts: Vec<Encoded>) -> Example {
    let sequence_lengths = match texts.len() {
        1 => Vec::new(),
        _ => texts.iter().map(|text| text.input_ids.len() as u32).collect(),
    };
    let mut encoded = Encoded::default();
    for text in texts {
        encoded.input_ids.extend(text.input_ids);
        encoded.token_type_ids.extend(text.token_type_ids);
        encoded.truncated |= text.truncated;
    }
    Example { encoded, sequence_lengths, ..Example::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{prepared, tokenizer};
    use super::*;
    use crate::batch::{ArrayValues, BatchAxis, BatchSizes};
    use crate::collate::Collator;
    use crate::dataset::{
        DatasetOptions, MixedSet, Mixing, Mixture, OpenSet, SplitRange, TokenizedSet,
    };
    use crate::labels::LabelKind;
    use crate::sampler::{BatchPlan, ScheduledBatch};
    use crate::tasks::TaskSpec;
    use crate::testing::DataFolder;
    use crate::token_row::TokenLimits;

    fn label(column: &str, is_required: bool) -> Option<EmbeddingLabel> {
        let kind = LabelKind::Regression { num_labels: 1 };
        Some(EmbeddingLabel {
            spec: LabelSpec { column: column.to_owned(), kind, weight: None, ignored: Vec::new() },
            is_required,
            scale: LabelScale::Any,
            count: LabelCount::OfKind,
            numbers: "numbers of a test",
        })
    }

    #[test]
    fn files_of_labels_have_no_texts() {
        let error = prepared(&task(&[], None), r#"{"label": 1}"#, 8).unwrap_err();
        assert_eq!(error, "a.jsonl: no column of texts; it has label, which is read as labels");
    }

    /// The loss compares rows by their classes, and no setting of classifiers helps.
    #[test]
    fn classes_of_texts_that_are_none_are_refused_in_words_of_losses() {
        let kind = LabelKind::InferNamed { names: Vec::new(), num_labels: None };
        let mut label = label("label", true).unwrap();
        label.spec.kind = kind;
        let task = task(&["a"], Some(label));
        let check = |rows: &str, expect: &str| {
            let error = prepared(&task, rows, 8).unwrap_err();
            assert!(error.contains(expect) && !error.contains("num_labels"), "{error}");
        };
        let row = |label: &str| format!(r#"{{"a": "the", "label": {label}}}"#);
        check(&[row("\"1.5\""), row("\"2\"")].join("\n"), "numbers such as 1.5");
        check(&row("\"x\""), "the one label");
    }

    fn task(texts: &[&str], label: Option<EmbeddingLabel>) -> TaskSpec {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        let prompts = vec![("b".to_owned(), "the ".to_owned())];
        let column = label.as_ref().map(|label| label.spec.column.clone());
        let label_column = column.unwrap_or("label".to_owned());
        TaskSpec::Embedding(Embedding { texts, prompts, label, label_column, sets: Vec::new() })
    }

    /// Checks the columns that a task takes of files that have `available`.
    fn check_columns(task: TaskSpec, available: &[&str], expect: &[&str]) {
        let available: Vec<String> = available.iter().map(|name| (*name).to_owned()).collect();
        let TaskSpec::Embedding(task) = task.for_columns(&available) else { panic!() };
        assert_eq!(task.columns(), expect, "{available:?}");
    }

    #[test]
    fn labels_that_no_loss_reads_are_known() {
        let available = ["a", "score", "b"].map(str::to_owned);
        let unread = |task: &TaskSpec| task.unread_label(&available).map(str::to_owned);
        assert_eq!(unread(&task(&[], None)).as_deref(), Some("score"));
        assert_eq!(unread(&task(&["a", "b"], None)).as_deref(), Some("score"));
        assert_eq!(unread(&task(&["a", "score"], None)), None);
        assert_eq!(unread(&task(&[], label("label", true))), None);
    }

    #[test]
    fn columns_are_those_of_the_files_in_their_order_unless_they_are_named() {
        let optional = || label("label", false);
        check_columns(task(&[], optional()), &["a", "b", "c"], &["a", "b", "c"]);
        check_columns(task(&[], optional()), &["b", "score", "a"], &["b", "a", "score"]);
        check_columns(task(&["a"], optional()), &["b", "label", "a"], &["a", "label"]);
        check_columns(task(&[], label("similar", false)), &["a", "similar"], &["a", "similar"]);
        check_columns(task(&[], None), &["a", "b", "label"], &["a", "b"]);
        for index in ["", "Unnamed: 0", "__index_level_0__"] {
            check_columns(task(&[], None), &[index, "a", "b"], &["a", "b"]);
            check_columns(task(&[index], None), &[index, "a"], &[index]);
        }
        // Files without a label that the loss needs are refused where they are read.
        check_columns(task(&[], label("label", true)), &["a", "b"], &["a", "b", "label"]);
        check_columns(task(&["a"], label("similar", true)), &["a", "label"], &["a", "similar"]);
    }

    /// The columns of negatives are counted as in sentence-transformers, whose columns have no names.
    #[test]
    fn margins_are_as_many_as_the_columns_of_negatives() {
        let mut margins = label("label", true).unwrap();
        margins.count = LabelCount::OfNegatives;
        let row = r#"{"q": "the", "p": "the", "n1": "the", "n2": "the", "label": [0.5, 1.0]}"#;
        let set = set(&task(&[], Some(margins.clone())), &[row]);
        assert_eq!(*set.labels(), Labels::Numbers { width: 2, values: vec![0.5, 1.0] });
        let row = r#"{"q": "the", "p": "the", "label": 0.5}"#;
        let set = self::set(&task(&[], Some(margins)), &[row]);
        assert_eq!(*set.labels(), Labels::Numbers { width: 1, values: vec![0.5] });
    }

    fn set(task: &TaskSpec, rows: &[&str]) -> Arc<TokenizedSet> {
        prepared(task, &rows.join("\n"), 512).unwrap()
    }

    const ROWS: [&str; 3] = [
        r#"{"a": "file", "b": "file", "c": "the file the", "score": 0.5}"#,
        r#"{"a": "the file", "b": "file the file", "c": "", "score": 1}"#,
        r#"{"a": "file", "b": null, "c": "file", "score": 0}"#,
    ];

    /// The settings of classifiers are none of this task's.
    #[test]
    fn labels_of_another_length_are_said_to_be_numbers_of_the_loss() {
        let mut label = label("score", true);
        label.as_mut().unwrap().spec.kind = LabelKind::Regression { num_labels: 2 };
        let row = r#"{"a": "the", "b": "file", "score": [0.5, 1, 2]}"#;
        let error = prepared(&task(&["a", "b"], label), row, 512).unwrap_err();
        let expect = r#""score": 3 numbers, where 2 are expected: numbers of a test"#;
        assert!(error.ends_with(expect), "{error}");
    }

    #[test]
    fn labels_of_pairs_are_1_or_0() {
        let mut label = label("score", true);
        label.as_mut().unwrap().scale = LabelScale::Flag;
        let error = prepared(&task(&["a", "b"], label), &ROWS.join("\n"), 512).unwrap_err();
        let expect = "0.5 does not say whether texts belong together, which is 1 or 0";
        assert!(error.contains("row 0") && error.ends_with(expect), "{error}");
    }

    #[test]
    fn each_text_is_a_sequence_behind_the_prompt_of_its_column() {
        let set = set(&task(&["a", "b", "c"], label("score", true)), &ROWS);
        assert_eq!((set.len(), set.sequences_per_row()), (2, 3));
        let sequences = set.sequences(1).unwrap();
        let lengths: Vec<usize> = sequences.iter().map(Vec::len).collect();
        assert_eq!((&lengths[..], set.positions(1)), (&[4, 6, 2][..], 6));
        // The prompt's word is the first word of the third text of the other row.
        assert_eq!(sequences[1][1], set.sequences(0).unwrap()[2][1]);
        assert_eq!(set.tokens(), 3 + 4 + 5 + 4 + 6 + 2);
        let about = set.about_rows_without_text().unwrap();
        assert!(about.starts_with("2 rows have no text, 1 of them left out"), "{about}");
        assert_eq!(set.rows_of_files(), Some(vec![Some(0), Some(1), None]));
        let (train, validation) = set.split_validation(0.5, 1).unwrap();
        let of = |set: &TokenizedSet| set.sequences(0).unwrap();
        let mut both = [of(&train), of(&validation)];
        both.sort_by_key(|row| row[0].len());
        assert_eq!(both, [set.sequences(0).unwrap(), set.sequences(1).unwrap()]);
    }

    /// Rows of two sets, of which one has two texts and a score, and the other three texts.
    #[test]
    fn sets_have_texts_of_their_own() {
        let TaskSpec::Embedding(task) = task(&[], label("label", true)) else { panic!() };
        let set = |has_label| EmbeddedSet { texts: Vec::new(), has_label, scale: LabelScale::Any };
        let task = Embedding { sets: vec![set(true), set(false)], ..task };
        let folder = DataFolder::new();
        let scored = r#"{"x": "file", "y": "the file", "score": 0.5}"#;
        let triple = r#"{"a": "the file the", "b": "file", "c": ""}"#;
        let files = [folder.write("a.jsonl", scored), folder.write("b.jsonl", triple)];
        let sets = files.map(|file| MixedSet {
            parts: vec![([file].into_iter().collect(), SplitRange::default())],
            limit: None,
            weight: None,
        });
        let mixture = Mixture { sets: sets.into(), mixing: Mixing::Concatenate, seed: 0 };
        let first = mixture.sets[0].parts[0].0.clone();
        let task = TaskSpec::Embedding(task);
        let options = DatasetOptions {
            files: first,
            task,
            token_limits: TokenLimits::default(),
            cache_dir: None,
        };
        let tokenizer = tokenizer(512);
        let open = OpenSet::open_mixture(&options, &mixture, &tokenizer).unwrap();
        let set = open.prepare(&tokenizer, &mut |_| true).unwrap().set;
        assert_eq!(set.texts_of_sets(), [&["x", "y"][..], &["a", "b", "c"]]);
        assert_eq!((set.sequences_per_row(), set.sets_of_rows()), (3, vec![0, 1]));
        let lengths =
            |row| set.sequences(row).unwrap().iter().map(Vec::len).collect::<Vec<usize>>();
        assert_eq!([lengths(0), lengths(1)], [[3, 4, 0], [5, 4, 2]]);
        assert_eq!([set.positions(0), set.positions(1)], [4, 5]);
        let Labels::Numbers { values, .. } = set.labels() else { panic!() };
        assert_eq!(values[..], [0.5, 0.0]);

        let sizes = BatchSizes::of_rows(2).with(BatchAxis::Positions, 5);
        let plan =
            BatchPlan { sizes: sizes.with(BatchAxis::Sequences, 2), rows: vec![0], cores: 1 };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let batch = Collator::new(set, Padding::behind(0)).collate(scheduled).unwrap();
        let array = |name: &str| batch.cores[0].array(name).unwrap().clone();
        assert_eq!(array("input_ids").dims, [4, 5]);
        assert_eq!(array("labels").values, ArrayValues::F32(vec![0.5, 0.5, 0.0, 0.0]));
        assert_eq!(batch.cores[0].spans, [0..3, 0..0]);
    }

    #[test]
    fn a_batch_has_a_row_for_each_text() {
        let set = set(&task(&["a", "b", "c"], label("score", true)), &ROWS);
        let sizes = BatchSizes::of_rows(2).with(BatchAxis::Positions, 8);
        let plan = BatchPlan { sizes, rows: vec![1, 0, 1], cores: 2 };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let collator = Collator::new(set, Padding::behind(0));
        let batch = collator.collate(scheduled).unwrap();
        let values = |core: usize, name: &str| batch.cores[core].array(name).unwrap().clone();
        assert_eq!(values(0, "input_ids").dims, [6, 8]);
        let scores = ArrayValues::F32(vec![1.0, 1.0, 1.0, 0.5, 0.5, 0.5]);
        assert_eq!(values(0, "labels").values, scores);
        // The second slot of the second core is empty.
        let weights = ArrayValues::F32(vec![1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(values(1, "sample_weights").values, weights);
        let ArrayValues::S32(mask) = values(0, "attention_mask").values else { panic!() };
        let lengths: Vec<i32> = mask.chunks(8).map(|row| row.iter().sum()).collect();
        assert_eq!(lengths, [4, 6, 2, 3, 4, 5]);
        assert_eq!((batch.cores[0].spans.len(), batch.tokens), (2, 12 + 12 + 12));
    }
}
