//! The columns and the first rows of the data that a job file is written for.

use std::fs::File;
use std::io::{Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use arrow_ipc::reader::{FileReader, StreamReader};
use flate2::read::MultiGzDecoder;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;
use traind_convert::guess_head::{self, Head};
use traind_durable::read_description;

/// The most bytes that are read of a text file: its labels may stand anywhere.
const HEAD_BYTES_MAX: u64 = 1 << 28;
/// The most rows that are read of a Parquet file, and the most bytes of these as JSON.
const ROWS_MAX: usize = 20_000;
const ROW_BYTES_MAX: usize = 1 << 26;

/// The ends of the names of text files.
const TEXT_ENDINGS: [&str; 6] = [".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt"];
/// The ends of the names of other data files.
const OTHER_ENDINGS: [&str; 6] = [".parquet", ".pq", ".arrow", ".feather", ".gz", ".zst"];

/// Whether a name is that of a file or a folder on this host, and not that of the hub.
pub(super) fn is_path(name: &str) -> bool {
    name.starts_with(['.', '/', '~']) || name.ends_with('/') || name.matches('/').count() > 1
}

/// Fails for a file that is not there, or of a format that is not known.
pub(super) fn check_data(data: &str) -> anyhow::Result<()> {
    let is_known = has_data_ending(data);
    let path = Path::new(data);
    if path.is_file() {
        ensure!(
            is_known,
            "{data}: unknown data format; known file names end in {}",
            [TEXT_ENDINGS, OTHER_ENDINGS].concat().join(", ")
        );
        ensure!(path.metadata().is_ok_and(|found| found.len() > 0), "{data} is empty");
        return Ok(());
    }
    // A glob or a URL stands for others.
    let is_name = !data.contains(['*', '?', ':']);
    ensure!(path.is_dir() || !is_name || !is_known, "there is no file {data}");
    ensure!(path.is_dir() || !is_name || !is_path(data), "there is no file and no folder {data}");
    Ok(())
}

/// Whether the end of a name is that of a data file.
fn has_data_ending(name: &str) -> bool {
    let name = name.to_lowercase();
    TEXT_ENDINGS.iter().chain(&OTHER_ENDINGS).any(|ending| name.ends_with(ending))
}

/// Reads the first local file of the data, or the beginning of a large one; `None` where there is none, and for formats
/// without names of columns.
pub(super) fn head_of(data: &str) -> anyhow::Result<Option<Head>> {
    check_data(data)?;
    if let Some(head) = head_of_saved(Path::new(data)) {
        return Ok(Some(head));
    }
    let Some(path) = first_file(data) else { return Ok(None) };
    let shown = path.display().to_string();
    let file = File::open(&path).with_context(|| format!("open {shown}"))?;
    let name = shown.to_lowercase();
    match name.rsplit('.').next().unwrap_or_default() {
        "parquet" | "pq" => Ok(unless_it_panics(|| head_of_parquet(file))),
        "arrow" | "feather" => Ok(unless_it_panics(|| head_of_arrow(file))),
        "gz" => head_of_text(&shown, name.trim_end_matches(".gz"), MultiGzDecoder::new(file)),
        "zst" => {
            let text = zstd::Decoder::new(file).with_context(|| format!("read {shown}"))?;
            head_of_text(&shown, name.trim_end_matches(".zst"), text)
        }
        _ => head_of_text(&shown, &name, file),
    }
}

/// The file itself, the first that a pattern matches, or the first in a folder whose name is that of data, and of a
/// split to train on if there is one.
fn first_file(data: &str) -> Option<PathBuf> {
    let path = Path::new(data);
    if path.is_file() {
        return Some(path.to_owned());
    }
    let pattern = match path.is_dir() {
        true => format!("{}/*", glob::Pattern::escape(data)),
        false => data.to_owned(),
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_data = |path: &PathBuf| path.is_file() && has_data_ending(&name(path));
    let files = glob::glob(&pattern).ok()?.filter_map(Result::ok).filter(is_data);
    files.min_by_key(|path| (!name(path).contains("train"), path.clone()))
}

/// Reads a text in a file called `name` without the ending of its compression.
fn head_of_text(data: &str, name: &str, text: impl Read) -> anyhow::Result<Option<Head>> {
    let mut bytes = Vec::new();
    text.take(HEAD_BYTES_MAX).read_to_end(&mut bytes).with_context(|| format!("read {data}"))?;
    let is_whole = (bytes.len() as u64) < HEAD_BYTES_MAX;
    ensure!(
        !has_zeros(name, &bytes),
        "{data} is not text in UTF-8, or in UTF-16 with a byte order mark: it has bytes of the value zero"
    );
    match guess_head::head(name, bytes, is_whole) {
        Err(error) if is_whole => bail!("{data}: no row can be read: {error}"),
        // The first row is longer.
        Err(_) => Ok(None),
        Ok(head) => Ok(head),
    }
}

/// Whether a file is text by its name, and begins with zeros that none of its encodings has.
fn has_zeros(name: &str, bytes: &[u8]) -> bool {
    let is_text = TEXT_ENDINGS.iter().any(|ending| name.ends_with(ending));
    let start = &bytes[..bytes.len().min(4096)];
    let is_wide = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    is_text && !is_wide && start.contains(&0)
}

/// Reads by `read`; `None` for malformed files at which its crate panics.
fn unless_it_panics(read: impl FnOnce() -> Option<Head>) -> Option<Head> {
    catch_unwind(AssertUnwindSafe(read)).ok()?
}

/// The first rows of a Parquet file, or its columns where rows cannot be read; `None` for other files, which the job
/// refuses.
fn head_of_parquet(file: File) -> Option<Head> {
    let reader = SerializedFileReader::new(file).ok()?;
    let rows = parquet_rows(&reader);
    if !rows.is_empty() {
        return Some(Head::of_rows(&rows));
    }
    let fields = reader.metadata().file_metadata().schema().get_fields();
    Some(Head::of_columns(fields.iter().map(|field| field.name().to_owned()).collect()))
}

fn parquet_rows(reader: &SerializedFileReader<File>) -> Vec<Value> {
    let Ok(rows) = reader.get_row_iter(None) else { return Vec::new() };
    let mut bytes = 0;
    let rows = rows.take(ROWS_MAX).map_while(Result::ok).map(|row| row.to_json_value());
    rows.take_while(|row| {
        let is_within = bytes < ROW_BYTES_MAX;
        bytes += row.to_string().len();
        is_within
    })
    .collect()
}

/// The columns of an Arrow file, or of a stream, as `datasets` writes them.
fn head_of_arrow(mut file: File) -> Option<Head> {
    let schema = match FileReader::try_new(&mut file, None) {
        Ok(reader) => reader.schema(),
        Err(_) => {
            file.rewind().ok()?;
            StreamReader::try_new(file, None).ok()?.schema()
        }
    };
    Some(Head::of_columns(schema.fields().iter().map(|field| field.name().clone()).collect()))
}

/// The columns of a data set that `datasets` has saved, or of its split to train on.
fn head_of_saved(folder: &Path) -> Option<Head> {
    let infos = [folder.join("dataset_info.json"), folder.join("train/dataset_info.json")];
    let text = infos.iter().find_map(|path| read_description(path).ok())?;
    Head::of_features(&serde_json::from_slice(&text).ok()?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow_ipc::writer::{FileWriter, StreamWriter};
    use arrow_schema::{DataType, Field, Schema};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    fn names(path: &Path) -> Vec<String> {
        head_of(&path.display().to_string()).unwrap().unwrap().names
    }

    /// A file of rows with a text, and a number called `column`.
    fn write_parquet(path: &Path, column: &str, numbers: &[f64]) {
        let schema =
            format!("message rows {{ required binary text (UTF8); required double {column}; }}");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let file = File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let texts = vec![ByteArray::from("It was late."); numbers.len()];
        let mut text = group.next_column().unwrap().unwrap();
        text.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        text.close().unwrap();
        let mut number = group.next_column().unwrap().unwrap();
        number.typed::<DoubleType>().write_batch(numbers, None, None).unwrap();
        number.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn parquet_files_have_columns_and_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        write_parquet(&path, "score", &[0.25, 1.0]);
        assert_eq!(names(&path), ["text", "score"]);
        let head = head_of(&path.display().to_string()).unwrap().unwrap();
        assert!(head.has_fractions("score"));
        write_parquet(&path, "stars", &[]);
        assert_eq!(names(&path), ["text", "stars"]);
    }

    #[test]
    fn the_first_file_of_a_folder_or_a_pattern_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("README.md"), "# Reviews\n").unwrap();
        write_parquet(&path("test-00000-of-00001.parquet"), "a", &[1.0]);
        write_parquet(&path("train-00000-of-00001.parquet"), "b", &[1.0]);
        assert_eq!(names(folder.path()), ["text", "b"]);
        assert_eq!(names(&path("*.parquet")), ["text", "b"]);
        assert_eq!(names(&path("test-*.parquet")), ["text", "a"]);
        assert!(head_of(&path("*.csv").display().to_string()).unwrap().is_none());
    }

    #[test]
    fn arrow_files_and_streams_have_columns() {
        let folder = tempfile::tempdir().unwrap();
        let fields = ["text", "label"].map(|name| Field::new(name, DataType::Utf8, true));
        let schema = Schema::new(fields.to_vec());
        let path = folder.path().join("a.arrow");
        FileWriter::try_new(File::create(&path).unwrap(), &schema).unwrap().finish().unwrap();
        assert_eq!(names(&path), ["text", "label"]);
        StreamWriter::try_new(File::create(&path).unwrap(), &schema).unwrap().finish().unwrap();
        assert_eq!(names(&path), ["text", "label"]);
    }

    #[test]
    fn compressed_texts_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let rows = b"text;label\nfine;1\n";
        let path = folder.path().join("a.csv.gz");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, rows).unwrap();
        fs::write(&path, gzip.finish().unwrap()).unwrap();
        assert_eq!(names(&path), ["text", "label"]);
        let path = folder.path().join("a.CSV.zst");
        fs::write(&path, zstd::encode_all(&rows[..], 1).unwrap()).unwrap();
        assert_eq!(names(&path), ["text", "label"]);
    }

    /// The job refuses them, with more to say.
    #[test]
    fn damaged_files_have_no_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        write_parquet(&path, "score", &[0.25]);
        let mut bytes = fs::read(&path).unwrap();
        for name in ["a.parquet", "a.arrow"] {
            let path = folder.path().join(name);
            for at in 0..bytes.len() {
                bytes[at] ^= 0xff;
                fs::write(&path, &bytes).unwrap();
                let found = head_of(&path.display().to_string()).unwrap();
                assert!(name == "a.parquet" || found.is_none());
                bytes[at] ^= 0xff;
            }
        }
    }
}
