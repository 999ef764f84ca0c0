//! Preparing a set: what comes out, what the cache keeps, and every error on the way.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::error::Error;
use crate::labels::{LabelEncoder, LabelKind, LabelSpec, LabelTarget, Labels};
use crate::source::OnBadLines;
use crate::tasks::{DecoderStart, MaskedLm, Seq2SeqLm, SequenceClassification, TextColumn};
use crate::testing::{DataFolder, WordTokenizer, parquet_file};

fn word_lengths() -> WordTokenizer {
    WordTokenizer::reading(|word| word.len() as u32)
}

fn label(kind: LabelKind) -> Option<LabelSpec> {
    Some(LabelSpec { column: "label".to_owned(), kind, weight: None, ignored: Vec::new() })
}

fn options(files: &[String], cache_dir: Option<PathBuf>) -> DatasetOptions {
    let label = label(LabelKind::Infer { num_labels: None });
    let task = SequenceClassification { text: "text".to_owned(), text_pair: None, label };
    DatasetOptions {
        files: files.iter().cloned().collect(),
        task: TaskSpec::SequenceClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir,
    }
}

/// All that is trained on of each row.
fn contents(set: &TokenizedSet) -> (Vec<impl PartialEq + std::fmt::Debug + use<>>, Labels) {
    let row = |row| {
        let tokens = (set.input_ids(row).unwrap(), set.token_type_ids(row).unwrap());
        (tokens, set.token_labels(row).unwrap(), set.origin(row))
    };
    ((0..set.len()).map(row).collect(), set.labels().clone())
}

fn prepare_plain(files: &[String]) -> Result<Prepared> {
    prepare(&options(files, None), &word_lengths())
}

#[test]
fn files_of_all_formats_make_one_set_in_order() {
    let folder = DataFolder::new();
    let files = [
        folder.write("a.csv", "text,label\na bb,1\n\"ccc, d\",0\n"),
        folder.write("b.parquet", parquet_file(&[("x", 0), ("yy", 2), ("zzz z", 1)], 2)),
        folder.write("c.jsonl", r#"{"text": "last one", "label": 2}"#),
    ];
    let set = prepare_plain(&files).unwrap().set;
    let ids: Vec<Vec<u32>> = (0..set.len()).map(|row| set.input_ids(row).unwrap()).collect();
    assert_eq!(ids, [&[1, 2][..], &[4, 1], &[1], &[2], &[3, 1], &[4, 3]]);
    assert_eq!(*set.labels(), Labels::Class(vec![1, 0, 0, 2, 1, 2]));
    assert_eq!(set.lengths(), [2, 2, 1, 1, 2, 2]);
    assert_eq!(set.label_encoder().unwrap().num_labels(), 3);
    assert_eq!(set.token_type_ids(0).unwrap(), None);
    let origin = |row| set.origin(row).map(|at| folder.shown(&Error::UnclosedQuote { at }));
    assert_eq!(origin(1).unwrap(), "a.csv, row 1: a quoted field is never closed");
    assert_eq!(origin(4).unwrap(), "b.parquet, row 2: a quoted field is never closed");
    assert_eq!(origin(6), None);
}

#[test]
fn a_pair_of_texts_has_token_types() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "one,two\na bb,ccc\n");
    let pair = SequenceClassification {
        text: "one".to_owned(),
        text_pair: Some("two".to_owned()),
        label: None,
    };
    let task = TaskSpec::SequenceClassification(pair);
    let options = DatasetOptions { task, ..options(&[file], None) };
    let set = prepare(&options, &word_lengths()).unwrap().set;
    assert_eq!(set.input_ids(0).unwrap(), [1, 2, 9, 3]);
    assert_eq!(set.token_type_ids(0).unwrap(), Some(vec![0, 0, 1, 1]));
    assert_eq!(*set.labels(), Labels::None);
}

