//! Every way in which a column becomes ids.

use std::path::Path;

use super::*;
use crate::error::Error;
use crate::labels::Labels;

fn texts(values: &[&str]) -> Vec<Value> {
    values.iter().map(|text| Value::Text((*text).to_owned())).collect()
}

fn integers(values: &[i64]) -> Vec<Value> {
    values.iter().map(|&integer| Value::Int(integer)).collect()
}

fn encode(kind: LabelKind, values: &[Value]) -> Result<(Labels, Option<LabelEncoder>)> {
    encode_named(kind, None, values)
}

/// Encodes the labels of a file that has names for the numbers of classes.
fn encode_named(
    kind: LabelKind,
    names: Option<&[&str]>,
    values: &[Value],
) -> Result<(Labels, Option<LabelEncoder>)> {
    let spec = LabelSpec { column: "label".to_owned(), kind, weight: None, ignored: Vec::new() };
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let names = names.map(owned);
    let reader = LabelReader::new(&spec, vec![names.clone()]);
    let at = |row| Location::of_row(Path::new("data.csv"), row as u64);
    let read = |(row, value)| {
        let label = reader.row_label(value, names.as_deref());
        label.map_err(|problem| reader.error(at(row), problem))
    };
    let rows = values.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
    reader.check_count()?;
    let (encoder, ids) = reader.rule()?;
    let numbers = rows.iter().filter_map(|row| match row {
        RowLabel::Numbers(numbers) => Some(numbers),
        _ => None,
    });
    let classes = rows.iter().enumerate().filter_map(|(row, label)| match label {
        RowLabel::Class(number) => {
            let id = ids.of(TokenLabel { number: *number, continues: false });
            Some(id.map_err(|problem| reader.error(at(row), problem)))
        }
        _ => None,
    });
    let labels = match encoder {
        Some(_) => Labels::Class(classes.collect::<Result<_>>()?),
        None => {
            let values = numbers.flatten().copied().collect();
            Labels::Numbers { width: reader.width(), values }
        }
    };
    Ok((labels, encoder))
}

fn map(entries: &[(&str, &str)]) -> Vec<(String, LabelTarget)> {
    let target = |name: &str| match name.parse() {
        Ok(id) => LabelTarget::Id(id),
        Err(_) => LabelTarget::Name(name.to_owned()),
    };
    entries.iter().map(|(raw, name)| ((*raw).to_owned(), target(name))).collect()
}

#[track_caller]
fn check(kind: LabelKind, values: &[Value], ids: &[i32], names: &[&str]) {
    let (labels, encoder) = encode(kind, values).unwrap();
    assert_eq!(labels, Labels::Class(ids.to_vec()));
    assert_eq!(encoder.unwrap().id2label(), names);
}

#[track_caller]
fn check_error(kind: LabelKind, values: &[Value], expect: &str) {
    assert_eq!(encode(kind, values).unwrap_err().to_string(), expect);
}

fn infer(num_labels: Option<u32>) -> LabelKind {
    LabelKind::Infer { num_labels }
}

fn stars() -> LabelKind {
    let entries = [("1", "neg"), ("2", "neg"), ("3", "neutral"), ("4", "pos"), ("5", "pos")];
    LabelKind::Encoder(LabelEncoder::from_map(&map(&entries), Some(3)).unwrap())
}

#[test]
fn a_label_map_gives_ids_in_order_of_first_appearance() {
    let names = ["neg", "neutral", "pos"];
    check(stars(), &integers(&[5, 1, 3, 2]), &[2, 0, 1, 0], &names);
    check(stars(), &texts(&["5", "1", "3", "2"]), &[2, 0, 1, 0], &names);
    check(stars(), &[Value::Float(4.0)], &[2], &names);
}

#[test]
fn a_label_map_may_lead_to_ids() {
    let kind =
        |entries: &[_]| LabelKind::Encoder(LabelEncoder::from_map(&map(entries), None).unwrap());
    check(kind(&[("no", "1"), ("yes", "0")]), &texts(&["yes", "no"]), &[0, 1], &["yes", "no"]);
    let shared = kind(&[("a", "0"), ("b", "0"), ("c", "2")]);
    check(shared, &texts(&["b", "c"]), &[0, 2], &["LABEL_0", "LABEL_1", "c"]);
}

