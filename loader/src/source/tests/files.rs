//! Names of files, of any format, and files without usable rows.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, TimestampMillisecondArray};

use super::{check_error, open, read, read_as, text};
use crate::error::Error;
use crate::source::{Encoding, Files, FormatOptions, Source, Value};
use crate::testing::{DataFolder, parquet_columns};

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
fn a_file_that_cannot_be_used_says_why() {
    check_error("a.csv", "", "a.csv: the file is empty");
    check_error("a.parquet", "", "a.parquet: the file is empty");
    check_error("a.csv", "id,words\n", "a.csv: no columns \"text\", \"label\"; it has id, words");
    check_error("a.csv", "text,label,text\n", "a.csv: 2 columns are named \"text\"");
    check_error(
        "a.jsonl",
        "{\"words\": 1}",
        "a.jsonl: no columns \"text\", \"label\"; it has words",
    );
    check_error(
        "a.xlsx",
        "x",
        "a.xlsx: unknown data format; known file names end in .csv, .tsv, .jsonl, .ndjson, .json, .txt, .parquet, .pq, .arrow, .feather, \
         text also in .gz or .zst; save the sheet as CSV",
    );
    let folder = DataFolder::new();
    for (name, end) in [
        ("a.csv.zip", "; unpack it"),
        ("a.pkl", "; write its rows to Parquet, as pandas' to_parquet does"),
        (
            "a.conll",
            "with lists of its words and their labels: {\"tokens\": [...], \"labels\": [...]}",
        ),
        ("a.yaml", "text also in .gz or .zst"),
    ] {
        let error = open(&[folder.write(name, "x")]).err().unwrap().to_string();
        assert!(error.ends_with(end), "{error}");
    }
    let dates: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1]));
    check_error(
        "a.parquet",
        parquet_columns(&[("text", dates.clone()), ("label", dates)], 10),
        "a.parquet: not a readable Parquet file: column \"text\": values of type Timestamp(ms) cannot be read; write them as numbers or texts",
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
    check(
        "sub.csv",
        "sub.csv: is a folder, but neither one that `save_to_disk` of datasets wrote, nor one that has a folder of images or of texts for each class",
    );
    folder.write("files/README.md", "");
    folder.write("files/b.csv", "text\na\n");
    check(
        "files",
        "files: is a folder, so name its files, alone or by a pattern such as files/*.csv",
    );
    folder.write("below/data/b.jsonl", "{\"text\": \"a\"}\n");
    check(
        "below",
        "below: is a folder, so name its files, alone or by a pattern such as below/*/*.jsonl",
    );
    let partitions = "\"label\" is only in names of folders such as label=0, which are not read: write it into the \
                      files, as pandas.read_parquet(FOLDER).to_parquet(FILE) does";
    folder.write("parts/label=0/b.jsonl", "{\"text\": \"a\"}\n");
    let expect =
        "parts: is a folder, so name its files, alone or by a pattern such as parts/*/*.jsonl";
    check("parts", &format!("{expect}; {partitions}"));
    let file = "parts/label=0/b.jsonl";
    let error = read(&[folder.path(file).to_str().unwrap()], &["label"]).unwrap_err();
    let expect = format!("{file}: no column \"label\"; it has text; {partitions}");
    assert_eq!(folder.shown(&error), expect);
    assert!(matches!(open(&[""; 0]), Err(Error::NoFiles)));
}

/// The texts of `data/CLASS/*.txt`, each a row, as scikit-learn's `load_files` has them.
#[test]
fn a_folder_has_a_folder_of_texts_for_each_class() {
    let folder = DataFolder::new();
    folder.write("data/positive/b.txt", "good\r\nand more");
    folder.write("data/positive/a.txt", "fine\n");
    folder.write("data/negative/1.TXT", "\u{fc}ble");
    folder.write("data/negative/notes.md", "no text of the set");
    folder.write("data/labels.txt", "beside the classes");
    folder.write("data/.hidden/x.txt", "left out");
    let data = folder.path("data").display().to_string();
    let read = |options: FormatOptions| {
        let rows = read_as(options, &[&data], &["text", "label"])?;
        Ok::<_, Error>(rows.into_iter().map(|(_, _, cells)| cells).collect::<Vec<_>>())
    };
    let names = vec!["negative".to_owned(), "positive".to_owned()];
    let opened = open(&[&data]).unwrap();
    assert_eq!(opened.class_names("label"), [Some(names)]);
    let warning =
        "left out 1 file in folders of classes (negative/notes.md), where only .txt is read";
    assert_eq!(opened.left_out().collect::<Vec<_>>(), [(0, warning.to_owned())]);
    let found = read(FormatOptions::default()).unwrap();
    let text = |it: &str, class| vec![text(it), Value::Int(class)];
    assert_eq!(found, [text("\u{fc}ble", 0), text("fine\n", 1), text("good\nand more", 1)]);
    let latin =
        FormatOptions { encoding: Encoding::of_name("latin-1"), ..FormatOptions::default() };
    assert_eq!(read(latin).unwrap()[0], text("\u{c3}\u{bc}ble", 0));
    folder.write("data/negative/far/2.txt", "below a class");
    let error = folder.shown(&read(FormatOptions::default()).unwrap_err());
    assert!(error.starts_with("data/negative/far/2.txt: a text below the folder"), "{error}");
}

