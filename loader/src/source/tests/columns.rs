//! Columns that are renamed, dropped, put together or cast.

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
        lists: Vec::new(),
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

/// A column for each label, as tables for pandas have them.
#[test]
fn columns_are_put_together_to_lists() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text,toxic,insult,mild\na,0,1.0,True\nb,1,0,x\n");
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let open = |lists: &[(&str, &[&str])]| {
        let lists = lists.iter().map(|(list, of)| ((*list).to_owned(), names(of))).collect();
        let rename = vec![("mild".to_owned(), "soft".to_owned())];
        let columns = Columns { rename, lists, ..Columns::default() };
        Source::open(&Files { columns, ..[file.clone()].into_iter().collect() })
    };
    let source = open(&[("labels", &["toxic", "insult", "soft"])]).unwrap();
    assert_eq!(source.columns(), ["text", "toxic", "insult", "soft", "labels"]);
    source.require_columns(&["labels", "text"]).unwrap();
    let mut found = Vec::new();
    let mut take = |records: crate::source::Records| {
        found.extend((0..2).map(|record| records.cell("labels", record).clone()));
        assert_eq!(*records.cell("text", 1), text("b"));
        Ok(())
    };
    source.read(source.parts()[0], &["labels", "text"], &mut take).unwrap();
    assert_eq!(found[0], Value::List(vec![Value::Int(0), Value::Float(1.0), Value::Bool(true)]));
    assert_eq!(found[1], Value::List(vec![Value::Int(1), Value::Int(0), text("x")]));
    let lacking = open(&[("labels", &["toxic", "mild"])]).unwrap();
    let error = lacking.require_columns(&["labels"]).unwrap_err();
    let expect = "a.csv: no column \"mild\"; it has text, toxic, insult, soft";
    assert_eq!(folder.shown(&error), expect);
    let nested = open(&[("labels", &["toxic"]), ("all", &["labels"])]).err().unwrap();
    assert_eq!(nested.to_string(), "data.columns: \"labels\" of \"all\" is a list itself");
}

/// Files of text have no types, so that a part without a cast has that of its look.
#[test]
fn casts_apply_to_the_parts_of_a_list_and_to_the_list() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "a,b,text\n1,0,7\n0,2,8\n");
    let read = |cast: &[(&str, CastType)]| {
        let lists = vec![("both".to_owned(), vec!["a".to_owned(), "b".to_owned()])];
        let cast = cast.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        let columns = Columns { lists, cast, ..Columns::default() };
        let source = Source::open(&Files { columns, ..[file.clone()].into_iter().collect() });
        let (source, mut found) = (source.unwrap(), Vec::new());
        let mut take = |records: crate::source::Records| {
            found.extend((0..2).map(|record| records.cell("both", record).clone()));
            assert_eq!(*records.cell("text", 0), text("7"));
            Ok(())
        };
        let read = source.read(source.parts()[0], &["both", "text"], &mut take);
        read.map(|_| found).map_err(|error| folder.shown(&error))
    };
    let list = |a: Value, b: Value| Value::List(vec![a, b]);
    let (one, zero, two) = (Value::Int(1), Value::Int(0), Value::Int(2));
    assert_eq!(read(&[]).unwrap(), [list(one, zero.clone()), list(zero, two.clone())]);
    let of_part = read(&[("a", CastType::String)]).unwrap();
    assert_eq!(of_part, [list(text("1"), Value::Int(0)), list(text("0"), two)]);
    let of_list = read(&[("both", CastType::Float64)]).unwrap();
    let float = Value::Float;
    assert_eq!(of_list, [list(float(1.0), float(0.0)), list(float(0.0), float(2.0))]);
    let of_both = read(&[("a", CastType::Bool), ("both", CastType::String)]).unwrap();
    assert_eq!(of_both, [list(text("true"), text("0")), list(text("false"), text("2"))]);
    let error = read(&[("b", CastType::Bool)]).unwrap_err();
    assert_eq!(error, "a.csv, row 1 (line 3), column \"b\": \"2\" cannot be cast to bool");
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
