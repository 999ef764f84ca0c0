//! Parquet and Arrow files.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Float32Array, Int8Array,
    LargeListArray, LargeStringArray, ListArray, StringViewArray, StructArray, UInt64Array,
};

use super::{FoundRow, check_error, open, read, text};
use crate::source::Value;
use crate::testing::{DataFolder, arrow_file, arrow_stream, parquet_columns, parquet_file};

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
    check(Arc::new(UInt64Array::from(vec![7, u64::MAX])), &[Value::Int(7), Value::Null]);
    check(Arc::new(Float32Array::from(vec![0.5])), &[Value::Float(0.5)]);
    check(Arc::new(BooleanArray::from(vec![true])), &[Value::Bool(true)]);
    check(Arc::new(LargeStringArray::from(vec!["a"])), &[text("a")]);
    check(Arc::new(StringViewArray::from(vec!["a"])), &[text("a")]);
    let words = [Some("b"), None, Some("a"), Some("b")];
    let dictionary: DictionaryArray<Int32Type> = words.into_iter().collect();
    check(Arc::new(dictionary), &[text("b"), Value::Null, text("a"), text("b")]);
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    check(Arc::new(lists), &[Value::List(vec![Value::Int(1), Value::Null]), Value::Null]);
    let rows = [Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3), Some(4)])];
    let list = |items: [i64; 2]| Value::List(items.map(Value::Int).to_vec());
    let expect = [list([1, 2]), Value::Null, list([3, 4])];
    let large = LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows.clone());
    check(Arc::new(large), &expect);
    let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 2);
    check(Arc::new(fixed), &expect);
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
    // The fuzz test damages other places.
    let places = (0..good.len()).step_by(2);
    let count = places.len();
    for (place, flip) in places.zip([0x01, 0xff].into_iter().cycle()) {
        let mut bad = good.clone();
        bad[place] ^= flip;
        // A flip in padding or in a text is still a Parquet file: only panics are ruled out.
        if let Err(error) = read(&[&folder.write("flipped.parquet", &bad)], &columns) {
            failed += 1;
            assert_eq!(error.file(), Some(folder.path("flipped.parquet").as_path()), "{error}");
        }
    }
    // A fifth of it is the Arrow schema, which nobody reads.
    assert!(failed > count * 3 / 8, "{failed} of {count} flips were noticed");
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
        // The fuzz test damages other places.
        (1..good.len()).step_by(9).for_each(|kept| check(&good[..kept]));
        for place in (0..good.len()).step_by(3) {
            let mut bad = good.clone();
            bad[place] ^= 0x11;
            check(&bad);
        }
    }
    assert!(failed > 333, "{failed} bad files were noticed");
    check_error(
        "a.arrow",
        "not arrow",
        "a.arrow: not a readable Arrow file: Parser error: Unexpected end of stream: expected 544501614 metadata bytes, got 5",
    );
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
