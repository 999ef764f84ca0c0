//! Every format's rows, and every bad file's error.

use std::io::Write;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float32Array, Int8Array, LargeStringArray, ListArray,
    StringViewArray, StructArray, TimestampMillisecondArray, UInt64Array,
};

use super::*;
use crate::testing::{DataFolder, arrow_file, arrow_stream, parquet_columns, parquet_file};

/// A row as its number in its file, its line and its cells.
type FoundRow = (u64, Option<u64>, Vec<Value>);

fn open(patterns: &[impl AsRef<str>]) -> Result<Source> {
    Source::open(&patterns.iter().map(|pattern| pattern.as_ref().to_owned()).collect())
}

/// All rows of `columns`.
fn read(patterns: &[&str], columns: &[&str]) -> Result<Vec<FoundRow>> {
    read_as(FormatOptions::default(), patterns, columns)
}

/// The same for files that need options.
fn read_as(format: FormatOptions, patterns: &[&str], columns: &[&str]) -> Result<Vec<FoundRow>> {
    let files = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let source = Source::open(&Files { format, ..files })?;
    source.require_columns(columns)?;
    let mut rows = Vec::new();
    for part in source.parts() {
        source.read(part, columns, &mut |records| {
            rows.extend((0..records.len()).map(|record| {
                let cells = columns.iter().map(|column| records.cell(column, record).clone());
                let line = source.location(part, &records, record).line;
                (records.row(record), line, cells.collect())
            }));
            Ok(())
        })?;
    }
    Ok(rows)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

#[track_caller]
fn check_text_rows(name: &str, content: &str, expect: &[(u64, &str, &str)]) {
    let folder = DataFolder::new();
    let rows = read(&[&folder.write(name, content)], &["text", "label"]).unwrap();
    let expect = (0u64..)
        .zip(expect)
        .map(|(row, (line, first, second))| (row, Some(*line), vec![text(first), text(second)]));
    assert_eq!(rows, expect.collect::<Vec<_>>());
}

#[track_caller]
fn check_error(name: &str, content: impl AsRef<[u8]>, expect: &str) {
    let folder = DataFolder::new();
    let error = read(&[&folder.write(name, content)], &["text", "label"]).unwrap_err();
    assert_eq!(folder.shown(&error), expect);
    assert_eq!(error.file(), Some(folder.path(name).as_path()));
}

#[test]
fn csv_fields_may_hold_delimiters_quotes_and_line_breaks() {
    check_text_rows("a.csv", "text,label\nplain,1\n", &[(2, "plain", "1")]);
    check_text_rows("a.csv", "label,id,text\n1,7,last\n", &[(2, "last", "1")]);
    check_text_rows(
        "a.csv",
        "text,label\r\n\"a, b\",1\r\n\"say \"\"hi\"\"\",2\r\n\"two\nlines\",3\r\nend,4",
        &[(2, "a, b", "1"), (3, "say \"hi\"", "2"), (4, "two\nlines", "3"), (6, "end", "4")],
    );
    check_text_rows("a.csv", "\u{feff}text,label\n\nété 日本,1\n", &[(3, "été 日本", "1")]);
    check_text_rows("a.csv", "text,label\n5\" disk,1\n", &[(2, "5\" disk", "1")]);
    check_text_rows("a.tsv", "text\tlabel\na, b\t1\n", &[(2, "a, b", "1")]);
    check_text_rows("A.CSV", "text,label\nx,1\n", &[(2, "x", "1")]);
}

#[test]
fn jsonl_rows_are_objects_a_line() {
    check_text_rows(
        "a.jsonl",
        "\u{feff}{\"text\": \"a\\n\\u00e9\", \"label\": \"1\"}\n\n{\"label\": \"2\", \"text\": \"b\", \"x\": [1]}",
        &[(1, "a\né", "1"), (3, "b", "2")],
    );
    let folder = DataFolder::new();
    let file = folder.write("a.ndjson", r#"{"a": null, "b": [1, 2.5, true], "c": {"d": "e"}}"#);
    let list = Value::List(vec![Value::Int(1), Value::Float(2.5), Value::Bool(true)]);
    let fields = Value::Struct(vec![("d".to_owned(), text("e"))]);
    let rows = read(&[&file], &["b", "a", "c"]).unwrap();
    assert_eq!(rows, [(0, Some(1), vec![list, Value::Null, fields])]);
}

#[test]
fn csv_fields_are_apart_by_the_delimiter_that_is_given() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text;label\na, b;1\n\"c;d\";2\n");
    let format = FormatOptions { delimiter: Some(b';'), ..FormatOptions::default() };
    let rows = read_as(format, &[&file], &["text", "label"]).unwrap();
    let row = |row, line, words, label| (row, Some(line), vec![text(words), text(label)]);
    assert_eq!(rows, [row(0, 2, "a, b", "1"), row(1, 3, "c;d", "2")]);
    let expect = "a.csv: no column \"text\"; it has \"text;label\" (is data.delimiter right?)";
    check_error("a.csv", "text;label\na;1\n", expect);
}

