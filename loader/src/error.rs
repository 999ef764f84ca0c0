//! The crate's one error type. Every variant names the file, and the row and column where known,
//! because its text is what a user reads when a job fails.

mod no_label;
mod problems;

use std::fmt;
use std::path::{Path, PathBuf};

use traind_wording::counted;

pub(crate) use no_label::remedy_of;
pub use problems::{
    AnswerProblem, ChatProblem, ImageProblem, LabelProblem, ObjectProblem, TokenizeProblem,
};

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The location of a row. Rows count from 0 as in pandas and `datasets`. Lines count from 1 as in
/// an editor; only text formats have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, or the URL of an object.
    pub file: PathBuf,
    /// The row, counted from 0.
    pub row: u64,
    /// The line on which the row starts, counted from 1, in formats that have lines.
    pub line: Option<u64>,
}

impl Location {
    /// The location of `row` in `file`, without a line number.
    pub fn of_row(file: &Path, row: u64) -> Self {
        Self { file: file.to_path_buf(), row, line: None }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, row {}", self.file.display(), self.row)?;
        match self.line {
            Some(line) => write!(out, " (line {line})"),
            None => Ok(()),
        }
    }
}

/// The advice for a first row of JSON that may be a whole table.
fn one_row(at: &Location, found: &str) -> &'static str {
    let extension = at.file.extension().unwrap_or_default();
    match at.row == 0 && found == "a list" && (extension == "json" || extension == "jsonl") {
        true => {
            "; if the file is one object of columns, write a row a line, as pandas' to_json(FILE, \
             orient=\"records\", lines=True) does"
        }
        false => "",
    }
}

