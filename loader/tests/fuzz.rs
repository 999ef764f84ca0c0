//! Damaged files of every format: each is read or refused with an error that names it, in bounded
//! memory, and no panic gets out. Parsers of others panic on some of them, which stays inside.
//!
//! `TRAIND_FUZZ_CASES` sets how many damaged files of each format are tried, `TRAIND_FUZZ_SEED`
//! which; a failure prints the seed and keeps the file.

// What cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use traind_loader::{
    DatasetOptions, Error, HuggingFaceTokenizer, LabelKind, LabelSpec, SequenceClassification,
    TaskSpec, TextTokenizer, TokenizerOptions, prepare,
};

/// Bytes more than before that all cases of one format together may leave behind as their peak.
const MEMORY_MAX: u64 = 1 << 30;

struct Format {
    file: &'static str,
    good: Vec<u8>,
    /// What a mutation may put anywhere: pieces that mean something to the format.
    words: &'static [&'static [u8]],
    cases: u64,
}

fn cases(default: u64) -> u64 {
    std::env::var("TRAIND_FUZZ_CASES").map_or(default, |cases| cases.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("TRAIND_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Some changes to a good file: flips, cuts, repetitions, numbers at their limits, words.
fn damaged(good: &[u8], words: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(4) {
        let place = random.below(bytes.len());
        let length = random.below(16) + 1;
        let end = (place + length).min(bytes.len());
        match random.below(7) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes[place] = random.next() as u8,
            2 => bytes.truncate(place.max(1)),
            3 => drop(bytes.drain(place..end)),
            4 => {
                let piece = bytes[place..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            5 => {
                let number = [0, u64::MAX, i64::MAX as u64, 1 << 31, 1 << 16][random.below(5)];
                let piece = &number.to_le_bytes()[..[1, 2, 4, 8][random.below(4)]];
                let end = (place + piece.len()).min(bytes.len());
                bytes.splice(place..end, piece.iter().copied());
            }
            _ => {
                let word = words[random.below(words.len())];
                bytes.splice(place..place, word.iter().copied());
            }
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Tries all cases of a format; tells how many were refused.
fn fuzz(format: &Format, read: impl Fn(&Path) -> Result<(), Error>) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format.file);
    std::fs::write(&path, &format.good).unwrap();
    read(&path).unwrap();
    let before = peak();
    let mut random = Random(seed());
    let mut refused = 0;
    // A panic inside of a parser is caught; printing thousands of them takes most of the time.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let fault = (0..format.cases).find_map(|case| {
        std::fs::write(&path, damaged(&format.good, format.words, &mut random)).unwrap();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&path)));
        refused += u64::from(!matches!(outcome, Ok(Ok(()))));
        match outcome {
            Err(_) => Some((case, "a panic got out".to_owned())),
            Ok(Err(error)) if error.file() != Some(&path) && !is_about_rows(&error) => {
                Some((case, format!("the error does not name the file: {error}")))
            }
            Ok(_) => None,
        }
    });
    std::panic::set_hook(hook);
    if let Some((case, fault)) = fault {
        let kept = std::env::temp_dir().join(format!("traind-fuzz-{}", format.file));
        std::fs::copy(&path, &kept).unwrap();
        panic!("case {case} of seed {}, kept as {}: {fault}", seed(), kept.display());
    }
    let grown = peak() - before;
    println!("{}: {} cases, {refused} refused, {} MB", format.file, format.cases, grown >> 20);
    assert!(grown < MEMORY_MAX, "{}: {} MB", format.file, grown >> 20);
    refused
}

/// Errors that only all rows together tell name the files in their text, or a setting.
fn is_about_rows(error: &Error) -> bool {
    matches!(error, Error::NoRows { .. } | Error::BadOption { .. } | Error::TooManyLabels { .. })
}

fn tokenizer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_parity/wordpiece")
}

/// Prepares a file as a job does.
fn prepared(path: &Path, tokenizer: &HuggingFaceTokenizer) -> Result<(), Error> {
    let label = LabelSpec { column: "label".into(), kind: LabelKind::Infer { num_labels: None } };
    let task = SequenceClassification { text: "text".into(), text_pair: None, label: Some(label) };
    let options = DatasetOptions {
        files: [path.to_str().unwrap().to_owned()].into_iter().collect(),
        task: TaskSpec::SequenceClassification(task),
        cache_dir: None,
    };
    let set = prepare(&options, tokenizer)?.set;
    (0..set.len()).try_for_each(|row| set.input_ids(row).map(drop))
}

