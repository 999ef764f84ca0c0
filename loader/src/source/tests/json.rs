//! JSON: lines and documents.

use super::{check_error, check_text_rows, open, read, text};
use crate::source::{Files, Source, Value};
use crate::testing::DataFolder;

#[test]
fn jsonl_rows_are_objects_a_line() {
    check_text_rows(
        "a.jsonl",
        "\u{feff}{\"text\": \"a\\n\\u00e9\", \"label\": \"1\"}\n\n{\"label\": \"2\", \"text\": \"b\", \"x\": [1]}",
        &[(1, "a\né", "1"), (3, "b", "2")],
    );
    // The mark precedes the first line, whether that is a row or not.
    let row = "\u{feff}\n{\"text\": \"a\", \"label\": \"1\"}\n";
    check_text_rows("a.jsonl", row, &[(2, "a", "1")]);
    let folder = DataFolder::new();
    let file = folder.write("a.ndjson", r#"{"a": null, "b": [1, 2.5, true], "c": {"d": "e"}}"#);
    let list = Value::List(vec![Value::Int(1), Value::Float(2.5), Value::Bool(true)]);
    let fields = Value::Struct(vec![("d".to_owned(), text("e"))]);
    let rows = read(&[&file], &["b", "a", "c"]).unwrap();
    assert_eq!(rows, [(0, Some(1), vec![list, Value::Null, fields])]);
}

#[test]
fn numbers_that_only_python_writes_are_missing_values() {
    let folder = DataFolder::new();
    let lines = [
        r#"{"a": NaN, "b": [1, -Infinity], "c": "NaN \" Infinity", "NaN": Infinity}"#,
        r#"{"a": 1, "b": [], "c": "\\", "NaN": 2}"#,
    ];
    let file = folder.write("a.jsonl", lines.join("\n"));
    let rows = read(&[&file], &["a", "b", "c", "NaN"]).unwrap();
    let list = Value::List(vec![Value::Int(1), Value::Null]);
    let first = vec![Value::Null, list, text("NaN \" Infinity"), Value::Null];
    let second = vec![Value::Int(1), Value::List(Vec::new()), text("\\"), Value::Int(2)];
    assert_eq!(rows, [(0, Some(1), first), (1, Some(2), second)]);
    let expect = "a.jsonl, row 0 (line 1): not JSON: expected value at column 7";
    check_error("a.jsonl", r#"{"a": Nan}"#, expect);
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
    check(
        b"[1]",
        "a.jsonl, row 1 (line 3): expected one JSON object a line, found an array; a file that is one list of rows is called .json",
    );
    check_error(
        "a.jsonl",
        "{\"text\": \"a\"},\n{\"text\": \"b\"}\n",
        "a.jsonl, row 0 (line 1): there is a comma behind the object: a file of one object a line has none, and one \
         that is a list begins with [ and is called .json",
    );
    check_error(
        "a.jsonl",
        "[\n  {\"text\": \"a\"}\n]\n",
        "a.jsonl, row 0 (line 1): expected one JSON object a line; this is a list over several lines, which is read \
         from a file whose name ends in .json",
    );
    check_error(
        "a.json",
        "{\n  \"text\": [\"a\", \"b\"],\n  \"label\": [0, 1]\n}\n",
        "a.json, row 0 (line 1): expected one JSON object a line; this is an object over several lines: write each \
         row on one line, or all rows in one list to a file whose name ends in .json",
    );
}

/// Tables of pandas, and several splits in one file, which `datasets` reads as one row.
#[test]
fn an_object_that_holds_all_rows_says_what_to_write_instead() {
    let columns = "a.json: not a readable JSON file: it is one object of columns, as pandas writes by default; \
                   write a row a line with to_json(FILE, orient=\"records\", lines=True)";
    for table in [
        r#"{"text": {"0": "a", "1": "b"}, "label": {"0": 0, "1": 1}}"#,
        "{\n\"text\": {\n\"0\": \"a\"}\n}\n",
        r#"{"0": {"text": "a", "label": 0}, "1": {"text": "b", "label": 1}}"#,
    ] {
        check_error("a.json", table, columns);
    }
    check_error(
        "a.json",
        r#"{"train": [{"text": "a", "label": 0}], "test": [{"text": "b", "label": 1}], "version": 1}"#,
        "a.json: not a readable JSON file: it is one object with lists of rows under \"train\", \"test\"; write \
         each list to a file of its own",
    );
    let folder = DataFolder::new();
    let row =
        folder.write("a.json", r#"{"messages": [{"role": "user"}], "translation": {"en": "a"}}"#);
    assert_eq!(read(&[&row], &["messages", "translation"]).unwrap().len(), 1);
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
    check("\u{feff}[{\"text\": \"a\", \"label\": \"b\", \"score\": NaN}]", &[("a", "b")]);
    let folder = DataFolder::new();
    let error = open(&[folder.write("a.json", r#"{"data": []}"#)]).err().unwrap();
    assert_eq!(folder.shown(&error), "a.json: no rows");
    check_error(
        "a.json",
        r#"[{"text": "a"}, {"text": Nan}]"#,
        "a.json: not a readable JSON file: expected value at line 1 column 26",
    );
    check_error("a.json", r#"{"data": [7]}"#, "a.json, row 0: expected an object for each row");
    check_error(
        "a.json",
        r#"{"columns": ["text"], "index": [0], "data": [["a"]]}"#,
        "a.json, row 0: expected an object for each row, found a list; pandas' to_json writes objects with \
         orient=\"records\"",
    );
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
fn pythons_notation_is_named() {
    let folder = DataFolder::new();
    let check = |name: &str, content: &str, expect: &str| {
        let file = folder.write(name, content);
        let source = Source::open(&[file].into_iter().collect::<Files>());
        let read = source.and_then(|it| it.read(it.parts()[0], &["text"], &mut |_| Ok(())));
        let error = folder.shown(&read.unwrap_err());
        assert!(error.contains(expect), "{error}");
    };
    check("a.jsonl", "{'text': 'a'}\n", "row 0 (line 1): this is Python's notation");
    check(
        "a.json",
        "[{'text': 'a'}]",
        "key must be a string at line 1 column 3; Python's notation",
    );
}