#[test]
fn lines_of_plain_text_are_rows_with_or_without_their_breaks() {
    let folder = DataFolder::new();
    let file = folder.write("a.txt", "\u{feff}first, \"line\"\r\n\n  \nlast");
    let row = |row, line, words| (row, Some(line), vec![text(words)]);
    let rows = read(&[&file], &["text"]).unwrap();
    assert_eq!(rows, [row(0, 1, "first, \"line\""), row(1, 4, "last")]);
    let format = FormatOptions { keep_linebreaks: true, ..FormatOptions::default() };
    let rows = read_as(format, &[&file], &["text"]).unwrap();
    assert_eq!(
        rows,
        [row(0, 1, "first, \"line\"\r\n"), row(1, 2, "\n"), row(2, 3, "  \n"), row(3, 4, "last")]
    );
    let error = read(&[&folder.write("b.txt", b"a\n\xff\n")], &["text"]).unwrap_err();
    let expect = "b.txt, row 1 (line 2), column (whole line): not valid UTF-8; it looks like latin-1, \
                  which data.encoding: latin-1 reads";
    assert_eq!(folder.shown(&error), expect);
    check_error("a.txt", "a\n", "a.txt: no column \"label\"; it has text");
}

#[test]
fn parquet_row_groups_are_parts_in_order() {
    let folder = DataFolder::new();
    let texts: Vec<String> = (0..10).map(|row| format!("text {row}")).collect();
    let rows: Vec<(&str, i64)> = texts.iter().map(String::as_str).zip(0..).collect();
    let file = folder.write("a.parquet", parquet_file(&rows, 4));
    let source = open(&[&file]).unwrap();
    assert_eq!((source.parts().len(), source.rows()), (3, Some(10)));
    assert_eq!(source.columns(), ["text", "label"]);
    let expect = rows
        .iter()
        .zip(0..)
        .map(|((words, label), row)| (row, None, vec![Value::Int(*label), text(words)]));
    assert_eq!(read(&[&file], &["label", "text"]).unwrap(), expect.collect::<Vec<_>>());
}

#[test]
fn parquet_types_become_plain_values() {
    let check = |array: ArrayRef, expect: &[Value]| {
        let folder = DataFolder::new();
        let file = folder.write("a.parquet", parquet_columns(&[("column", array)], 100));
        let rows = read(&[&file], &["column"]).unwrap();
        assert_eq!(rows.into_iter().flat_map(|row| row.2).collect::<Vec<_>>(), expect);
    };
    check(Arc::new(Int8Array::from(vec![Some(-3), None])), &[Value::Int(-3), Value::Null]);
    check(Arc::new(UInt64Array::from(vec![7])), &[Value::Int(7)]);
    check(Arc::new(Float32Array::from(vec![0.5])), &[Value::Float(0.5)]);
    check(Arc::new(BooleanArray::from(vec![true])), &[Value::Bool(true)]);
    check(Arc::new(LargeStringArray::from(vec!["a"])), &[text("a")]);
    check(Arc::new(StringViewArray::from(vec!["a"])), &[text("a")]);
    let dictionary: DictionaryArray<Int32Type> = ["b", "a", "b"].into_iter().collect();
    check(Arc::new(dictionary), &[text("b"), text("a"), text("b")]);
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    check(Arc::new(lists), &[Value::List(vec![Value::Int(1), Value::Null]), Value::Null]);
}