#[test]
fn the_cache_is_reused_whatever_the_files_are_called() {
    let folder = DataFolder::new();
    let cache = Some(folder.path("cache"));
    let content = "text,label\na bb,pos\nccc,neg\n";
    let run = |name: &str, content: &str| {
        let options = options(&[folder.write(name, content)], cache.clone());
        let prepared = prepare(&options, &word_lengths()).unwrap();
        assert_eq!(prepared.warnings, [""; 0]);
        let file = prepared.set.files()[0].path.clone();
        assert_eq!(file, folder.path(name));
        (prepared.cache_hit, prepared.set)
    };
    let (hit, first) = run("a.csv", content);
    assert!(!hit);
    let (hit, second) = run("a.csv", content);
    assert!(hit && contents(&first) == contents(&second));
    let (hit, renamed) = run("b.csv", content);
    assert!(hit && renamed.labels() == first.labels());
    let (hit, other) = run("a.csv", "text,label\na bb,neg\nccc,pos\n");
    assert!(!hit && other.labels() != first.labels());
}

/// A set of the cache warns of its rows as it did when it was made.
#[test]
fn warnings_about_rows_are_repeated_for_a_set_of_the_cache() {
    let folder = DataFolder::new();
    folder.write("empty.jsonl", "");
    let rows = "text,label\na bb,0\na,1,2\nccc,1\n,0\n";
    let run = |name: &str| {
        let mut options = options(&[folder.write(name, rows)], Some(folder.path("cache")));
        options.files.patterns.insert(0, folder.path("empty.jsonl").display().to_string());
        options.files.format.csv.on_bad_lines = OnBadLines::Warn;
        let prepared = prepare(&options, &word_lengths()).unwrap();
        let empty = format!("{}: the file is empty", folder.path("empty.jsonl").display());
        assert_eq!(prepared.warnings, [empty]);
        let bad = "left out 1 line with too many fields (line 3)";
        let bad = format!("{}: {bad}", folder.path(name).display());
        assert_eq!(prepared.set.row_warnings(), [bad]);
        let without_text = prepared.set.about_rows_without_text().unwrap();
        assert!(without_text.starts_with("1 row has no text"), "{without_text}");
        prepared.cache_hit
    };
    assert_eq!(["a.csv", "b.csv"].map(run), [false, true]);
}

/// Files that are left out make no other set, and their warning is that of today.
#[test]
fn files_beside_the_texts_of_classes_are_counted_anew_for_a_set_of_the_cache() {
    let folder = DataFolder::new();
    folder.write("set/bad/1.txt", "a bb");
    folder.write("set/good/1.txt", "ccc");
    let run = || {
        let options =
            options(&[folder.path("set").display().to_string()], Some(folder.path("cache")));
        let prepared = prepare(&options, &word_lengths()).unwrap();
        (prepared.cache_hit, prepared.set.row_warnings().len())
    };
    assert_eq!(run(), (false, 0));
    folder.write("set/good/notes.md", "");
    assert_eq!(run(), (true, 1));
    fs::remove_file(folder.path("set/good/notes.md")).unwrap();
    assert_eq!(run(), (true, 0));
}

#[test]
fn other_options_are_another_set() {
    let folder = DataFolder::new();
    let options =
        options(&[folder.write("a.csv", "text,label,other\na,0,b\n")], Some(folder.path("cache")));
    assert!(!prepare(&options, &word_lengths()).unwrap().cache_hit);
    let TaskSpec::SequenceClassification(task) = &options.task else { unreachable!() };
    let check = |task: SequenceClassification| {
        let task = TaskSpec::SequenceClassification(task);
        let options = DatasetOptions { task, ..options.clone() };
        assert!(!prepare(&options, &word_lengths()).unwrap().cache_hit);
        assert!(prepare(&options, &word_lengths()).unwrap().cache_hit);
    };
    check(SequenceClassification { text: "other".to_owned(), ..task.clone() });
    check(SequenceClassification { text_pair: Some("other".to_owned()), ..task.clone() });
    check(SequenceClassification {
        label: label(LabelKind::Regression { num_labels: 1 }),
        ..task.clone()
    });
    check(SequenceClassification { label: None, ..task.clone() });
}

