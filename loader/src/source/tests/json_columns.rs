//! The columns of files whose rows have different keys: `scripts/fixtures/json_files.py`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use serde_json::Value as Json;

use super::{open, read, text};
use crate::source::{Columns, Files, Source, Value, value_of_json};
use crate::testing::{DataFolder, parquet_columns};

const FIXTURE: &str = include_str!("../../../tests/fixtures/json/files.json");

/// A copy of the files in a folder; their paths.
fn written(folder: &DataFolder, files: &Json) -> Vec<String> {
    let files = files.as_object().unwrap().iter();
    files.map(|(name, content)| folder.write(name, content.as_str().unwrap())).collect()
}

#[test]
fn files_are_read_as_datasets_reads_them() {
    let cases: Vec<Json> = serde_json::from_str(FIXTURE).unwrap();
    assert!(cases.len() > 40);
    for case in &cases {
        let folder = DataFolder::new();
        let files = written(&folder, &case["files"]);
        let source = open(&files).unwrap();
        let columns: Vec<String> = serde_json::from_value(case["columns"].clone()).unwrap();
        assert_eq!(sorted(source.columns()), sorted(&columns), "{case}");
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let found = read(&files, &columns).unwrap().into_iter().map(|row| Value::List(row.2));
        let found = Value::List(found.collect());
        assert_eq!(found, value_of_json(case["rows"].clone()), "{case}");
    }
}

fn sorted(names: &[String]) -> Vec<&String> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    names
}

#[test]
fn later_files_may_have_further_keys_and_lack_earlier_ones() {
    let folder = DataFolder::new();
    let first = folder.write("a.jsonl", "{\"text\": \"a\"}\n");
    let later = folder.write("b.json", r#"[{"id": 7}, {"text": "b", "tools": "t"}]"#);
    let other = folder.write("c.jsonl", "{\"tools\": \"u\"}\n");
    let cells = |files: &[&str]| {
        let rows = read(files, &["text", "tools"]).unwrap();
        rows.into_iter().map(|row| row.2).collect::<Vec<_>>()
    };
    let of_first = vec![text("a"), Value::Null];
    let of_later = [vec![Value::Null, Value::Null], vec![text("b"), text("t")]];
    let of_other = vec![Value::Null, text("u")];
    let [one, two] = of_later.clone();
    assert_eq!(cells(&[&first, &later, &other]), [of_first, one, two, of_other.clone()]);
    let [one, two] = of_later;
    assert_eq!(cells(&[&other, &later]), [of_other, one, two]);
    let error = read(&[&first, &other], &["label"]).unwrap_err();
    assert_eq!(folder.shown(&error), "a.jsonl: no column \"label\"; it has text");
}

#[test]
fn a_key_of_a_far_row_is_a_column() {
    let folder = DataFolder::new();
    let rows = "{\"text\": \"a\"}\n".repeat(30_000);
    let file = folder.write("a.jsonl", format!("{rows}{{\"late\": NaN, \"tools\": [1]}}\n"));
    assert_eq!(open(&[file]).unwrap().columns(), ["text", "late", "tools"]);
}

#[test]
fn files_of_tables_may_lack_only_columns_of_the_first() {
    let folder = DataFolder::new();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let labels: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let both = [("label", labels.clone()), ("text", texts.clone())];
    let whole = folder.write("a.parquet", parquet_columns(&both, 10));
    let part = folder.write("b.parquet", parquet_columns(&[("label", labels)], 10));
    let none = folder.write("c.parquet", parquet_columns(&[("id", texts)], 10));
    let columns = ["text", "label"];
    let rows = read(&[&whole, &part, &none], &columns).unwrap();
    let rows: Vec<(u64, Vec<Value>)> = rows.into_iter().map(|row| (row.0, row.2)).collect();
    let of = |row: u64, cells: [Value; 2]| (row, cells.to_vec());
    let expect = [
        of(0, [text("a"), Value::Int(1)]),
        of(1, [text("b"), Value::Int(2)]),
        of(0, [Value::Null, Value::Int(1)]),
        of(1, [Value::Null, Value::Int(2)]),
        of(0, [Value::Null, Value::Null]),
        of(1, [Value::Null, Value::Null]),
    ];
    assert_eq!(rows, expect);
    let error = read(&[&part, &whole], &columns).unwrap_err();
    let remedy = "files of these formats must have the same columns; add what is missing, or leave it out of all \
        files with data.columns.drop";
    let expect = format!("b.parquet: no column \"text\", which a.parquet has: {remedy}");
    assert_eq!(folder.shown(&error), expect);
    assert_eq!(read(&[&part, &whole], &["label"]).unwrap().len(), 4);
    let with = folder.write("a.csv", "text,tools\na,t\n");
    let without = folder.write("b.csv", "text\nb\n");
    let error = read(&[&with, &without], &["text", "tools"]).unwrap_err();
    let expect = format!("b.csv: no column \"tools\", which a.csv has: {remedy}");
    assert_eq!(folder.shown(&error), expect);
}

/// A renamed column may have its new name in some files already.
#[test]
fn columns_are_renamed_in_the_files_that_have_them() {
    let folder = DataFolder::new();
    let old = folder.write("a.jsonl", r#"{"body": "a", "id": 1}"#);
    let new = folder.write("b.jsonl", r#"{"text": "b", "tools": "t"}"#);
    let rename = vec![("body".to_owned(), "text".to_owned())];
    let columns = Columns { rename, drop: vec!["tools".to_owned()], ..Columns::default() };
    let files = Files { columns, ..[old, new].into_iter().collect() };
    let source = Source::open(&files).unwrap();
    assert_eq!(source.columns(), ["text", "id"]);
    let mut found = Vec::new();
    for part in source.parts() {
        let read = source.read(part, &["id", "text"], &mut |records| {
            found.push([records.cell("text", 0).clone(), records.cell("id", 0).clone()]);
            Ok(())
        });
        read.unwrap();
    }
    assert_eq!(found, [[text("a"), Value::Int(1)], [text("b"), Value::Null]]);
}

#[test]
fn empty_files_among_others_are_passed_over_where_datasets_does() {
    let folder = DataFolder::new();
    let empty = ["a.jsonl", "b.json", "c.txt"].map(|name| folder.write(name, ""));
    let blank = folder.write("d.jsonl", "\n \n");
    let file = folder.write("e.jsonl", r#"{"text": "a"}"#);
    let names = [&empty[0], &file, &empty[1], &empty[2], &blank];
    let source = open(&names.map(String::as_str)).unwrap();
    assert_eq!(source.files().len(), 1);
    let named = ["a.jsonl", "b.json", "c.txt", "d.jsonl"];
    assert_eq!(source.empty_files(), named.map(|name| folder.path(name)));
    let error = open(&[empty[0].as_str(), &blank]).err().unwrap();
    assert_eq!(folder.shown(&error), "a.jsonl: the file is empty");
    for name in ["a.csv", "a.parquet", "a.arrow"] {
        let error = open(&[folder.write(name, ""), file.clone()]).err().unwrap();
        assert_eq!(folder.shown(&error), format!("{name}: the file is empty"));
    }
}