#[test]
fn files_come_in_the_order_given_and_globs_sorted() {
    let folder = DataFolder::new();
    for name in ["b.csv", "a.csv", "c.jsonl", "d[1].csv"] {
        let row = if name.ends_with("csv") { "text\nX\n" } else { r#"{"text": "X"}"# };
        folder.write(name, row.replace('X', name));
    }
    let check = |patterns: &[&str], expect: &[&str]| {
        let patterns = patterns.iter().map(|name| folder.path(name).to_str().unwrap().to_owned());
        let patterns: Vec<String> = patterns.collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let rows = read(&patterns, &["text"]).unwrap();
        let rows: Vec<Value> = rows.into_iter().flat_map(|row| row.2).collect();
        assert_eq!(rows, expect.iter().map(|name| text(name)).collect::<Vec<_>>());
    };
    check(&["c.jsonl", "[ab].csv"], &["c.jsonl", "a.csv", "b.csv"]);
    check(&["?.*"], &["a.csv", "b.csv", "c.jsonl"]);
    check(&["d[1].csv"], &["d[1].csv"]);
}

#[test]
fn more_rows_than_are_handed_on_at_once_keep_their_numbers() {
    let folder = DataFolder::new();
    let lines: String = (0..20_000).map(|row| format!("row {row}\n")).collect();
    let source = open(&[folder.write("a.csv", format!("text\n{lines}"))]).unwrap();
    let (part, mut expected) = (source.parts()[0], 0);
    let rows = source.read(part, &["text"], &mut |records| {
        for record in 0..records.len() {
            assert_eq!(records.row(record), expected);
            assert_eq!(*records.cell("text", record), text(&format!("row {expected}")));
            expected += 1;
        }
        let last = source.location(part, &records, records.len() - 1);
        assert_eq!((last.row, last.line), (expected - 1, Some(expected + 1)));
        Ok(())
    });
    assert_eq!((rows.unwrap(), expected), (20_000, 20_000));
}

#[test]
fn a_bad_csv_row_names_file_row_line_and_column() {
    check_error(
        "a.csv",
        "text,label\nok,1\n\"two\nlines\",2\na,b,3\n",
        "a.csv, row 2 (line 5): 3 fields where the header has 2",
    );
    check_error(
        "a.csv",
        "text,label\nok\n",
        "a.csv, row 0 (line 2): 1 fields where the header has 2",
    );
    check_error(
        "a.csv",
        b"text,label\nok,1\nbad \xff,2\n",
        "a.csv, row 1 (line 3), column text: not valid UTF-8; it looks like latin-1, which \
         data.encoding: latin-1 reads",
    );
    check_error(
        "a.csv",
        "text,label\nok,1\nx,\"never closed\ny,2\nz,3\n",
        "a.csv, row 1 (line 3): a quoted field is never closed",
    );
    check_error(
        "a.csv",
        b"te\xffxt,label\n",
        "a.csv: not valid UTF-8; it looks like latin-1, which data.encoding: latin-1 reads",
    );
    check_error("a.csv", "\n\n", "a.csv: the file is empty");
}

#[test]
fn text_may_be_in_another_encoding() {
    let folder = DataFolder::new();
    let file = "text,label\ncaf\u{e9},1\n\"two\nlines\",2\n";
    let wide: Vec<u8> = file.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = [b"\xFF\xFE", &wide[..]].concat();
    let latin: Vec<u8> = file.chars().map(|letter| letter as u8).collect();
    for (name, bytes) in [("utf-16", wide.clone()), ("latin-1", latin)] {
        let encoding = crate::Encoding::of_name(name);
        let format = FormatOptions { encoding, ..FormatOptions::default() };
        let rows = read_as(format, &[&folder.write("a.csv", bytes)], &["text"]).unwrap();
        let expect =
            [(0, Some(2), vec![text("caf\u{e9}")]), (1, Some(3), vec![text("two\nlines")])];
        assert_eq!(rows, expect, "{name}");
    }
    let looks = "not valid UTF-8; it looks like utf-16, which data.encoding: utf-16 reads";
    check_error("a.csv", wide, &format!("a.csv: {looks}"));
}

#[test]
fn a_bad_json_line_names_file_row_and_line() {
    let first = "{\"text\": \"a\", \"label\": 1}\n";
    let check = |second: &[u8], expect: &str| {
        check_error("a.jsonl", [first.as_bytes(), b"\n", second].concat(), expect);
    };
    check(
        b"{\"text\": \"a\"",
        "a.jsonl, row 1 (line 3): not JSON: EOF while parsing an object at column 12",
    );
    check(
        b"{\"text\": \"\xff\"}",
        "a.jsonl, row 1 (line 3), column (whole line): not valid UTF-8; it looks like latin-1, which \
         data.encoding: latin-1 reads",
    );
    check(b"[1]", "a.jsonl, row 1 (line 3): expected one JSON object a line, found an array");
    check_error(
        "a.jsonl",
        "[\n  {\"text\": \"a\"}\n]\n",
        "a.jsonl, row 0 (line 1): expected one JSON object a line; this is JSON over several lines",
    );
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    check_error("a.csv", "", "a.csv: the file is empty");
    check_error("a.parquet", "", "a.parquet: the file is empty");
    check_error("a.csv", "id,words\n", "a.csv: no column \"text\"; it has id, words");
    check_error("a.csv", "text,label,text\n", "a.csv: 2 columns are named \"text\"");
    check_error("a.jsonl", "{\"words\": 1}", "a.jsonl: no column \"text\"; it has words");
    check_error(
        "a.xlsx",
        "x",
        "a.xlsx: unknown data format; known file names end in .csv, .tsv, .jsonl, .ndjson, .json, .txt, .parquet, .pq, .arrow, .feather, text also in .gz or .zst",
    );
    let dates: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1]));
    check_error(
        "a.parquet",
        parquet_columns(&[("text", dates.clone()), ("label", dates)], 10),
        "a.parquet: not a readable Parquet file: column \"text\": values of type Timestamp(ms) cannot be read",
    );
}