#[test]
fn a_corrupt_cache_entry_is_noticed_and_made_anew() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text,label\na bb,pos\nccc,neg\n");
    let options = options(&[file], Some(folder.path("cache")));
    let first = contents(&prepare(&options, &word_lengths()).unwrap().set);
    let mut entries =
        fs::read_dir(folder.path("cache/tokens")).unwrap().map(|it| it.unwrap().path());
    let entry = entries.find(|entry| entry.is_dir()).unwrap();
    let names: Vec<PathBuf> =
        fs::read_dir(&entry).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(names.len(), 6);
    let damages: [fn(&Path, Vec<u8>); 4] = [
        |path, _| fs::remove_file(path).unwrap(),
        |path, bytes| fs::write(path, &bytes[..bytes.len() - 1]).unwrap(),
        |path, bytes| fs::write(path, [bytes, vec![0; 8]].concat()).unwrap(),
        |path, mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        },
    ];
    for path in &names {
        for damage in damages {
            damage(path, fs::read(path).unwrap());
            let rebuilt = prepare(&options, &word_lengths()).unwrap();
            assert!(!rebuilt.cache_hit && contents(&rebuilt.set) == first);
            assert_eq!(rebuilt.warnings.len(), 1);
            assert!(rebuilt.warnings[0].contains("cached tokens are corrupt"));
            let again = prepare(&options, &word_lengths()).unwrap();
            assert!(again.cache_hit && contents(&again.set) == first && again.warnings.is_empty());
        }
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text,label\na,0\n");
    folder.write("cache/tokens", "a file where a folder should be");
    let error = prepare(&options(&[file], Some(folder.path("cache"))), &word_lengths());
    let expect = "cache/tokens: cannot keep the tokenized rows: File exists (os error 17)";
    assert_eq!(folder.shown(&error.unwrap_err()), expect);
}

#[test]
fn progress_is_reported_and_may_be_stopped() {
    let folder = DataFolder::new();
    let lines: String = (0..30_000).map(|row| format!("text number {row},{}\n", row % 3)).collect();
    let file = folder.write("a.csv", format!("text,label\n{lines}"));
    let options = options(&[file], Some(folder.path("cache")));
    let mut reported = Vec::new();
    let stopped = prepare_watched(&options, &word_lengths(), &mut |rows| {
        reported.push(rows);
        reported.len() < 2
    });
    assert!(matches!(stopped, Err(Error::Abandoned)));
    assert_eq!(reported.len(), 2);
    assert!(reported[0] < reported[1] && reported[1] < 30_000, "{reported:?}");
    let left = fs::read_dir(folder.path("cache/tokens")).unwrap().count();
    assert_eq!(left, 1, "only the lock file is left");
}

#[test]
fn several_writers_share_one_cache() {
    let folder = DataFolder::new();
    let lines: String = (0..2_000).map(|row| format!("text number {row},{}\n", row % 3)).collect();
    let file = folder.write("a.csv", format!("text,label\n{lines}"));
    let options = options(&[file], Some(folder.path("cache")));
    let sets: Vec<Prepared> = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| prepare(&options, &word_lengths()).unwrap()));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(sets.windows(2).all(|pair| contents(&pair[0].set) == contents(&pair[1].set)));
    assert!(prepare(&options, &word_lengths()).unwrap().cache_hit);
    let entries = fs::read_dir(folder.path("cache/tokens")).unwrap().count();
    assert_eq!(entries, 2, "unfinished entries were left behind beside the entry and the lock");
}