fn fuzz_data(format: &Format) {
    let tokenizer =
        HuggingFaceTokenizer::open(&tokenizer(), &TokenizerOptions { max_length: Some(16) });
    let tokenizer = tokenizer.unwrap();
    let refused = fuzz(format, |path| prepared(path, &tokenizer));
    assert!(refused > format.cases / 20, "only {refused} were refused");
}

const TEXTS: [&str; 6] = ["the file", "of \"the\" file", "two\nlines", "caf\u{e9}", "a, b", "x"];

fn columns() -> RecordBatch {
    let texts: StringArray = TEXTS.iter().cycle().take(60).map(Some).collect();
    let labels: Int64Array = (0..60).map(|row| Some(row % 3)).collect();
    let columns = [("text", Arc::new(texts) as ArrayRef), ("label", Arc::new(labels))];
    RecordBatch::try_from_iter(columns).unwrap()
}

const TEXT_WORDS: [&[u8]; 12] = [
    b"\"",
    b"\\",
    b",",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"{",
    b"]",
    b"null",
    b"-1e999",
    b"\xef\xbb\xbf",
];
const BINARY_WORDS: [&[u8]; 5] = [b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"\0\0\0\0", b"text"];

const TOKENIZER_WORDS: [&[u8]; 8] =
    [b"\"", b"null", b"[", b"}", b"-1", b"1e400", b"\"[UNK]\"", b"\"type\":\"BPE\","];

#[test]
fn csv() {
    let row =
        |(row, text): (usize, &&str)| format!("\"{}\",{}\n", text.replace('"', "\"\""), row % 3);
    let rows: String = TEXTS.iter().cycle().take(60).enumerate().map(row).collect();
    let good = format!("text,label\n{rows}").into_bytes();
    fuzz_data(&Format { file: "a.csv", good, words: &TEXT_WORDS, cases: cases(1_500) });
}

#[test]
fn jsonl() {
    let row = |(row, text): (usize, &&str)| {
        serde_json::json!({"text": text, "label": row % 3}).to_string() + "\n"
    };
    let good: String = TEXTS.iter().cycle().take(60).enumerate().map(row).collect();
    let good = good.into_bytes();
    fuzz_data(&Format { file: "a.jsonl", good, words: &TEXT_WORDS, cases: cases(1_500) });
}

#[test]
fn compressed_jsonl() {
    let row = |(row, text): (usize, &&str)| {
        serde_json::json!({"text": text, "label": row % 3}).to_string() + "\n"
    };
    let good: String = TEXTS.iter().cycle().take(60).enumerate().map(row).collect();
    let good = zstd::encode_all(good.as_bytes(), 3).unwrap();
    fuzz_data(&Format { file: "a.jsonl.zst", good, words: &BINARY_WORDS, cases: cases(1_500) });
}

#[test]
fn parquet() {
    let batch = columns();
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(16))
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut good = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut good, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    fuzz_data(&Format { file: "a.parquet", good, words: &BINARY_WORDS, cases: cases(1_500) });
}

#[test]
fn arrow() {
    let batch = columns();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let good = writer.into_inner().unwrap();
    fuzz_data(&Format { file: "a.arrow", good, words: &BINARY_WORDS, cases: cases(1_500) });
}

#[test]
fn arrow_stream() {
    let batch = columns();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let good = writer.into_inner().unwrap();
    fuzz_data(&Format { file: "b.arrow", good, words: &BINARY_WORDS, cases: cases(1_500) });
}

#[test]
fn tokenizer_json() {
    let good = std::fs::read(tokenizer().join("tokenizer.json")).unwrap();
    let cases = cases(1_000);
    let format = Format { file: "tokenizer.json", good, words: &TOKENIZER_WORDS, cases };
    let refused = fuzz(&format, |path| {
        let options = TokenizerOptions { max_length: Some(16) };
        let opened = HuggingFaceTokenizer::open(path.parent().unwrap(), &options)?;
        // What it makes of a text is one message or another; a panic would be a fault.
        drop(opened.encode("the unbelievable caf\u{e9} \u{65e5}", Some("\u{1f600} a b")));
        Ok(())
    });
    assert!(refused > format.cases / 20, "only {refused} were refused");
}