#[test]
fn names_that_lead_nowhere_say_so() {
    let folder = DataFolder::new();
    let check = |name: &str, expect: &str| {
        let error = open(&[folder.path(name).to_str().unwrap()]).err().unwrap();
        assert_eq!(folder.shown(&error), expect);
    };
    check("a.csv", "a.csv: cannot open: No such file or directory (os error 2)");
    check("*.csv", "*.csv: no file matches");
    check(
        "a***.csv",
        "a***.csv: not a valid glob: wildcards are either regular `*` or recursive `**`",
    );
    folder.write("sub.csv/x", "");
    check("sub.csv", "sub.csv: is a folder, but not one that `save_to_disk` of datasets wrote");
    assert!(matches!(open(&[""; 0]), Err(Error::NoFiles)));
}

#[test]
fn a_cut_or_flipped_parquet_file_never_panics() {
    let folder = DataFolder::new();
    let rows: Vec<(&str, i64)> = [("one text", 0), ("another text", 1), ("a third", 2)].repeat(20);
    let good = parquet_file(&rows, 16);
    let columns = ["text", "label"];
    let mut failed = 0;
    for kept in (1..good.len()).step_by(7) {
        let error = read(&[&folder.write("cut.parquet", &good[..kept])], &columns).unwrap_err();
        assert_eq!(error.file(), Some(folder.path("cut.parquet").as_path()), "{error}");
    }
    for place in 0..good.len() {
        for flip in [0x01, 0xff] {
            let mut bad = good.clone();
            bad[place] ^= flip;
            // A flip in padding or in a text is still a Parquet file: only panics are ruled out.
            if let Err(error) = read(&[&folder.write("flipped.parquet", &bad)], &columns) {
                failed += 1;
                assert_eq!(error.file(), Some(folder.path("flipped.parquet").as_path()), "{error}");
            }
        }
    }
    // A fifth of it is the Arrow schema, which nobody reads.
    assert!(failed > good.len() * 3 / 4, "{failed} of {} flips were noticed", 2 * good.len());
}