/// Paths in rows are texts, and so a name that is not UTF-8 is counted or refused, never passed over.
#[test]
fn names_that_are_not_utf_8_are_counted_in_folders_and_refused_by_globs() {
    let folder = DataFolder::new();
    let other = |folder: PathBuf, name: &[u8], content: &str| {
        let path = folder.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let opened = |name: &str| open(&[&folder.path(name).display().to_string()]);
    for (data, name) in [("images", "1.png"), ("texts", "1.txt")] {
        folder.write(&format!("{data}/a/{name}"), "one");
        let end = name.split_once('.').unwrap().1;
        other(folder.path(data).join("a"), &[b"\xff.", end.as_bytes()].concat(), "two");
        other(folder.path(data), &[b"\xfe/3.", end.as_bytes()].concat(), "three");
        let opened = opened(data).unwrap();
        assert_eq!(opened.rows(), Some(1));
        let left_out: Vec<String> = opened.left_out().map(|(_, warning)| warning).collect();
        let counted =
            |what: &str| left_out.iter().any(|it| it.starts_with(&format!("left out 1 {what}")));
        assert!(
            counted(&format!(
                "file whose name is not UTF-8 in folders of classes (a/\u{fffd}.{end}), which"
            )),
            "{left_out:?}"
        );
        assert!(counted("folder whose name is not UTF-8"), "{left_out:?}");
    }
    other(folder.path("lone/a"), b"\xff.txt", "no other row");
    let error = folder.shown(&opened("lone").err().unwrap());
    assert!(error.starts_with("lone/a/\u{fffd}.txt: its name is not UTF-8"), "{error}");
    folder.write("globs/x/a.csv", "text\na\n");
    other(folder.path("globs/x"), b"\xff.jsonl", "");
    opened("globs/x/*.csv").unwrap();
    other(folder.path("globs/x"), b"\xff.csv", "text\nb\n");
    for pattern in ["globs/x/*.csv", "globs/*/?.csv", "globs/**/*.csv"] {
        let error = folder.shown(&opened(pattern).err().unwrap());
        assert!(error.starts_with("globs/x/\u{fffd}.csv: its name is not UTF-8"), "{error}");
    }
    opened("globs/x/a*.csv").unwrap();
    opened("globs/*.csv").err().unwrap();
}

/// Links to files are read, as by `datasets`; what is left out is counted by its cause, and nothing waits for a pipe.
#[test]
fn links_pipes_and_hidden_files_in_folders_of_classes_are_read_or_counted() {
    let folder = DataFolder::new();
    folder.write("data/a/1.txt", "one");
    folder.write("data/a/.2.txt", "");
    folder.write("data/a/.DS_Store", "");
    folder.write("elsewhere/c.txt", "linked");
    let path = |name: &str| folder.path(name);
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(path(target), path(name));
    link("elsewhere/c.txt", "data/a/2.txt").unwrap();
    link("elsewhere/none.txt", "data/a/3.txt").unwrap();
    link("elsewhere", "data/a/far").unwrap();
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(path(name)).status();
        assert!(made.unwrap().success());
        path(name).display().to_string()
    };
    pipe("data/a/4.txt");
    let data = path("data").display().to_string();
    let opened = open(&[&data]).unwrap();
    let rows = read_as(FormatOptions::default(), &[&data], &["text"]).unwrap();
    let texts: Vec<_> = rows.into_iter().map(|(_, _, cells)| cells).collect();
    assert_eq!(texts, [[text("one")], [text("linked")]]);
    let warnings: Vec<String> = opened.left_out().map(|(_, warning)| warning).collect();
    let causes = [
        "2 hidden files in folders of classes (a/.2.txt, a/.DS_Store)",
        "1 link that leads nowhere in folders of classes (a/3.txt)",
        "1 link to a folder in folders of classes (a/far)",
        "1 pipe, socket or device in folders of classes (a/4.txt)",
    ];
    let expect = causes.map(|cause| format!("left out {cause}, where only .txt is read"));
    assert_eq!(warnings, expect);
    let (part, row) = (opened.parts()[0], 1);
    assert_eq!(opened.file_of_row(part, row), Some(std::path::Path::new("a/2.txt")));
    let error = open(&[&pipe("rows.csv")]).err().unwrap().to_string();
    assert!(error.contains("rows.csv: a pipe, socket or device"), "{error}");
}

