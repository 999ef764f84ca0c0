//! Damaged files of every format that the loader reads. Third-party parsers panic on some of them;
//! the panics become errors.

// What cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use traind_fuzz::{Format, Outcome, cases, fuzz};
use traind_loader::{
    ChatTemplate, DatasetOptions, Error, HuggingFaceTokenizer, ImageClassification, ImageProcessor,
    LabelKind, LabelSpec, NoTokenizer, SequenceClassification, Sft, Source, TaskSpec,
    TextTokenizer, TokenLimits, TokenizerOptions, data_formats, prepare,
};

/// Returns true for errors about all rows together, which name a column or a setting.
fn is_about_rows(error: &Error) -> bool {
    matches!(
        error,
        Error::NoRows { .. }
            | Error::NoRowsLeft { .. }
            | Error::BadOption { .. }
            | Error::TooManyLabels { .. }
            | Error::OneLabel { .. }
            | Error::LabelsAreNumbers { .. }
    )
}

fn outcome(path: &Path, read: Result<(), Error>) -> Outcome {
    match read {
        Ok(()) => Outcome::Read,
        Err(error) if error.file() == Some(path) || is_about_rows(&error) => Outcome::Refused,
        Err(error) => Outcome::Fault(format!("the error does not name the file: {error}")),
    }
}

fn tokenizer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_parity/wordpiece")
}

/// Prepares a file as a job does.
fn prepared(path: &Path, tokenizer: &HuggingFaceTokenizer) -> Result<(), Error> {
    let label = LabelSpec {
        column: "label".into(),
        kind: LabelKind::Infer { num_labels: None },
        weight: None,
        ignored: Vec::new(),
    };
    let task = SequenceClassification { text: "text".into(), text_pair: None, label: Some(label) };
    let options = DatasetOptions {
        files: [path.to_str().unwrap().to_owned()].into_iter().collect(),
        task: TaskSpec::SequenceClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir: None,
    };
    let set = prepare(&options, tokenizer)?.set;
    (0..set.len()).try_for_each(|row| set.input_ids(row).map(drop))
}

/// Reads columns of a file, and makes nothing of them.
fn read(path: &Path, columns: &[&str]) -> Result<(), Error> {
    let source = Source::open(&[path.to_str().unwrap().to_owned()].into_iter().collect())?;
    source.require_columns(columns)?;
    let read = |part| source.read(part, columns, &mut |_| Ok(())).map(drop);
    source.parts().into_iter().try_for_each(read)
}

