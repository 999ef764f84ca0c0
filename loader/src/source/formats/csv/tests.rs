//! Files as pandas reads them: `scripts/fixtures/csv_files.py`.

use serde_json::Value as Json;

use super::*;
use crate::testing::DataFolder;

const FIXTURE: &str = include_str!("../../../../tests/fixtures/csv/files.json");

fn byte(text: &Json) -> Option<u8> {
    text.as_str().map(|text| text.as_bytes()[0])
}

fn options(given: &Json) -> CsvOptions {
    let mut options = CsvOptions::default();
    for (name, value) in given.as_object().unwrap() {
        match name.as_str() {
            "sep" => options.delimiter = byte(value).map(Delimiter::Byte),
            "quotechar" => options.quotechar = byte(value),
            "quoting" if value == 3 => options.quotechar = None,
            "quoting" => {}
            "escapechar" => options.escapechar = byte(value),
            "doublequote" => options.doublequote = value.as_bool().unwrap(),
            "comment" => options.comment = byte(value),
            "skiprows" => options.skiprows = value.as_u64().unwrap(),
            "header" => options.header = value.as_u64(),
            "names" => options.names = serde_json::from_value(value.clone()).unwrap(),
            "na_values" => options.na_values = serde_json::from_value(value.clone()).unwrap(),
            "on_bad_lines" if value == "warn" => options.on_bad_lines = OnBadLines::Warn,
            "on_bad_lines" => options.on_bad_lines = OnBadLines::Skip,
            other => panic!("{other}"),
        }
    }
    if given.get("names").is_some() && given.get("header").is_none() {
        options.header = None;
    }
    options
}

/// All rows, by the places of the columns.
fn rows(text: &str, csv: CsvOptions) -> Result<Vec<Vec<Option<String>>>> {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", text);
    let format = FormatOptions { csv, ..FormatOptions::default() };
    let delimiter = match format.csv.delimiter {
        Some(Delimiter::Byte(byte)) => byte,
        _ => b',',
    };
    let (options, bad_lines) = (format.csv.clone(), BadLines::new(format.csv.on_bad_lines));
    let (path, encoding) = (PathBuf::from(file), None);
    let file = CsvFile { path, options, delimiter, encoding, bad_lines };
    let (mut rows, mut record, mut found) = (file.rows()?, Record::default(), Vec::new());
    while rows.next(&mut record, &|| 0)? {
        let cell = |place| match file.value(rows.field(&record, place)).unwrap() {
            Value::Text(text) => Some(text),
            _ => None,
        };
        found.push((0..rows.columns().len()).map(cell).collect());
    }
    Ok(found)
}

#[test]
fn files_are_read_as_pandas_reads_them() {
    let cases: Vec<Json> = serde_json::from_str(FIXTURE).unwrap();
    assert!(cases.len() > 200);
    let mut different = Vec::new();
    for case in &cases {
        let found = rows(case["text"].as_str().unwrap(), options(&case["options"]));
        let is_equal = match (&found, case.get("rows")) {
            (Ok(found), Some(expect)) => serde_json::to_value(found).unwrap() == *expect,
            (found, expect) => found.is_err() && expect.is_none(),
        };
        if !is_equal {
            different.push(format!("{case}\n  {found:?}"));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

#[test]
fn lines_that_are_left_out_are_counted_and_named() {
    let folder = DataFolder::new();
    let path = folder.write("a.csv", "x,y\na,1\n1,2,3\n\"b\nb\",2\n1,2,3,4\n");
    let csv = CsvOptions { on_bad_lines: OnBadLines::Warn, ..CsvOptions::default() };
    let format = FormatOptions { csv, ..FormatOptions::default() };
    let file = open(Path::new(&path), &format).unwrap();
    let mut rows = 0;
    for _ in 0..2 {
        file.read(0, &["x"], &mut |records| {
            rows += records.len();
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(rows, 4);
    assert_eq!(file.warnings(), ["left out 2 lines with too many fields (line 3, 6)"]);
}

#[test]
fn the_delimiter_is_the_one_that_the_lines_use_alike() {
    let check = |text: &str, expect| {
        let found = sniff::delimiter(text.as_bytes(), &CsvOptions::default()).unwrap();
        assert_eq!(char::from(found), expect, "{text:?}");
    };
    check("x,y\na,1\n", ',');
    check("x;y\na, b;1\nc, d, e;2\n", ';');
    check("x\ty\na;b\t1\n", '\t');
    check("x|y\n\"a|b\"|1\n", '|');
    check("x\na\n", ',');
    check("", ',');
}

#[test]
fn numbers_are_read_in_the_notation_of_the_file() {
    let csv = CsvOptions { decimal: b',', thousands: Some(b'.'), ..CsvOptions::default() };
    let check = |text, expect: Option<&str>| assert_eq!(csv.number(text).as_deref(), expect);
    check("1,5", Some("1.5"));
    check("-1.234,5", Some("-1234.5"));
    check("7", Some("7"));
    check("1,5 kg", None);
    check("a", None);
    check("", None);
    assert_eq!(CsvOptions::default().number("1.5"), None);
}
