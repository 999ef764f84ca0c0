//! The section `data`.

use std::path::Path;

use traind_job_file::{CastType, DataSetUrl, JobFile};

use crate::{check, complete, job};

#[test]
fn columns_are_renamed_dropped_and_cast() {
    let job =
        job("data:\n  train: a.csv\n  columns:\n    rename: {sentence: text, id: label}\n    \
         drop: [extra]\n    cast: {label: int64}");
    let columns = &job.data.columns;
    let renamed: Vec<_> = columns.rename.iter().map(|(from, to)| (from, to.as_str())).collect();
    assert_eq!(renamed, [("sentence", "text"), ("id", "label")]);
    assert_eq!(columns.drop, ["extra"]);
    assert_eq!(columns.cast.iter().collect::<Vec<_>>(), [("label", &CastType::Int64)]);
    check(
        "data: {train: a.csv, columns: {cast: {label: int32}}}",
        "line 1: data.columns.cast.label: must be one of string, int64, float64, bool, not `int32`",
    );
    check(
        "data: {train: a.csv, columns: {drop: extra}}",
        "line 1: data.columns.drop: must be a list, not the text `extra`",
    );
}

#[test]
fn label_maps() {
    let classes = |map: &str| {
        let keys = format!(
            "model: {{name_or_path: ./bert, task: sequence-classification}}\n\
             data: {{train: a.csv, label_map: {map}}}"
        );
        let job = job(&keys);
        let map = job.data.label_map.unwrap();
        assert_eq!(job.model.num_labels, u32::try_from(map.classes().len()).ok());
        map.classes().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(classes("{good: yes, bad: no, poor: no}"), ["yes", "no"]);
    assert_eq!(classes("{a: 2, b: 0, c: 1}"), ["0", "1", "2"]);
    assert_eq!(classes("{a: 2, b: 3}"), ["2", "3"]);
    assert_eq!(classes("[admin, devel, true, 7]"), ["admin", "devel", "true", "7"]);
    check(
        "data: {train: a.csv, label_map: {}}",
        "line 1: data.label_map: must map at least one label",
    );
    check(
        "data:\n  train: a.csv\n  label_map: [a, a, b, c]",
        "line 3: data.label_map[1]: `a` is given twice",
    );
    check(
        "data:\n  train: a.csv\n  label_map: {1: [x]}",
        "line 3: data.label_map.1: must be text, not a list",
    );
}

#[test]
fn fields_are_apart_by_one_character() {
    let job = |text: &str| {
        JobFile::parse(
            &complete(&format!("data: {{train: a.csv, delimiter: {text}}}")),
            Path::new("/"),
        )
    };
    assert_eq!(job("';'").unwrap().job.data.delimiter.as_deref(), Some(";"));
    assert_eq!(job(r#""\t""#).unwrap().job.data.delimiter.as_deref(), Some("\t"));
    assert_eq!(job("auto").unwrap().job.data.delimiter.as_deref(), Some("auto"));
    for wrong in ["';;'", "é", r#""\n""#] {
        check(
            &format!("data: {{train: a.csv, delimiter: {wrong}}}"),
            "line 1: data.delimiter: must be one ASCII character that is no line break",
        );
    }
    check(
        "data: {train: a.csv, delimiter: '\"', decimal: ',', thousands: ',', names: [a, a]}",
        "line 1: data.quotechar: is the character of data.delimiter, too\n\
         line 1: data.thousands: is the character of data.decimal, too\n\
         line 1: data.names: has \"a\" twice",
    );
}

#[test]
fn a_data_set_of_the_hub_is_an_id_or_an_address() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("org/here")).unwrap();
    let keys = "data: {train: org/rows, validation: org/here, test: [data/test.csv, org/a/b], \
        dataset_config_name: en, revision: refs/convert/parquet}";
    let job = JobFile::parse(&complete(keys), folder.path()).unwrap().job;
    let patterns = |files: Option<traind_job_file::DataFiles>| files.unwrap().patterns;
    assert!(job.reads_hub());
    assert_eq!(patterns(job.data.train), [Path::new("hf://datasets/org/rows")]);
    assert_eq!(patterns(job.data.validation), [folder.path().join("org/here")]);
    let files = ["data/test.csv", "org/a/b"].map(|name| folder.path().join(name));
    assert_eq!(patterns(job.data.test), files);

    let url = DataSetUrl::parse("hf://datasets/org/rows@v1/data/*.csv").unwrap();
    let expect = ("org/rows", Some("v1"), Some("data/*.csv"));
    assert_eq!((url.id.as_str(), url.revision.as_deref(), url.path.as_deref()), expect);
    for wrong in ["hf://datasets/rows", "hf://datasets/org/..", "hf://datasets/org/rows@"] {
        check(
            &format!("data: {{train: \"{wrong}\"}}"),
            &format!(
                "line 1: data.train: `{wrong}` is not hf://datasets/ORG/NAME[@REVISION][/FILE]"
            ),
        );
    }
    check(
        "data: {train: a.csv, revision: main, dataset_config_name: ../x}",
        "line 1: data.revision: applies only to data sets on the hub, and the job has none
         line 1: data.dataset_config_name: `../x` is not a valid name on the hub",
    );
}