fn fuzz_data(format: &Format) {
    let tokenizer =
        HuggingFaceTokenizer::open(&tokenizer(), &TokenizerOptions { max_length: Some(16) });
    let tokenizer = tokenizer.unwrap();
    fuzz(format, |path| outcome(path, prepared(path, &tokenizer)));
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

const SQUAD_WORDS: [&[u8]; 8] = [
    b"\"",
    b"null",
    b"[",
    b"}",
    b"\"paragraphs\":",
    b"\"data\":[],",
    b"{\"data\":[",
    b"\"qas\":7,",
];
const TOKENIZER_WORDS: [&[u8]; 8] =
    [b"\"", b"null", b"[", b"}", b"-1", b"1e400", b"\"[UNK]\"", b"\"type\":\"BPE\","];

/// Every format's name ends the name of a file in one of the tests below.
#[test]
fn every_format_is_here() {
    for format in data_formats() {
        let file = format!(".{format}\",");
        assert!(
            include_str!("fuzz.rs").contains(&file),
            "the data format {format} has no test with damaged files: add one to loader/tests/fuzz.rs"
        );
    }
}

fn delimited(delimiter: char) -> Vec<u8> {
    let row = |(row, text): (usize, &&str)| {
        format!("\"{}\"{delimiter}{}\n", text.replace('"', "\"\""), row % 3)
    };
    let rows: String = TEXTS.iter().cycle().take(60).enumerate().map(row).collect();
    format!("text{delimiter}label\n{rows}").into_bytes()
}

#[test]
fn csv() {
    let good = delimited(',');
    fuzz_data(&Format { file: "a.csv", good, words: &TEXT_WORDS, cases: cases(1_500) });
}

#[test]
fn tsv() {
    let good = delimited('\t');
    fuzz_data(&Format { file: "a.tsv", good, words: &TEXT_WORDS, cases: cases(500) });
}

fn json_rows() -> Vec<serde_json::Value> {
    let row = |(row, text): (usize, &&str)| serde_json::json!({"text": text, "label": row % 3});
    TEXTS.iter().cycle().take(60).enumerate().map(row).collect()
}

fn json_lines() -> Vec<u8> {
    json_rows().iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes()
}

#[test]
fn jsonl() {
    let format =
        Format { file: "a.jsonl", good: json_lines(), words: &TEXT_WORDS, cases: cases(1_500) };
    fuzz_data(&format);
}

#[test]
fn json_document() {
    let document = serde_json::json!({"version": "1", "data": json_rows()});
    let good = document.to_string().into_bytes();
    fuzz_data(&Format { file: "a.json", good, words: &TEXT_WORDS, cases: cases(1_500) });
}

#[test]
fn squad() {
    let question = |(id, text): (usize, &&str)| {
        let answers = [serde_json::json!({"text": text, "answer_start": 0})];
        serde_json::json!({"id": id.to_string(), "question": text, "answers": answers})
    };
    let questions: Vec<_> = TEXTS.iter().enumerate().map(question).collect();
    let paragraph = serde_json::json!({"context": TEXTS.concat(), "qas": questions});
    let article = |title| serde_json::json!({"title": title, "paragraphs": [paragraph, paragraph]});
    let document = serde_json::json!({"data": [article("a"), article("b")], "version": "v2.0"});
    let good = document.to_string().into_bytes();
    let format = Format { file: "b.json", good, words: &SQUAD_WORDS, cases: cases(1_500) };
    let columns = ["id", "title", "context", "question", "answers"];
    fuzz(&format, |path| outcome(path, read(path, &columns)));
}

#[test]
fn plain_text() {
    let good = TEXTS.join("\n").into_bytes();
    let format = Format { file: "a.txt", good, words: &TEXT_WORDS, cases: cases(1_500) };
    fuzz(&format, |path| outcome(path, read(path, &["text"])));
}

#[test]
fn compressed_jsonl() {
    let good = zstd::encode_all(json_lines().as_slice(), 3).unwrap();
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

/// Compressed buffers claim how large they become.
#[test]
fn compressed_arrow_stream() {
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
    let batch = columns();
    let zstd = Some(arrow_ipc::CompressionType::ZSTD);
    let options = IpcWriteOptions::default().try_with_compression(zstd).unwrap();
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let good = writer.into_inner().unwrap();
    fuzz_data(&Format { file: "c.arrow", good, words: &BINARY_WORDS, cases: cases(150) });
}

#[test]
fn tokenizer_json() {
    let good = std::fs::read(tokenizer().join("tokenizer.json")).unwrap();
    let cases = cases(1_000);
    let format = Format { file: "tokenizer.json", good, words: &TOKENIZER_WORDS, cases };
    fuzz(&format, |path| outcome(path, opened(path)));
}

const TEMPLATE_WORDS: [&[u8]; 14] = [
    b"{%",
    b"%}",
    b"{{",
    b"}}",
    b"{#",
    b"generation",
    b"endfor",
    b"messages",
    b"[::-1]",
    b" | tojson",
    b".split('x')",
    b" * 999999999",
    b"\"",
    b"\xff",
];

/// A damaged template of a family's kind is refused, or makes a text or an error of the conversation.
#[test]
fn chat_template() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chat/templates");
    for name in ["chatml.jinja", "phi_generation.jinja", "python.jinja"] {
        let good = std::fs::read(templates.join(name)).unwrap();
        let cases = cases(400);
        let format = Format { file: "chat_template.jinja", good, words: &TEMPLATE_WORDS, cases };
        fuzz(&format, |path| outcome(path, rendered(path)));
    }
}

/// Prepares a conversation with the template of a folder.
fn rendered(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap();
    let template = ChatTemplate::open(folder, None)?;
    let rows = folder.join("rows.jsonl");
    let message = |role, content| serde_json::json!({"role": role, "content": content});
    let row = serde_json::json!({"messages": [message("user", "a"), message("assistant", "b c")]});
    std::fs::write(&rows, row.to_string()).unwrap();
    let task = Sft {
        messages: "messages".into(),
        prompt: "prompt".into(),
        completion: "completion".into(),
        text: "text".into(),
        assistant_only_loss: template.as_ref().is_some_and(ChatTemplate::marks_generation),
        template,
        eos_token: None,
        max_length: 512,
        completion_only_loss: None,
        packing: None,
        layouts: None,
        position_ids: false,
    };
    let options = DatasetOptions {
        files: [rows.to_str().unwrap().to_owned()].into_iter().collect(),
        task: TaskSpec::Sft(task),
        token_limits: TokenLimits::default(),
        cache_dir: None,
    };
    let tokenizer = HuggingFaceTokenizer::open(&tokenizer(), &TokenizerOptions::default())?;
    match prepare(&options, &tokenizer) {
        // Errors about the conversation name its file.
        Err(error) if error.file() == Some(&rows) => Ok(()),
        prepared => prepared.map(drop),
    }
}

const IMAGE_WORDS: [&[u8]; 9] = [
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\xff\xc0",
    b"\xff\xda",
    b"\xff\xe1",
    b"IHDR",
    b"IDAT",
    b"VP8L",
    b"\x7f\xff\xff\xff",
];

/// The file that names an image.
const IMAGE_ROWS: &str = "rows.jsonl";

/// A damaged image is refused with its row, or decoded to something.
#[test]
fn images() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/images");
    for file in
        ["palette.png", "rgba.png", "progressive.jpg", "turned.jpg", "lossy.webp", "lossless.webp"]
    {
        let good = std::fs::read(folder.join(file)).unwrap();
        let format = Format { file, good, words: &IMAGE_WORDS, cases: cases(400) };
        fuzz(&format, |path| outcome(&path.with_file_name(IMAGE_ROWS), decoded(path)));
    }
}

/// Prepares a file of paths that names an image.
fn decoded(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap();
    let rows = folder.join(IMAGE_ROWS);
    std::fs::write(&rows, serde_json::json!({"image": path}).to_string()).unwrap();
    let settings = r#"{"size": {"height": 4, "width": 4}}"#;
    std::fs::write(folder.join("preprocessor_config.json"), settings).unwrap();
    let processor = ImageProcessor::open(folder)?;
    let task = ImageClassification { image: "image".into(), label: None, processor };
    let options = DatasetOptions {
        files: [rows.to_str().unwrap().to_owned()].into_iter().collect(),
        task: TaskSpec::ImageClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir: None,
    };
    prepare(&options, &NoTokenizer).map(drop)
}

/// Opens a tokenizer. What it makes of a text is one message or another; a panic would be a fault.
fn opened(path: &Path) -> Result<(), Error> {
    let options = TokenizerOptions { max_length: Some(16) };
    let opened = HuggingFaceTokenizer::open(path.parent().unwrap(), &options)?;
    drop(opened.encode("the unbelievable caf\u{e9} \u{65e5}", Some("\u{1f600} a b")));
    Ok(())
}