#[test]
fn without_a_map_ids_stay_and_names_are_sorted() {
    check(infer(None), &integers(&[2, 0, 1]), &[2, 0, 1], &["LABEL_0", "LABEL_1", "LABEL_2"]);
    check(infer(Some(3)), &integers(&[2, 0]), &[2, 0], &["LABEL_0", "LABEL_1", "LABEL_2"]);
    check(infer(None), &integers(&[4, 0]), &[1, 0], &["0", "4"]);
    check(infer(None), &integers(&[10, 2, 1]), &[2, 1, 0], &["1", "2", "10"]);
    check(infer(None), &texts(&["1", "-1"]), &[1, 0], &["-1", "1"]);
    check(infer(None), &integers(&[0, i64::MAX]), &[0, 1], &["0", "9223372036854775807"]);
    check(infer(None), &texts(&["1", "0"]), &[1, 0], &["LABEL_0", "LABEL_1"]);
    check(infer(None), &[Value::Bool(true)], &[1], &["LABEL_0", "LABEL_1"]);
    check(infer(None), &texts(&["pos", "neg", "pos"]), &[1, 0, 1], &["neg", "pos"]);
    check(infer(None), &texts(&["10", "9", "n/a"]), &[0, 1, 2], &["10", "9", "n/a"]);
    check(infer(Some(3)), &texts(&["b", "a"]), &[1, 0], &["a", "b", "LABEL_2"]);
}

#[test]
fn what_the_training_split_arrived_at_holds_for_the_others() {
    let (_, encoder) = encode(infer(None), &texts(&["pos", "neg"])).unwrap();
    let kind = LabelKind::Encoder(encoder.unwrap());
    check(kind.clone(), &texts(&["pos"]), &[1], &["neg", "pos"]);
    check_error(
        kind,
        &texts(&["pos", "meh"]),
        r#"data.csv, row 1, column "label": label "meh" does not occur in the training data, which has neg, pos"#,
    );
}