#[test]
fn compressed_text_is_read_as_if_it_were_not() {
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let csv = "text,label\n\"two\nlines\",1\nend,2\n";
    let jsonl =
        "{\"text\": \"two\\nlines\", \"label\": \"1\"}\n\n{\"text\": \"end\", \"label\": \"2\"}";
    let check = |name: &str, bytes: Vec<u8>| {
        let folder = DataFolder::new();
        let rows = read(&[&folder.write(name, &bytes)], &["text", "label"]).unwrap();
        let cells: Vec<Vec<Value>> = rows.iter().map(|row| row.2.clone()).collect();
        assert_eq!(cells, [[text("two\nlines"), text("1")], [text("end"), text("2")]]);
        assert!(rows.iter().all(|row| row.1.is_some()), "lines are known");
        let cut = folder.write(name, &bytes[..bytes.len() / 2]);
        let error = read(&[&cut], &["text", "label"]).unwrap_err();
        assert_eq!(error.file(), Some(folder.path(name).as_path()), "{error}");
    };
    check("a.csv.gz", gzip(csv));
    check("a.csv.zst", zstd(csv));
    check("a.jsonl.gz", gzip(jsonl));
    check("A.JSONL.ZST", zstd(jsonl));
    check("a.csv.gz", [gzip("text,label\n\"two\nlin"), gzip("es\",1\nend,2\n")].concat());
    check_error("a.csv.gz", csv, "a.csv.gz: cannot read: invalid gzip header");
    check_error("a.csv.gz", gzip(""), "a.csv.gz: the file is empty");
    check_error(
        "a.csv.gz",
        gzip("text,label\nok\n"),
        "a.csv.gz, row 0 (line 2): 1 fields where the header has 2",
    );
    let folder = DataFolder::new();
    let error = open(&[folder.write("a.parquet.gz", "x")]).err().unwrap();
    assert!(matches!(error, Error::UnknownFormat { .. }), "{error}");
}

/// Lists and structs as SQuAD has them, in two batches.
fn nested_columns() -> Vec<(&'static str, ArrayRef)> {
    let words: ArrayRef =
        Arc::new(LargeStringArray::from(vec![Some("a"), Some("b"), None, Some("c")]));
    let numbers = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
        None,
        Some(vec![Some(3)]),
    ]);
    let numbers: ArrayRef = Arc::new(numbers);
    let fields = StructArray::try_from(vec![("text", words.clone()), ("start", numbers.clone())]);
    vec![("words", words), ("numbers", numbers), ("answers", Arc::new(fields.unwrap()))]
}

#[test]
fn arrow_files_and_streams_hold_nested_columns() {
    let list = |items: &[i64]| Value::List(items.iter().map(|&item| Value::Int(item)).collect());
    let fields = |word: Value, numbers: Value| {
        Value::Struct(vec![("text".to_owned(), word), ("start".to_owned(), numbers)])
    };
    let expect = [
        (text("a"), list(&[1, 2])),
        (text("b"), list(&[])),
        (Value::Null, Value::Null),
        (text("c"), list(&[3])),
    ];
    let expect: Vec<FoundRow> = (0..)
        .zip(expect)
        .map(|(row, (word, numbers))| (row, None, vec![fields(word, numbers.clone()), numbers]))
        .collect();
    let folder = DataFolder::new();
    let columns = nested_columns();
    for file in [
        folder.write("file.arrow", arrow_file(&columns, 3)),
        folder.write("stream.arrow", arrow_stream(&columns, 3)),
        folder.write("one.parquet", parquet_columns(&columns, 3)),
    ] {
        assert_eq!(open(&[&file]).unwrap().columns(), ["words", "numbers", "answers"]);
        assert_eq!(read(&[&file], &["answers", "numbers"]).unwrap(), expect, "{file}");
    }
}