/// Why data files cannot be turned into batches.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum Error {
    #[error("no data files were given")]
    NoFiles,
    #[error("{pattern}: no file matches")]
    NoMatch { pattern: String },
    #[error("{pattern}: not a valid glob: {message}")]
    BadGlob { pattern: String, message: String },
    #[error("{}: cannot {operation}: {source}", .file.display())]
    Io { file: PathBuf, operation: &'static str, source: std::io::Error },
    #[error("{}: is a folder, {remedy}", .file.display())]
    IsFolder { file: PathBuf, remedy: String },
    #[error(
        "{}: a pipe, socket or device, and data files are read more than once: write its content to a file",
        .file.display()
    )]
    NotAFile { file: PathBuf },
    #[error(
        "{}: an image that is not directly in the folder of a class, so that no image has a label: \
         move it there or elsewhere, or name images and labels in a file", .file.display()
    )]
    MisplacedImage { file: PathBuf },
    #[error(
        "{}: a text below the folder of a class, which would have no label: move it into that folder or \
         elsewhere, or name texts and labels in a file", .file.display()
    )]
    MisplacedText { file: PathBuf },
    #[error(
        "{}: its name is not UTF-8, and so no pattern, class or path in a row can name it: rename it",
        .file.display()
    )]
    NameNotUtf8 { file: PathBuf },
    #[error("{}: no split {split:?}; it has {available}", .folder.display())]
    NoSplit { folder: PathBuf, split: String, available: String },
    #[error("{}: unknown data format; known file names end in {known}", .file.display())]
    UnknownFormat { file: PathBuf, known: String },
    #[error("{}: the file is empty", .file.display())]
    EmptyFile { file: PathBuf },
    #[error("{files}: no rows")]
    NoRows { files: String },
    #[error(
        "{files}: {} left out: {why}",
        if *.rows == 1 { "the only row was".to_owned() } else { format!("all {rows} rows were") }
    )]
    NoRowsLeft { files: String, rows: u64, why: String },
    #[error("{rows} rows: at most {max} fit one data set")]
    TooManyRows { rows: u64, max: u64 },
    #[error("{}: no {}; it has {available}", .file.display(), named(.columns))]
    MissingColumns { file: PathBuf, columns: Vec<String>, available: String },
    #[error(
        "{}: no {}, which {} has: files of these formats must have the same columns; add what is missing, or leave it \
         out of all files with data.columns.drop", .file.display(), named(.columns), .other.display()
    )]
    ColumnsOfOthers { file: PathBuf, columns: Vec<String>, other: PathBuf },
    #[error("{}: no column of texts; it has {available}, which is read as labels", .file.display())]
    NoTexts { file: PathBuf, available: String },
    #[error("{}: {count} columns are named {column:?}", .file.display())]
    DuplicateColumn { file: PathBuf, column: String, count: usize },
    #[error("{at}: {found} fields where the rows before have {expected}")]
    FieldCount { at: Location, expected: usize, found: usize },
    #[error("{at}: a quoted field is never closed")]
    UnclosedQuote { at: Location },
    #[error("{at}: the row is longer than {max} bytes; is a line end or a closing quote missing?")]
    RowTooLong { at: Location, max: u64 },
    #[error(
        "{at}, column {column}: not valid UTF-8; it looks like {looks_like}, which \
         data.encoding: {looks_like} reads"
    )]
    InvalidUtf8 { at: Location, column: String, looks_like: &'static str },
    #[error(
        "{}: not valid UTF-8; it looks like {looks_like}, which data.encoding: {looks_like} reads",
        .file.display()
    )]
    Encoding { file: PathBuf, looks_like: &'static str },
    #[error("{at}: {message}")]
    BadRow { at: Location, message: String },
    #[error("{}: not a readable {format} file: {message}", .file.display())]
    BadFile { file: PathBuf, format: &'static str, message: String },
    #[error("{}: malformed: reading it broke off in {operation}: {message}", .file.display())]
    Panicked { file: PathBuf, operation: &'static str, message: String },
    #[error("{}: cannot keep the tokenized rows: {source}", .path.display())]
    Store { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Cache(#[from] traind_cache::Error),
    #[error("{url}: {problem}")]
    Object { url: String, problem: Box<ObjectProblem> },
    #[error("reading was cancelled")]
    Abandoned,
    #[error("{}: changed while it was being read", .file.display())]
    FileChanged { file: PathBuf },
    #[error("{at}, column {column:?}: no text")]
    EmptyText { at: Location, column: String },
    #[error("{at}, column {column:?}: expected text, found {found}{}", one_row(.at, .found))]
    NotText { at: Location, column: String, found: &'static str },
    #[error("{at}, column {column:?}: {found} cannot be cast to {kind}")]
    Cast { at: Location, column: String, found: String, kind: &'static str },
    #[error("{at}, column {column:?}: {problem}")]
    Label { at: Location, column: String, problem: Box<LabelProblem> },
    #[error("column {column:?} has more than {max} different labels; is it the column of labels?")]
    TooManyLabels { column: String, max: usize },
    #[error(
        "column {column:?} has the one label {label:?} in all rows; a classifier needs two, or \
         model.num_labels if these rows lack some"
    )]
    OneLabel { column: String, label: String },
    #[error(
        "column {column:?} has numbers such as {found}; to regress on them, set model.num_labels to \
         1; to use them as classes, set it to the number of classes"
    )]
    LabelsAreNumbers { column: String, found: f64 },
    #[error(
        "column {column:?} has numbers such as {found}, and this loss compares classes: name them, or number \
         them by whole numbers; a loss such as cosent takes scores"
    )]
    ClassesAreNumbers { column: String, found: f64 },
    #[error(
        "column {column:?} has the one label {label:?} in all rows, and this loss compares rows of two \
         classes or more"
    )]
    OneClass { column: String, label: String },
    #[error(
        "column {column:?} has class numbers, and {label:?} where a label is missing: leave these \
         rows out, as data.ignored_labels: [{label}] does, or name all classes in data.label_map"
    )]
    MissingLabels { column: String, label: String },
    #[error(
        "column {column:?} has names of classes such as {name:?} and numbers such as {number}; \
         either may stand for the model's classes, not both"
    )]
    NamesAndNumbers { column: String, name: String, number: String },
    #[error(
        "column {column:?} has lists such as [0, 1], which may name the classes that apply or say so \
         of each class; data.label_format says which, as classes or one_hot"
    )]
    LabelFormat { column: String },
    #[error("{at}, column {column:?}: {} for {}", counted(.labels, "label"), counted(.words, "word"))]
    LabelCount { at: Location, column: String, labels: usize, words: usize },
    #[error("{at}, column {column:?}: {problem}")]
    Answer { at: Location, column: String, problem: Box<AnswerProblem> },
    #[error("{at}, column {column:?}: expected a weight, a number of at least 0, found {found}")]
    Weight { at: Location, column: String, found: String },
    #[error("{at}, column {column:?}: expected a list of texts, found {found}")]
    NotTexts { at: Location, column: String, found: String },
    #[error(
        "{at}, column {column:?}: {found} passages, where 1 to {list_size} are expected: \
         reranker.list_size is the most that a row may have"
    )]
    Passages { at: Location, column: String, found: usize, list_size: usize },
    #[error("{field}: {message}")]
    BadOption { field: &'static str, message: String },
    #[error("{}: not a tokenizer: {message}", .file.display())]
    BadTokenizer { file: PathBuf, message: String },
    #[error("{at}: cannot tokenize: {problem}")]
    Tokenize { at: Location, problem: Box<TokenizeProblem> },
    #[error("{}: not an image processor: {message}", .file.display())]
    BadProcessor { file: PathBuf, message: String },
    #[error("{at}, column {column:?}{}: {problem}", in_file(.path.as_deref()))]
    Image { at: Location, column: String, path: Option<String>, problem: Box<ImageProblem> },
    #[error("{}: not a chat template: {message}", .file.display())]
    BadTemplate { file: PathBuf, message: String },
    #[error("{at}, column {column:?}: {problem}")]
    Chat { at: Location, column: String, problem: Box<ChatProblem> },
}