#[test]
fn bad_rows_name_file_row_line_and_column() {
    let folder = DataFolder::new();
    let check = |name: &str, content: &str, expect: &str| {
        let error = prepare_plain(&[folder.write(name, content)]).unwrap_err();
        assert_eq!(folder.shown(&error), expect);
    };
    check(
        "a.csv",
        "text,label\na,0\nb,\n",
        "a.csv, row 1 (line 3), column \"label\": no label: it is missing, or NaN; data.ignored_labels: [\"\"] leaves it out",
    );
    check(
        "a.jsonl",
        "{\"text\": 5, \"label\": 0}\n",
        "a.jsonl, row 0 (line 1), column \"text\": expected text, found an integer",
    );
    check(
        "a.csv",
        "text,label\na,0\nunspeakable,0\n",
        "a.csv, row 1 (line 3): cannot tokenize: no word for it",
    );
    check(
        "a.jsonl",
        "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"b\", \"label\": 0.5}\n",
        "a.jsonl, row 1 (line 2), column \"label\": 0.5 is not a class label; to regress on numbers, \
         set model.num_labels to 1",
    );
    check("a.csv", "text,label\n", "a.csv: no rows");
}

#[test]
fn rows_without_text_are_trained_on_and_counted() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text,label\na,0\n,1\n,0\n");
    let set = prepare_plain(&[file]).unwrap().set;
    assert_eq!(set.len(), 3);
    assert!(set.about_rows_without_text().unwrap().starts_with("2 rows have no text"));
}

#[test]
fn rows_of_ignored_labels_are_left_out_and_counted() {
    let folder = DataFolder::new();
    let run = |name: &str, rows: &str, ignored: &[&str]| {
        let mut options = options(&[folder.write(name, rows)], None);
        let TaskSpec::SequenceClassification(task) = &mut options.task else { unreachable!() };
        task.label.as_mut().unwrap().ignored = ignored.iter().map(|it| (*it).to_owned()).collect();
        prepare(&options, &word_lengths()).map(|prepared| prepared.set)
    };
    let snli = "text,label\na,yes\nb,-\nc,no\nd,-\n";
    let set = run("a.csv", snli, &["-"]).unwrap();
    assert_eq!(
        (set.label_encoder().unwrap().id2label(), set.len()),
        (&texts(&["no", "yes"])[..], 2)
    );
    assert_eq!(set.about_doubtful_labels(), [""; 0]);
    let warning = "left out 2 rows that have a label of data.ignored_labels; the first is row 1";
    assert!(set.row_warnings()[0].ends_with(warning), "{:?}", set.row_warnings());
    assert_eq!(set.origin(1).unwrap().row, 2);
    let set = run("a.csv", snli, &[]).unwrap();
    let about = "2 rows have the label \"-\", by which data sets mark rows without a label, and which is a class here: \
        data.ignored_labels: [\"-\"] leaves these rows out, and a data.label_map with this label keeps them";
    assert_eq!(set.about_doubtful_labels(), [about]);
    // Numbers, numbers that pandas made floats of, and labels that are missing.
    let numbers = "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"b\", \"label\": -1.0}\n\
        {\"text\": \"c\", \"label\": 1}\n{\"text\": \"d\"}\n";
    let set = run("a.jsonl", numbers, &["-1", ""]).unwrap();
    assert_eq!(*set.labels(), Labels::Class(vec![0, 1]));
    let missing = run("a.jsonl", numbers, &["-1"]).err().unwrap().to_string();
    assert!(missing.contains("no label: it is missing"), "{missing}");
    let none = run("a.csv", "text,label\na,-\nb,-\n", &["-"]).err().unwrap();
    let expect = "a.csv: all 2 rows were left out: they have a label of data.ignored_labels";
    assert_eq!(folder.shown(&none), expect);
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_label_outside_the_map_names_its_line() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text,label\n\"two\nlines\",1\nb,9\nc,8\n");
    let map = [("1".to_owned(), LabelTarget::Name("one".to_owned()))];
    let kind = LabelKind::Encoder(LabelEncoder::from_map(&map, None).unwrap());
    let task =
        SequenceClassification { text: "text".to_owned(), text_pair: None, label: label(kind) };
    let task = TaskSpec::SequenceClassification(task);
    let options = DatasetOptions { task, ..options(&[file], None) };
    let error = prepare(&options, &word_lengths()).unwrap_err();
    let expect =
        r#"a.csv, row 1 (line 4), column "label": label "9" is not in label_map, which has 1"#;
    assert_eq!(folder.shown(&error), expect);
}