#[test]
fn pointers_and_pages_in_the_place_of_files_are_named() {
    let folder = DataFolder::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let page = "\n<!DOCTYPE html>\n<html><body>Not Found</body></html>\n";
    let check = |name: &str, content: &str, expect: &str| {
        let file = folder.write(name, content);
        let error = Source::open(&[file].into_iter().collect::<Files>()).err().unwrap();
        let error = folder.shown(&error);
        assert!(
            error.starts_with(&format!("{name}: not a readable data file: {expect}")),
            "{error}"
        );
    };
    for name in ["a.csv", "a.json", "a.jsonl", "a.parquet", "a.arrow"] {
        check(name, pointer, "it is a pointer of Git LFS");
        check(name, page, "it is a page of HTML");
    }
    let text = folder.write("a.txt", page);
    assert!(Source::open(&[text].into_iter().collect::<Files>()).is_ok());
}

#[test]
fn columns_of_nearly_the_same_name_are_named() {
    let folder = DataFolder::new();
    let check = |name: &str, content: &str, expect: &str| {
        let file = folder.write(name, content);
        let source = Source::open(&[file].into_iter().collect::<Files>()).unwrap();
        let error = source.require_columns(&["label"]).unwrap_err();
        assert_eq!(folder.shown(&error), format!("{name}: no column \"label\"; it has {expect}"));
    };
    let alike = "; names count with their case and spaces, as";
    check("a.csv", "text, Label\na,1\n", &format!("text,  Label{alike} \" Label\" has them"));
    check("b.csv", "text,LABEL\na,1\n", &format!("text, LABEL{alike} \"LABEL\" has them"));
    check("c.csv", "text,labels\na,1\n", "text, labels");
    let lines =
        "text; a .txt file has one text a line, and rows with columns are in CSV, JSON or Parquet";
    check("d.txt", "a\n", lines);
}

/// As classes, they would be learnt instead.
#[test]
fn folders_of_splits_are_no_classes() {
    let folder = DataFolder::new();
    for split in ["train", "val"] {
        std::fs::create_dir_all(folder.path("pets").join(split).join("cat")).unwrap();
        folder.write(&format!("pets/{split}/cat/a.txt"), "a");
        folder.write(&format!("pets/{split}/b.txt"), "b");
    }
    let open = |name: &str| {
        let files: Files = [folder.path(name).display().to_string()].into_iter().collect();
        Source::open(&files).map(|_| ()).map_err(|error| folder.shown(&error))
    };
    let error = open("pets").unwrap_err();
    let named = "name pets/train by data.train, pets/val by data.validation";
    assert_eq!(error, format!("pets: is a folder, which has one for each split: {named}"));
    for (first, second) in [("evaluation", "training"), ("pets-testing.1", "train_data")] {
        let pets = format!("of-{first}");
        for split in [first, second] {
            std::fs::create_dir_all(folder.path(&pets).join(split)).unwrap();
            folder.write(&format!("{pets}/{split}/a.txt"), "a");
        }
        let named = format!("name {pets}/{first} by data.test, {pets}/{second} by data.train");
        let error = open(&pets).unwrap_err();
        assert!(error.ends_with(&named), "{error}");
    }
    std::fs::create_dir_all(folder.path("pets/other")).unwrap();
    folder.write("pets/other/c.txt", "c");
    assert!(!open("pets").is_err_and(|error| error.contains("split")));
}