impl Error {
    /// An I/O failure of `operation` (a bare verb phrase) on `file`.
    pub(crate) fn io(
        file: &Path,
        operation: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let file = file.to_path_buf();
        move |source| Self::Io { file, operation, source }
    }

    /// A failure to write tokenized rows at `path`.
    pub(crate) fn store(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Store { path, source }
    }

    /// A data file that its format's reader refuses.
    pub(crate) fn bad_file(file: &Path, format: &'static str, message: impl fmt::Display) -> Self {
        Self::BadFile { file: file.to_path_buf(), format, message: message.to_string() }
    }

    /// A file that was to be a tokenizer.
    pub(crate) fn bad_tokenizer(file: &Path, error: impl fmt::Display) -> Self {
        Self::BadTokenizer { file: file.to_path_buf(), message: error.to_string() }
    }

    /// A file that was to have the settings of an image processor.
    pub(crate) fn bad_processor(file: &Path, problem: impl fmt::Display) -> Self {
        Self::BadProcessor { file: file.to_path_buf(), message: problem.to_string() }
    }

    /// A file that was to have a chat template.
    pub(crate) fn bad_template(file: &Path, problem: impl fmt::Display) -> Self {
        Self::BadTemplate { file: file.to_path_buf(), message: problem.to_string() }
    }

    /// Adds the columns of another error about the same file, where both are about columns that it lacks.
    pub(crate) fn add_column(&mut self, other: &Self) {
        match (self, other) {
            (Self::MissingColumns { columns, .. }, Self::MissingColumns { columns: more, .. }) => {
                columns.extend_from_slice(more);
            }
            (
                Self::ColumnsOfOthers { columns, other, .. },
                Self::ColumnsOfOthers { columns: more, other: same, .. },
            ) if other == same => columns.extend_from_slice(more),
            _ => {}
        }
    }

    /// The file the error is about, if it is about one.
    pub fn file(&self) -> Option<&Path> {
        match self.subject() {
            Subject::Row(at) => Some(&at.file),
            Subject::File(file) => Some(file),
            Subject::Job => None,
        }
    }

    /// The row the error is about, if it is about one.
    pub fn location(&self) -> Option<&Location> {
        match self.subject() {
            Subject::Row(at) => Some(at),
            Subject::File(_) | Subject::Job => None,
        }
    }