#[test]
fn the_first_bad_row_is_reported_whichever_thread_meets_one() {
    let folder = DataFolder::new();
    let bad = [("unspeakable", 0), ("x", 0), ("unspeakable", 0)];
    let files = [
        folder.write("a.parquet", parquet_file(&[("ok", 0); 50], 7)),
        folder.write("b.parquet", parquet_file(&bad, 1)),
        folder.write("c.parquet", parquet_file(&bad, 1)),
    ];
    for _ in 0..20 {
        let error = prepare_plain(&files).unwrap_err();
        assert_eq!(folder.shown(&error), "b.parquet, row 0: cannot tokenize: no word for it");
    }
}

/// Previews of some rows of `files` equal the whole set.
fn check_preview(files: &[String], task: TaskSpec, chosen: &[u32]) {
    let options = DatasetOptions { task, ..options(files, None) };
    let whole = prepare(&options, &word_lengths()).unwrap().set;
    let open = OpenSet::open(&options, &word_lengths()).unwrap();
    assert!(open.has_previews() && !open.is_tokenized());
    let mut rows = 0;
    let mut choose = |count| {
        rows = count;
        Some(chosen.to_vec())
    };
    let preview = open.preview(&word_lengths(), &mut choose, &mut |_| true).unwrap().unwrap();
    assert_eq!((rows, preview.len()), (whole.len(), whole.len()));
    assert!(whole.continues(&preview));
    for row in 0..whole.len() {
        assert_eq!(preview.origin(row), whole.origin(row));
        if !chosen.contains(&(row as u32)) {
            assert_eq!(preview.lengths()[row], 0);
            continue;
        }
        assert_eq!(preview.input_ids(row).unwrap(), whole.input_ids(row).unwrap());
        assert_eq!(preview.masking(row).unwrap(), whole.masking(row).unwrap());
        assert_eq!(preview.target_ids(row).unwrap(), whole.target_ids(row).unwrap());
    }
}

#[test]
fn a_preview_equals_the_set_but_for_the_tokens_of_other_rows() {
    let folder = DataFolder::new();
    let files = [
        folder.write("a.csv", "text,label\na bb,1\n,0\n\"ccc, d\",0\n"),
        folder.write("b.parquet", parquet_file(&[("x", 0), ("yy", 2), ("zzz z", 1)], 2)),
        folder.write(
            "c.jsonl",
            "{\"text\": \"one\", \"label\": 2}\n\n{\"label\": 1, \"text\": \"last one\"}\n",
        ),
    ];
    let classes = options(&files, None).task;
    check_preview(&files, classes.clone(), &[5, 7, 0, 5]);
    check_preview(&files, classes, &[1, 3, 4, 6]);
    let lines = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
    check_preview(&files, lines, &[1, 4, 6]);
    let column = |column: &str| TextColumn { column: column.to_owned(), field: None };
    let texts = folder.write("d.csv", "text,written\na,bb cc\n,none\nlost,\nd e,f\n");
    let written = TaskSpec::Seq2SeqLm(Seq2SeqLm {
        source: column("text"),
        target: Some(column("written")),
        source_prefix: String::new(),
        max_target_length: 8,
        ignore_pad_token_for_loss: true,
        decoder_start: DecoderStart::Token(0),
    });
    check_preview(&[texts], written, &[1]);
}