#[test]
fn a_cut_or_flipped_arrow_file_never_panics() {
    let folder = DataFolder::new();
    let columns = nested_columns();
    let mut failed = 0;
    let mut check = |bytes: &[u8]| {
        if let Err(error) = read(&[&folder.write("bad.arrow", bytes)], &["words", "answers"]) {
            failed += 1;
            assert_eq!(error.file(), Some(folder.path("bad.arrow").as_path()), "{error}");
        }
    };
    for good in [arrow_file(&columns, 3), arrow_stream(&columns, 3)] {
        (1..good.len()).step_by(3).for_each(|kept| check(&good[..kept]));
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x11;
            check(&bad);
        }
    }
    assert!(failed > 1_000, "{failed} bad files were noticed");
    check_error(
        "a.arrow",
        "not arrow",
        "a.arrow: not a readable Arrow file: Parser error: Unexpected end of stream: expected 544501614 metadata bytes, got 5",
    );
}

#[test]
fn a_json_document_is_a_list_of_rows_or_has_it_under_data() {
    let check = |content: &str, expect: &[(&str, &str)]| {
        let folder = DataFolder::new();
        let rows = read(&[&folder.write("a.json", content)], &["text", "label"]).unwrap();
        let expect = expect.iter().map(|(first, second)| vec![text(first), text(second)]);
        let found: Vec<Vec<Value>> = rows.into_iter().map(|row| row.2).collect();
        assert_eq!(found, expect.collect::<Vec<_>>());
    };
    check(r#"{"data": [{"text": "a", "label": "b"}]}"#, &[("a", "b")]);
    check(
        r#"[{"text": "a", "label": "b"}, {"label": "d", "text": "c"}]"#,
        &[("a", "b"), ("c", "d")],
    );
    check("[\n{\"text\": \"a\",\n\"label\": \"b\"}\n]\n", &[("a", "b")]);
    check(
        "{\n \"version\": 2,\n \"data\": [{\"text\": \"a\", \"label\": \"b\"}]\n}",
        &[("a", "b")],
    );
    check(r#"{"text": "a", "label": "b"}"#, &[("a", "b")]);
    check(
        "{\"text\": \"a\", \"label\": \"b\"}\n{\"text\": \"c\", \"label\": \"d\"}",
        &[("a", "b"), ("c", "d")],
    );
    let folder = DataFolder::new();
    let error = open(&[folder.write("a.json", r#"{"data": []}"#)]).err().unwrap();
    assert_eq!(folder.shown(&error), "a.json: no rows");
    check_error("a.json", r#"{"data": [7]}"#, "a.json, row 0: expected an object for each row");
    check_error(
        "a.json",
        r#"{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "1"}]}]}]}"#,
        "a.json, row 0: no list \"answers\" in a SQuAD file's question",
    );
    let question = r#"{"id": "1", "question": "q", "answers": []}"#;
    check_error(
        "a.json",
        format!(
            r#"{{"data": [{{"paragraphs": [{{"context": "c", "qas": [{question}]}}, {{"qas": [{question}]}}]}}]}}"#
        ),
        "a.json, row 1: no \"context\" in a SQuAD file's question",
    );
    check_error(
        "a.json",
        format!(
            r#"{{"data": [{{"paragraphs": [{{"context": "c", "qas": [{question}]}}]}}, {{"paragraphs": 7}}]}}"#
        ),
        "a.json, row 1: no list \"paragraphs\" in a SQuAD file's question",
    );
}

/// Rows under `data` are one document only if nothing follows; where something does, they are
/// a column of that name in lines of JSON.
#[test]
fn lines_of_json_may_have_a_column_named_data() {
    let folder = DataFolder::new();
    let file = folder
        .write("a.json", "{\"data\": [1], \"text\": \"a\"}\n{\"data\": [], \"text\": \"b\"}\n");
    let rows = read(&[&file], &["text"]).unwrap();
    let texts: Vec<Value> = rows.into_iter().flat_map(|row| row.2).collect();
    assert_eq!(texts, [text("a"), text("b")]);
}

#[test]
fn titles_of_articles_may_stand_before_or_behind_their_questions() {
    let folder = DataFolder::new();
    let article = |before: &str, behind: &str, id: &str| {
        format!(
            r#"{{{before}"paragraphs": [{{"context": "c", "qas": [{{"id": "{id}", "question": "q", "answers": []}}]}}]{behind}}}"#
        )
    };
    let articles = [
        article(r#""title": "first", "#, "", "1"),
        article("", r#", "title": "second""#, "2"),
        article("", "", "3"),
    ];
    let document = format!(r#"{{"version": "v2.0", "data": [{}]}}"#, articles.join(", "));
    let rows = read(&[&folder.write("a.json", document)], &["title", "id"]).unwrap();
    let rows: Vec<Vec<Value>> = rows.into_iter().map(|row| row.2).collect();
    let expect =
        [[text("first"), text("1")], [text("second"), text("2")], [Value::Null, text("3")]];
    assert_eq!(rows, expect);
}

#[test]
fn columns_are_renamed_dropped_and_cast() {
    let folder = DataFolder::new();
    let file = folder.write("a.jsonl", r#"{"body": "a", "stars": "4", "tags": [1, 0], "id": 7}"#);
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect::<Vec<_>>()
    };
    let columns = Columns {
        rename: pairs(&[("body", "text"), ("stars", "label")]),
        drop: vec!["id".to_owned()],
        cast: vec![("label".to_owned(), CastType::Int64), ("tags".to_owned(), CastType::String)],
    };
    let files = Files { columns, ..[file].into_iter().collect() };
    let source = Source::open(&files).unwrap();
    assert_eq!(source.columns(), ["text", "label", "tags"]);
    let error = source.require_columns(&["id"]).unwrap_err();
    assert_eq!(folder.shown(&error), "a.jsonl: no column \"id\"; it has text, label, tags");
    let mut found = Vec::new();
    let names = ["tags", "label", "text"];
    source
        .read(source.parts()[0], &names, &mut |records| {
            found.extend(names.map(|name| records.cell(name, 0).clone()));
            Ok(())
        })
        .unwrap();
    assert_eq!(found, [Value::List(vec![text("1"), text("0")]), Value::Int(4), text("a")]);
}

#[test]
fn a_value_that_cannot_be_cast_names_its_place() {
    let check = |value: &str, kind: CastType, expect: &str| {
        let folder = DataFolder::new();
        let file = folder.write("a.csv", format!("text\n\"{value}\"\n"));
        let cast = vec![("text".to_owned(), kind)];
        let columns = Columns { cast, ..Columns::default() };
        let files = Files { columns, ..[file].into_iter().collect() };
        let source = Source::open(&files).unwrap();
        let error = source.read(source.parts()[0], &["text"], &mut |_| Ok(())).unwrap_err();
        let at = "a.csv, row 0 (line 2), column \"text\":";
        assert_eq!(folder.shown(&error), format!("{at} {expect}"));
    };
    check("4.5", CastType::Int64, "\"4.5\" cannot be cast to int64");
    check("many", CastType::Float64, "\"many\" cannot be cast to float64");
    check("yes", CastType::Bool, "\"yes\" cannot be cast to bool");
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let twice = Columns { rename: vec![pair("a", "c"), pair("b", "c")], ..Columns::default() };
    let files = Files { columns: twice, ..["a.csv".to_owned()].into_iter().collect() };
    let error = Source::open(&files).err().unwrap().to_string();
    assert_eq!(error, "data.columns: \"b\" to \"c\" is renamed twice");
}

#[test]
fn a_folder_of_datasets_must_be_whole() {
    let folder = DataFolder::new();
    let check = |state: &str, expect: &str| {
        folder.write("set/state.json", state);
        let error = open(&[folder.path("set").to_str().unwrap()]).err().unwrap();
        assert_eq!(folder.shown(&error), expect);
    };
    check(
        "{}",
        "set/state.json: not a readable JSON file: missing field `_data_files` at line 1 column 2",
    );
    check(r#"{"_data_files": []}"#, "set: no rows");
    check(
        r#"{"_data_files": [{"filename": "../a.arrow"}]}"#,
        "set/state.json: not a readable state.json file: ../a.arrow is not a file of this folder",
    );
    check(
        r#"{"_data_files": [{"filename": "a.arrow"}]}"#,
        "set/a.arrow: cannot open: No such file or directory (os error 2)",
    );
}