    fn subject(&self) -> Subject<'_> {
        match self {
            Self::FieldCount { at, .. }
            | Self::UnclosedQuote { at }
            | Self::RowTooLong { at, .. }
            | Self::InvalidUtf8 { at, .. }
            | Self::BadRow { at, .. }
            | Self::EmptyText { at, .. }
            | Self::NotText { at, .. }
            | Self::Cast { at, .. }
            | Self::Label { at, .. }
            | Self::LabelCount { at, .. }
            | Self::Answer { at, .. }
            | Self::NotTexts { at, .. }
            | Self::Passages { at, .. }
            | Self::Weight { at, .. }
            | Self::Chat { at, .. }
            | Self::Image { at, .. }
            | Self::Tokenize { at, .. } => Subject::Row(at),
            Self::Io { file, .. }
            | Self::NoSplit { folder: file, .. }
            | Self::IsFolder { file, .. }
            | Self::NotAFile { file }
            | Self::NameNotUtf8 { file }
            | Self::MisplacedImage { file }
            | Self::MisplacedText { file }
            | Self::UnknownFormat { file, .. }
            | Self::EmptyFile { file }
            | Self::MissingColumns { file, .. }
            | Self::NoTexts { file, .. }
            | Self::ColumnsOfOthers { file, .. }
            | Self::DuplicateColumn { file, .. }
            | Self::Encoding { file, .. }
            | Self::BadFile { file, .. }
            | Self::Panicked { file, .. }
            | Self::FileChanged { file }
            | Self::Store { path: file, .. }
            | Self::BadTemplate { file, .. }
            | Self::BadProcessor { file, .. }
            | Self::BadTokenizer { file, .. } => Subject::File(file),
            Self::Cache(error) => Subject::File(error.path()),
            Self::Object { url, .. } => Subject::File(Path::new(url)),
            Self::NoFiles
            | Self::NoMatch { .. }
            | Self::BadGlob { .. }
            | Self::NoRows { .. }
            | Self::NoRowsLeft { .. }
            | Self::TooManyRows { .. }
            | Self::Abandoned
            | Self::TooManyLabels { .. }
            | Self::OneLabel { .. }
            | Self::LabelsAreNumbers { .. }
            | Self::ClassesAreNumbers { .. }
            | Self::OneClass { .. }
            | Self::MissingLabels { .. }
            | Self::NamesAndNumbers { .. }
            | Self::LabelFormat { .. }
            | Self::BadOption { .. } => Subject::Job,
        }
    }

    /// The same error with another name for the data file.
    pub(crate) fn renamed(mut self, name: &Path) -> Self {
        if let Some(file) = self.data_file() {
            *file = name.to_path_buf();
        }
        self
    }

    /// The name of the data file, to be replaced.
    fn data_file(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::FieldCount { at: Location { file, .. }, .. }
            | Self::UnclosedQuote { at: Location { file, .. } }
            | Self::RowTooLong { at: Location { file, .. }, .. }
            | Self::InvalidUtf8 { at: Location { file, .. }, .. }
            | Self::BadRow { at: Location { file, .. }, .. }
            | Self::EmptyText { at: Location { file, .. }, .. }
            | Self::NotText { at: Location { file, .. }, .. }
            | Self::Cast { at: Location { file, .. }, .. }
            | Self::Label { at: Location { file, .. }, .. }
            | Self::LabelCount { at: Location { file, .. }, .. }
            | Self::Answer { at: Location { file, .. }, .. }
            | Self::NotTexts { at: Location { file, .. }, .. }
            | Self::Passages { at: Location { file, .. }, .. }
            | Self::Weight { at: Location { file, .. }, .. }
            | Self::Chat { at: Location { file, .. }, .. }
            | Self::Image { at: Location { file, .. }, .. }
            | Self::Tokenize { at: Location { file, .. }, .. }
            | Self::Io { file, .. }
            | Self::NoSplit { folder: file, .. }
            | Self::IsFolder { file, .. }
            | Self::NotAFile { file }
            | Self::NameNotUtf8 { file }
            | Self::MisplacedImage { file }
            | Self::MisplacedText { file }
            | Self::UnknownFormat { file, .. }
            | Self::EmptyFile { file }
            | Self::MissingColumns { file, .. }
            | Self::NoTexts { file, .. }
            | Self::ColumnsOfOthers { file, .. }
            | Self::DuplicateColumn { file, .. }
            | Self::Encoding { file, .. }
            | Self::BadFile { file, .. }
            | Self::Panicked { file, .. }
            | Self::FileChanged { file } => Some(file),
            Self::Store { .. }
            | Self::BadTokenizer { .. }
            | Self::BadProcessor { .. }
            | Self::BadTemplate { .. }
            | Self::Cache(_)
            | Self::Object { .. }
            | Self::NoFiles
            | Self::NoMatch { .. }
            | Self::BadGlob { .. }
            | Self::NoRows { .. }
            | Self::NoRowsLeft { .. }
            | Self::TooManyRows { .. }
            | Self::Abandoned
            | Self::TooManyLabels { .. }
            | Self::OneLabel { .. }
            | Self::LabelsAreNumbers { .. }
            | Self::ClassesAreNumbers { .. }
            | Self::OneClass { .. }
            | Self::MissingLabels { .. }
            | Self::NamesAndNumbers { .. }
            | Self::LabelFormat { .. }
            | Self::BadOption { .. } => None,
        }
    }
}

/// The subject of an error.
enum Subject<'error> {
    Row(&'error Location),
    File(&'error Path),
    /// The options, or all files together.
    Job,
}

/// Columns by their names.
fn named(columns: &[String]) -> String {
    let names: Vec<String> = columns.iter().map(|name| format!("{name:?}")).collect();
    format!("{} {}", if names.len() == 1 { "column" } else { "columns" }, names.join(", "))
}

/// The path of an image in an error.
fn in_file(path: Option<&str>) -> String {
    path.map_or_else(String::new, |path| format!(", {path}"))
}