#[test]
fn a_preview_refuses_any_bad_label_and_its_own_bad_texts() {
    let folder = DataFolder::new();
    let preview = |content: &str, chosen: Option<Vec<u32>>| {
        let file = folder.write("a.csv", content);
        let open = OpenSet::open(&options(&[file], None), &word_lengths()).unwrap();
        let preview = open.preview(&word_lengths(), &mut |_| chosen.clone(), &mut |_| true);
        preview.map(|set| set.is_some()).map_err(|error| folder.shown(&error))
    };
    let bad_label = preview("text,label\na,0\nb,1\nc,\n", Some(vec![0]));
    assert_eq!(
        bad_label.unwrap_err(),
        "a.csv, row 2 (line 4), column \"label\": no label: it is missing, or NaN; data.ignored_labels: [\"\"] leaves it out"
    );
    let bad_text = "text,label\na,0\nb,1\nunspeakable,1\n";
    assert!(preview(bad_text, Some(vec![0, 1])).unwrap());
    let expect = "a.csv, row 2 (line 4): cannot tokenize: no word for it";
    assert_eq!(preview(bad_text, Some(vec![2])).unwrap_err(), expect);
    assert!(!preview(bad_text, None).unwrap(), "no rows were chosen");
}

#[test]
fn another_set_does_not_continue_a_preview() {
    let folder = DataFolder::new();
    let set = |content: &str| prepare_plain(&[folder.write("a.csv", content)]).unwrap().set;
    let first = set("text,label\na bb,0\nccc,1\n");
    assert!(set("text,label\na dd,0\nccc,1\n").continues(&first), "lengths are compared");
    assert!(!set("text,label\na,0\nccc,1\n").continues(&first));
    assert!(!set("text,label\na bb,1\nccc,0\n").continues(&first));
    assert!(!set("text,label\na bb,0\nccc,1\nd,1\n").continues(&first));
}

/// Weights are those of the rows from which examples come, in the cache too.
#[test]
fn rows_have_the_weights_of_a_column() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text,label,w\na bb,1,0.5\nccc,0,2\nd,1,0\n");
    let weighted = |file: &str, cache_dir| {
        let label = label(LabelKind::Infer { num_labels: None });
        let label = label.map(|label| LabelSpec { weight: Some("w".to_owned()), ..label });
        let task = SequenceClassification { text: "text".to_owned(), text_pair: None, label };
        let task = TaskSpec::SequenceClassification(task);
        prepare(&DatasetOptions { task, ..options(&[file.to_owned()], cache_dir) }, &word_lengths())
    };
    let cache = Some(folder.path("cache"));
    for cache_hit in [false, true] {
        let prepared = weighted(&file, cache.clone()).unwrap();
        assert_eq!(prepared.cache_hit, cache_hit);
        let weights: Vec<f32> = (0..3).map(|row| prepared.set.weight(row)).collect();
        assert_eq!(weights, [0.5, 2.0, 0.0]);
    }
    let plain = prepare(&options(&[file], cache), &word_lengths()).unwrap();
    assert_eq!((plain.cache_hit, plain.set.weight(2)), (false, 1.0), "another set");
    for (rows, expect) in [
        (
            "a,1,-1",
            "a.csv, row 0 (line 2), column \"w\": expected a weight, a number of at least 0, found -1",
        ),
        (
            "a,1,",
            "a.csv, row 0 (line 2), column \"w\": expected a weight, a number of at least 0, found nothing",
        ),
        (
            "a,1,x",
            "a.csv, row 0 (line 2), column \"w\": expected a weight, a number of at least 0, found \"x\"",
        ),
    ] {
        let file = folder.write("a.csv", format!("text,label,w\n{rows}\n"));
        assert_eq!(folder.shown(&weighted(&file, None).unwrap_err()), expect);
    }
}