#[test]
fn regression_takes_numbers() {
    let text = Value::Text("-0.25".to_owned());
    let values = [Value::Float(1.5), Value::Int(2), text, Value::Bool(true)];
    let one = || LabelKind::Regression { num_labels: 1 };
    let (labels, encoder) = encode(one(), &values).unwrap();
    let numbers = Labels::Numbers { width: 1, values: vec![1.5, 2.0, -0.25, 1.0] };
    assert_eq!((labels, encoder), (numbers, None));
    let at = r#"data.csv, row 0, column "label":"#;
    let check = |value, expect: &str| check_error(one(), &[value], &format!("{at} {expect}"));
    check(Value::Text("NaN".to_owned()), r#""NaN" is not a number to regress on"#);
    check(
        Value::Null,
        "no label: it is missing, or NaN; data.ignored_labels: [\"\"] leaves it out",
    );
}

#[test]
fn regression_takes_lists_of_numbers() {
    let two = || LabelKind::Regression { num_labels: 2 };
    let list = |values: &[f64]| Value::List(values.iter().map(|v| Value::Float(*v)).collect());
    let (labels, _) = encode(two(), &[list(&[1.5, 2.0]), list(&[-0.25, 0.0])]).unwrap();
    assert_eq!(labels, Labels::Numbers { width: 2, values: vec![1.5, 2.0, -0.25, 0.0] });
    let at = r#"data.csv, row 0, column "label":"#;
    let check = |value, expect: &str| check_error(two(), &[value], &format!("{at} {expect}"));
    check(list(&[1.0]), "1 number to regress on, where model.num_labels is 2");
    check(Value::Float(1.0), "expected a list of labels, found a float");
    check(list(&[1.0, f64::NAN]), "a float is not a number to regress on");
    check(
        Value::Null,
        "no label: it is missing, or NaN; data.ignored_labels: [\"\"] leaves it out",
    );
}

#[test]
fn bad_labels_name_file_row_and_label() {
    let check = |kind, values: &[Value], expect: &str| {
        check_error(kind, values, &format!(r#"data.csv, row 1, column "label": {expect}"#));
    };
    check(stars(), &integers(&[1, 6]), r#"label "6" is not in label_map, which has 1, 2, 3, 4, 5"#);
    check(
        infer(Some(2)),
        &integers(&[1, 2]),
        "label 2 is outside 0..2 (num_labels is 2); classes that are not numbered from 0 need a data.label_map",
    );
    check(
        infer(Some(2)),
        &integers(&[1, -1]),
        "label -1 is negative; classes that are not numbered from 0 need a data.label_map, and data.ignored_labels: [-1] \
         leaves out rows that have no label",
    );
    check(
        infer(None),
        &[Value::Int(0), Value::Null],
        "no label: it is missing, or NaN; data.ignored_labels: [\"\"] leaves it out",
    );
    check(
        infer(None),
        &texts(&["a", ""]),
        "no label: it is missing, or NaN; data.ignored_labels: [\"\"] leaves it out",
    );
    check(
        infer(None),
        &[Value::Int(0), Value::Float(0.5)],
        "0.5 is not a class label; to regress on numbers, set model.num_labels to 1",
    );
    check(
        infer(None),
        &[Value::Int(0), Value::List(vec![])],
        "a list is not a class label; several classes a row are model.problem_type multi_label_classification",
    );
}

/// The names that the classes of a trained model have in data to evaluate it on.
#[test]
fn labels_may_be_the_names_or_the_numbers_of_a_models_classes() {
    let of_model = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        LabelKind::Encoder(LabelEncoder::of_model(names))
    };
    let animals = || of_model(&["cat", "dog", "owl"]);
    let names = ["cat", "dog", "owl"];
    check(animals(), &texts(&["dog", "cat"]), &[1, 0], &names);
    check(animals(), &integers(&[2, 0]), &[2, 0], &names);
    check(animals(), &texts(&["2", "0"]), &[2, 0], &names);
    let stars = || of_model(&["1", "2", "3"]);
    check(stars(), &integers(&[1, 3]), &[0, 2], &["1", "2", "3"]);
    let mixed = "column \"label\" has names of classes such as \"dog\" and numbers such as 2; either \
        may stand for the model's classes, not both";
    check_error(animals(), &texts(&["dog", "2"]), mixed);
    let at = "data.csv, row 1, column \"label\": ";
    let unknown = "label \"cow\" is not a class of the model, which has cat, dog, owl, nor the number \
        of one";
    check_error(animals(), &texts(&["dog", "cow"]), &format!("{at}{unknown}"));
    let error = encode(animals(), &integers(&[1, 3])).unwrap_err().to_string();
    assert!(error.contains("label 3 is outside 0..3"), "{error}");
}

#[test]
fn label_maps_that_cannot_work_are_refused() {
    let check = |entries: &[_], num_labels, expect: &str| {
        let error = LabelEncoder::from_map(&map(entries), num_labels).unwrap_err();
        assert!(matches!(error, Error::BadOption { .. }));
        assert_eq!(error.to_string(), format!("data.label_map: {expect}"));
    };
    check(&[], None, "must have at least one entry, and each label once");
    check(&[("1", "a"), ("1", "b")], None, "must have at least one entry, and each label once");
    check(&[("1", "a"), ("2", "0")], None, "mixes names and ids");
    check(&[("1", "99999999")], None, "id 99999999 is too large");
    check(&[("1", "a"), ("2", "b")], Some(1), "num_labels is 1, but there are 2 labels: a, b");
    let error = encode(infer(Some(1)), &texts(&["a", "b"])).unwrap_err().to_string();
    assert_eq!(error, "model.num_labels: num_labels is 1, but there are 2 labels: a, b");
}

/// A model of one class learns nothing, and one number is what regression has.
#[test]
fn one_label_in_all_rows_is_refused_unless_there_are_others() {
    let expect = "column \"label\" has the one label \"spam\" in all rows; a classifier \
        needs two, or model.num_labels if these rows lack some";
    check_error(infer(None), &texts(&["spam", "spam"]), expect);
    check(infer(Some(2)), &texts(&["spam"]), &[0], &["spam", "LABEL_1"]);
}

/// Files of text have no types: to regress on them is as likely as anything.
#[test]
fn labels_that_are_fractions_are_classes_only_when_told_so() {
    let expect = "column \"label\" has numbers such as 0.5; to regress on them, set \
        model.num_labels to 1; to use them as classes, set it to the number of classes";
    check_error(infer(None), &texts(&["1", "0.5", "3e2"]), expect);
    check(infer(Some(2)), &texts(&["1.5", "0.5"]), &[1, 0], &["0.5", "1.5"]);
    check(infer(None), &texts(&["1.5", "n/a"]), &[0, 1], &["1.5", "n/a"]);
}

/// Another column than was meant, of texts or ids, would be kept in memory as a whole.
#[test]
fn more_labels_than_a_classifier_can_have_are_refused() {
    let distinct: Vec<Value> = (0..70_000).map(|row| Value::Text(format!("text {row}"))).collect();
    let expect =
        "column \"label\" has more than 65536 different labels; is it the column of labels?";
    check_error(infer(None), &distinct, expect);
    assert!(
        encode(
            LabelKind::Regression { num_labels: 1 },
            &integers(&(0..70_000).collect::<Vec<_>>())
        )
        .is_ok()
    );
}

/// pandas writes integers as floats where a column has gaps, and reads some texts as missing.
#[test]
fn labels_that_pandas_wrote() {
    check(infer(None), &texts(&["1.0", "0.0", "10.0"]), &[1, 0, 2], &["0", "1", "10"]);
    check(infer(Some(3)), &texts(&["1.0", "0.0"]), &[1, 0], &["LABEL_0", "LABEL_1", "LABEL_2"]);
    let message = "column \"label\" has class numbers, and \"nan\" where a label is missing: leave \
                   these rows out, as data.ignored_labels: [nan] does, or name all classes in data.label_map";
    check_error(infer(Some(3)), &texts(&["1", "nan", "0"]), message);
    check_error(infer(None), &texts(&["1.0", "nan", "0.0"]), message);
    // Names of classes, one of which is that.
    check(infer(None), &texts(&["favor", "None"]), &[1, 0], &["None", "favor"]);
}

#[test]
fn a_row_cannot_be_ignored() {
    let message = "data.csv, row 1, column \"label\": label -100 is for tokens that no loss counts; \
                   leave this row out, as data.ignored_labels: [-100] does";
    check_error(infer(None), &integers(&[0, -100, 1]), message);
}

/// SNLI has a dash where annotators do not agree, and data sets of the hub have -1.
#[test]
fn classes_that_may_be_none_are_doubtful() {
    let check = |kind: LabelKind, values: &[Value], expect: &[(usize, &str)]| {
        let (_, encoder) = encode(kind, values).unwrap();
        let encoder = encoder.unwrap();
        assert_eq!(encoder.doubtful_classes().collect::<Vec<_>>(), expect);
    };
    check(infer(None), &texts(&["neutral", "-", "entailment"]), &[(0, "-")]);
    check(infer(None), &texts(&["a", "nan", "n/a"]), &[(1, "n/a"), (2, "nan")]);
    check(infer(None), &integers(&[2, -1, 0, 1]), &[(0, "-1")]);
    check(infer(None), &integers(&[0, 1, -1]), &[(0, "-1")]);
    // Rows may lack some of the classes.
    check(infer(None), &integers(&[0, 2, -1]), &[(0, "-1")]);
    check(infer(None), &integers(&[1, 7, 3, -1]), &[(0, "-1")]);
    // Other numbers than those that follow -1, and names that say something.
    check(infer(None), &integers(&[-1, 1]), &[]);
    check(infer(None), &integers(&[-1, 0]), &[]);
    check(infer(None), &integers(&[-2, -1, 0, 1]), &[]);
    check(infer(None), &texts(&["a-b", "none", "?!"]), &[]);
    let entries = map(&[("-", "none"), ("yes", "yes")]);
    let given = LabelKind::Encoder(LabelEncoder::from_map(&entries, None).unwrap());
    check(given, &texts(&["-", "yes"]), &[]);
    let kind =
        |known: &[&str]| LabelKind::Encoder(encode(infer(None), &texts(known)).unwrap().1.unwrap());
    let unseen = "data.csv, row 0, column \"label\": label \"-\" does not occur in the training data, which has a, b; \
        data.ignored_labels: [\"-\"] leaves its rows out";
    check_error(kind(&["a", "b"]), &texts(&["-"]), unseen);
    let many = "model.num_labels: num_labels is 2, but there are 3 labels: -, a, b; data.ignored_labels: [\"-\"] leaves its \
        rows out";
    check_error(infer(Some(2)), &texts(&["a", "-", "b"]), many);
}

/// A model that is trained further keeps the ids of its classes.
#[test]
fn names_of_the_model_keep_its_order() {
    let names = ["tool", "animal", "fruit"].map(str::to_owned).to_vec();
    let kind = |num_labels| LabelKind::InferNamed { names: names.clone(), num_labels };
    let values = ["fruit", "tool", "animal"];
    check(kind(None), &texts(&values), &[2, 0, 1], &["tool", "animal", "fruit"]);
    check(kind(Some(3)), &texts(&values), &[2, 0, 1], &["tool", "animal", "fruit"]);
    // Data need not have all classes, nor write them in the model's case.
    check(kind(None), &texts(&["tool", "fruit"]), &[0, 2], &["tool", "animal", "fruit"]);
    check(kind(Some(3)), &texts(&["Fruit", "TOOL"]), &[2, 0], &["TOOL", "animal", "Fruit"]);
    // Other names, or another number of classes, are ordered as without a model.
    check(kind(None), &texts(&["tool", "pet"]), &[1, 0], &["pet", "tool"]);
    check(kind(Some(2)), &texts(&["tool", "animal"]), &[1, 0], &["animal", "tool"]);
    // Numbers are reported by the names of their classes.
    let named = ["tool", "animal", "fruit"];
    check(kind(None), &integers(&[2, 0, 1]), &[2, 0, 1], &named);
    // Nor do numbers have to reach the last class, whose head the model has.
    check(kind(None), &integers(&[1, 0]), &[1, 0], &named);
    check(kind(Some(2)), &integers(&[1, 0]), &[1, 0], &["LABEL_0", "LABEL_1"]);
    let more = ["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"];
    check(kind(None), &integers(&[1, 3, 0, 2]), &[1, 3, 0, 2], &more);
}

/// Numbers that are classes of the model stay what they are, as with the Trainer.
#[test]
fn numbers_with_gaps_are_classes_of_the_model() {
    let names = ["tool", "animal", "fruit"].map(str::to_owned).to_vec();
    let kind = |num_labels| LabelKind::InferNamed { names: names.clone(), num_labels };
    let named = ["tool", "animal", "fruit"];
    check(kind(None), &integers(&[2, 0]), &[2, 0], &named);
    check(kind(Some(3)), &integers(&[2, 0]), &[2, 0], &named);
    check(kind(None), &texts(&["2", "1"]), &[2, 1], &named);
    // The model has no class 3, so that the numbers are names.
    check(kind(None), &integers(&[3, 1]), &[1, 0], &["1", "3"]);
    check(kind(None), &integers(&[2, -1]), &[1, 0], &["-1", "2"]);
    check(
        kind(Some(4)),
        &integers(&[3, 1]),
        &[3, 1],
        &["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"],
    );
    // Numbers that are the names of classes are these.
    let names = ["1", "2", "4"].map(str::to_owned).to_vec();
    let stars = LabelKind::InferNamed { names, num_labels: None };
    check(stars, &integers(&[2, 1]), &[1, 0], &["1", "2", "4"]);
}

#[track_caller]
fn check_named(kind: LabelKind, names: &[&str], values: &[Value], ids: &[i32], expect: &[&str]) {
    let (labels, encoder) = encode_named(kind, Some(names), values).unwrap();
    assert_eq!(labels, Labels::Class(ids.to_vec()));
    assert_eq!(encoder.unwrap().id2label(), expect);
}

fn mapped(entries: &[(&str, &str)]) -> LabelKind {
    LabelKind::Encoder(LabelEncoder::from_map(&map(entries), None).unwrap())
}

/// `datasets` notes the names of a column's classes.
#[test]
fn numbers_that_have_names_are_classes_of_these_names() {
    let noted = ["entailment", "neutral", "contradiction"];
    check_named(infer(None), &noted, &integers(&[2, 0]), &[2, 0], &noted);
    let with_another = ["entailment", "neutral", "contradiction", "LABEL_3"];
    check_named(infer(Some(4)), &noted, &integers(&[1]), &[1], &with_another);
    let stars = ["1", "2", "5"];
    check_named(infer(None), &stars, &integers(&[2, 0]), &[2, 0], &stars);
    let message = "data.csv, row 0, column \"label\": label -1 is negative";
    let error = encode_named(infer(None), Some(&noted), &integers(&[-1, -1])).unwrap_err();
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn the_order_of_a_models_classes_holds_for_numbers_that_have_names() {
    let noted = ["entailment", "neutral", "contradiction"];
    let model = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"];
    let names = model.map(str::to_owned).to_vec();
    let evaluated = LabelKind::Encoder(LabelEncoder::of_model(names.clone()));
    check_named(evaluated, &noted, &integers(&[2, 0, 1]), &[0, 2, 1], &model);
    let trained = LabelKind::InferNamed { names, num_labels: None };
    let in_order = ["contradiction", "neutral", "entailment"];
    check_named(trained, &noted, &integers(&[2, 0]), &[0, 2], &in_order);
}

#[test]
fn other_splits_may_have_other_numbers_for_the_same_names() {
    let noted = ["entailment", "neutral", "contradiction"];
    let (_, encoder) = encode_named(infer(None), Some(&noted), &integers(&[0, 1, 2])).unwrap();
    let kind = LabelKind::Encoder(encoder.unwrap());
    check_named(kind.clone(), &noted[1..], &integers(&[0, 1]), &[1, 2], &noted);
    check(kind.clone(), &texts(&["neutral"]), &[1], &noted);
    check(kind, &integers(&[2, 1]), &[2, 1], &noted);
}

#[test]
fn a_label_map_may_have_numbers_their_names_or_texts_of_booleans() {
    let noted = ["entailment", "neutral", "contradiction"];
    let by_number = mapped(&[("2", "no"), ("1", "no"), ("0", "yes")]);
    check_named(by_number, &noted, &integers(&[0, 2]), &[1, 0], &["no", "yes"]);
    let by_name = mapped(&[("entailment", "yes"), ("neutral", "no"), ("contradiction", "no")]);
    check_named(by_name, &noted, &integers(&[0, 2]), &[0, 1], &["yes", "no"]);
    let flags = [Value::Bool(true), Value::Bool(false)];
    check(mapped(&[("true", "spam"), ("false", "ham")]), &flags, &[0, 1], &["spam", "ham"]);
    check(mapped(&[("1", "spam"), ("0", "ham")]), &flags, &[0, 1], &["spam", "ham"]);
}

/// Integers may have space around them, as pandas reads CSV files with a space behind each comma.
#[test]
fn space_around_integers_does_not_make_them_names() {
    let names = ["LABEL_0", "LABEL_1", "LABEL_2"];
    check(infer(None), &texts(&[" 1", "0 ", " 2.0"]), &[1, 0, 2], &names);
    check(infer(None), &texts(&[" b", "b"]), &[0, 1], &[" b", "b"]);
}

/// pandas reads them as booleans, in whichever of its spellings they stand.
#[test]
fn truth_values_in_files_of_text_are_booleans() {
    let (truths, names) = (texts(&["TRUE", "false", "True"]), ["false", "TRUE"]);
    check(infer(None), &truths, &[1, 0, 1], &names);
    let (_, encoder) = encode(infer(None), &truths).unwrap();
    let learned = LabelKind::Encoder(encoder.unwrap());
    check(learned.clone(), &texts(&["FALSE", "true"]), &[0, 1], &names);
    check(learned, &[Value::Bool(true), Value::Bool(false)], &[1, 0], &names);
    let (_, encoder) = encode(infer(None), &[Value::Bool(true), Value::Bool(false)]).unwrap();
    let of_booleans = LabelKind::Encoder(encoder.unwrap());
    check(of_booleans, &texts(&["False", "TRUE"]), &[0, 1], &["LABEL_0", "LABEL_1"]);
    check(mapped(&[("1", "spam"), ("0", "ham")]), &texts(&["TRUE"]), &[0], &["spam", "ham"]);
    check(mapped(&[("true", "spam"), ("no", "ham")]), &texts(&["TRUE"]), &[0], &["spam", "ham"]);
    // Among other names they are names.
    check(infer(None), &texts(&["TRUE", "True", "maybe"]), &[0, 1, 2], &["TRUE", "True", "maybe"]);
    let one = LabelKind::Regression { num_labels: 1 };
    let (labels, _) = encode(one, &texts(&["True", "FALSE", " true"])).unwrap();
    assert_eq!(labels, Labels::Numbers { width: 1, values: vec![1.0, 0.0, 1.0] });
    let truth = |text: &str| Value::Text(text.to_owned()).truth();
    assert_eq!(
        ["1", "1.0", " TRUE", "0", "False"].map(truth),
        [1, 1, 1, 0, 0].map(|it| Some(it == 1))
    );
    assert_eq!(["2", "yes", "", "nan"].map(truth), [None; 4]);
}
