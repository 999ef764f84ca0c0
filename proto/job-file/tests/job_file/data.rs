//! The section `data`.

use std::path::Path;

use traind_job_file::{CastType, DataSetUrl, JobFile};

use crate::{check, complete, job, lines, parse};

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

/// Messages advise it for cells without a value, and `traind init` writes it; it was refused.
#[test]
fn a_label_without_a_value_may_be_ignored() {
    let ignored = |list: &str| {
        let keys = format!(
            "model: {{name_or_path: ./bert, task: sequence-classification}}\n\
             data: {{train: a.csv, ignored_labels: {list}}}"
        );
        let labels = job(&keys).data.ignored_labels;
        labels.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(ignored(r#"["", "-", -1, true]"#), ["", "-", "-1", "true"]);
    assert_eq!(ignored("['']"), [""]);
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
    // It made a regression of the job, whose labels were no numbers.
    let classifier = "model: {name_or_path: ./bert, task: sequence-classification";
    check(
        &format!("{classifier}}}\ndata: {{train: a.csv, label_map: {{good: x, bad: x}}}}"),
        "line 2: data.label_map: all labels are one class, and a classifier learns to tell two or more apart",
    );
    check(
        &format!(
            "{classifier}, problem_type: multi_label_classification}}\ndata: {{train: a.csv, label_map: [x]}}"
        ),
        "",
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
            "line 1: data.delimiter: must be one ASCII character that is not a line break",
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

#[test]
fn sets_have_settings_of_their_own() {
    let task = "model: {name_or_path: ./m, task: sft}\n";
    let yaml = "data:\n  train:\n    - {path: a.jsonl, split: 'train[:10%]', format: alpaca, \
        fields: {output: answer}, columns: {rename: {q: instruction}}, limit: 5}\n    - b.jsonl\n    \
        - {path: [c.jsonl, org/name], weight: 2}\n  format: sharegpt\n";
    let bad = |keys: &str, expect: &str| check(&format!("{task}{keys}"), expect);
    bad(
        yaml,
        "line 3: data.train: has weights, which data.mixing: first_exhausted and \
        all_exhausted read; without them, rows are concatenated",
    );
    let job = job(&format!("{task}{}", yaml.replace(", weight: 2", "")));
    let train = job.data.train.as_ref().unwrap();
    let patterns: Vec<_> = train.patterns.iter().map(|path| path.to_str().unwrap()).collect();
    let url = "hf://datasets/org/name";
    assert_eq!(patterns, ["/base/a.jsonl", "/base/b.jsonl", "/base/c.jsonl", url]);
    let sets: Vec<_> = train.sets().map(|(set, own)| (set.limit, own.len())).collect();
    assert_eq!(sets, [(Some(5), 1), (None, 1), (None, 2)]);
    // A resolved job file is read as the same job.
    let resolved = serde_json::to_string(&job).unwrap();
    let again: JobFile = serde_json::from_str(&resolved).unwrap();
    assert_eq!(again, job);
    bad(
        "data: {train: [{path: a.jsonl, splt: train}]}",
        "line 2: data.train[0].splt: is not a known key; did you mean `data.train[0].split`?",
    );
    bad("data: {train: [{split: train}]}", "line 2: data.train[0].path: is required");
    bad(
        "data: {train: [{path: a.jsonl, format: alpaca}]}",
        "line 2: data.format: is required where sets have a format of their own; it is that of the \
         others",
    );
}

#[test]
fn layouts_fit_the_task_and_each_other() {
    check(
        "data: {train: a.csv, format: alpaca}",
        "line 1: data.format: applies to sft and preferences, not to sequence-classification",
    );
    let bad = |keys: &str, expect: &str| {
        let task = "model: {name_or_path: ./m, task: sft}";
        check(&format!("data: {{train: a.jsonl, {keys}}}\n{task}"), &format!("line 1: {expect}"));
    };
    bad(
        "template: llama3",
        "data.template: needs data.format, such as alpaca, sharegpt or messages",
    );
    bad(
        "format: alpaca, template: llama3, eot_tokens: [a]",
        "data.eot_tokens: cannot be combined with data.template, which trains on answers",
    );
    bad("mask_history: true", "data.mask_history: applies to data.template alone");
    bad(
        "format: sharegpt, prompt_style: chat",
        "data.prompt_style: applies to sft with data.format: alpaca, without data.chat_template and \
         data.template",
    );
    bad(
        "train_on_inputs: false, assistant_only_loss: true",
        "data.train_on_inputs: cannot be combined with data.assistant_only_loss, by which the chat \
         template says what is trained on",
    );
    let chosen = |choice: &str| {
        let task = "model: {name_or_path: ./m, task: dpo}";
        job(&format!("data: {{train: a, chat_template: {choice}}}\n{task}")).data.chat_template
    };
    assert_eq!(chosen("chat.jinja").as_deref(), Some("/base/chat.jinja"));
    assert_eq!(chosen("llama3").as_deref(), Some("llama3"));
    assert_eq!(chosen("'{{ messages }}/'").as_deref(), Some("{{ messages }}/"));
}

#[test]
fn templates_have_known_names() {
    let bad = |keys: &str, expect: &str| {
        let task = "model: {name_or_path: ./m, task: sft}";
        let parsed = parse(&format!("data: {{train: a.jsonl, {keys}}}\n{task}"));
        let violations = lines(&parsed.unwrap_err());
        assert!(violations.contains(expect), "{violations}");
    };
    bad("chat_template: lama3", "(did you mean `llama3`?); known are tokenizer_default, alpaca");
    bad("format: alpaca, template: qwen_3", "`qwen_3` is not known (did you mean `qwen3`?)");
}
