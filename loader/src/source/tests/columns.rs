//! Columns that are renamed, dropped or cast.

use super::text;
use crate::source::{CastType, Columns, Files, Source, Value};
use crate::testing::DataFolder;

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
