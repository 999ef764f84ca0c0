//! Helpers for the tests of several modules.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::dataset::{DatasetOptions, TokenizedSet, prepare};
use crate::error::{Error, TokenizeProblem};
use crate::labels::{LabelKind, LabelSpec};
use crate::tasks::{SequenceClassification, TaskSpec};
use crate::token_row::TokenLimits;
use crate::tokenize::{Encoded, SpannedEncoding, TextTokenizer, TokenSpan, WindowOptions};

/// A folder of data files, removed when the test ends.
pub(crate) struct DataFolder {
    folder: tempfile::TempDir,
}

impl DataFolder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file; returns its path as job files spell it.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `error` without the folder's name, so that it can be compared.
    pub(crate) fn shown(&self, error: &Error) -> String {
        error.to_string().replace(&format!("{}/", self.folder.path().display()), "")
    }
}

/// A Parquet file with the columns `text` and `label`, `rows_per_group` rows a row group.
pub(crate) fn parquet_file(rows: &[(&str, i64)], rows_per_group: usize) -> Vec<u8> {
    let texts: StringArray = rows.iter().map(|(text, _)| Some(*text)).collect();
    let labels: Int64Array = rows.iter().map(|(_, label)| Some(*label)).collect();
    parquet_columns(&[("text", Arc::new(texts)), ("label", Arc::new(labels))], rows_per_group)
}

pub(crate) fn parquet_columns(columns: &[(&str, ArrayRef)], rows_per_group: usize) -> Vec<u8> {
    let batch =
        RecordBatch::try_from_iter(columns.iter().map(|(name, array)| (name, array.clone())));
    let batch = batch.unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows_per_group))
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// An Arrow IPC file, `rows_per_batch` rows a batch.
pub(crate) fn arrow_file(columns: &[(&str, ArrayRef)], rows_per_batch: usize) -> Vec<u8> {
    let batches = batches(columns, rows_per_batch);
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// An Arrow IPC stream, `rows_per_batch` rows a batch.
pub(crate) fn arrow_stream(columns: &[(&str, ArrayRef)], rows_per_batch: usize) -> Vec<u8> {
    let batches = batches(columns, rows_per_batch);
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn batches(columns: &[(&str, ArrayRef)], rows_per_batch: usize) -> Vec<RecordBatch> {
    let whole =
        RecordBatch::try_from_iter(columns.iter().map(|(name, array)| (name, array.clone())));
    let whole = whole.unwrap();
    let starts = (0..whole.num_rows()).step_by(rows_per_batch);
    starts.map(|start| whole.slice(start, rows_per_batch.min(whole.num_rows() - start))).collect()
}

/// A set of one-segment rows with integer labels.
pub(crate) fn set_of(rows: &[&[u32]], labels: &[i32]) -> TokenizedSet {
    let folder = DataFolder::new();
    let line = |(ids, label): (&&[u32], &i32)| {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        format!("{},{label}\n", ids.join(" "))
    };
    let lines: String = rows.iter().zip(labels).map(line).collect();
    let options = DatasetOptions {
        files: [folder.write("rows.csv", format!("text,label\n{lines}"))].into_iter().collect(),
        task: TaskSpec::SequenceClassification(SequenceClassification {
            text: "text".to_owned(),
            text_pair: None,
            label: Some(LabelSpec {
                column: "label".to_owned(),
                kind: LabelKind::Infer { num_labels: None },
                weight: None,
                ignored: Vec::new(),
            }),
        }),
        token_limits: TokenLimits::default(),
        cache_dir: None,
    };
    let prepared = prepare(&options, &WordTokenizer::reading(|word| word.parse().unwrap()));
    Arc::into_inner(prepared.unwrap().set).unwrap()
}

/// One token per word, with the id that a function returns; 9 separates the texts of a pair.
pub(crate) struct WordTokenizer {
    id_of: fn(&str) -> u32,
}

impl WordTokenizer {
    pub(crate) fn reading(id_of: fn(&str) -> u32) -> Self {
        Self { id_of }
    }
}

impl TextTokenizer for WordTokenizer {
    fn encode(&self, text: &str, text_pair: Option<&str>) -> Result<Encoded, TokenizeProblem> {
        let ids = |text: &str| text.split(' ').map(self.id_of).collect::<Vec<_>>();
        let mut encoded = Encoded::of_one_text(ids(text));
        if let Some(pair) = text_pair {
            encoded.input_ids.extend([9].into_iter().chain(ids(pair)));
            encoded.token_type_ids.resize(encoded.input_ids.len(), 1);
        }
        match text.contains("unspeakable") {
            true => Err(TokenizeProblem::Failed { message: "no word for it".to_owned() }),
            false => Ok(encoded),
        }
    }

    fn encode_text(&self, text: &str, _truncate: bool) -> Result<SpannedEncoding, TokenizeProblem> {
        self.encode_words(&text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>())
    }

    fn encode_as_it_is(&self, text: &str) -> Result<SpannedEncoding, TokenizeProblem> {
        self.encode_text(text, false)
    }

    fn encode_up_to(&self, text: &str, max_length: u32) -> Result<Encoded, TokenizeProblem> {
        let mut encoded = self.encode(text, None)?;
        encoded.input_ids.truncate(max_length as usize);
        encoded.token_type_ids.truncate(max_length as usize);
        Ok(encoded)
    }

    fn special_tokens(&self) -> u32 {
        0
    }

    fn encode_words(&self, words: &[&str]) -> Result<SpannedEncoding, TokenizeProblem> {
        let span = |word| TokenSpan { sequence: Some(0), word: Some(word), ..TokenSpan::default() };
        let encoded = match words {
            [] => Encoded::default(),
            words => self.encode(&words.join(" "), None)?,
        };
        Ok(SpannedEncoding { encoded, spans: (0..words.len() as u32).map(span).collect() })
    }

    fn encode_windows(
        &self,
        _: &str,
        _: &str,
        _: WindowOptions,
    ) -> Result<Vec<SpannedEncoding>, TokenizeProblem> {
        Err(TokenizeProblem::Failed { message: "words have no windows".to_owned() })
    }

    fn cls_token_id(&self) -> Option<u32> {
        None
    }

    fn mask_token_id(&self) -> Option<u32> {
        Some(1)
    }

    fn max_length(&self) -> Option<u32> {
        None
    }

    fn vocab_size(&self) -> u32 {
        100
    }

    fn pad_token_id(&self) -> Option<u32> {
        Some(0)
    }

    fn fingerprint(&self) -> &str {
        "words"
    }
}
