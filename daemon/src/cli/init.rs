//! `traind init`: writes a job file from a model folder, a data file and a few
//! questions. Works without a daemon, with the rights of its user.

mod first_rows;

use std::fs::OpenOptions;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use traind_convert::guess::{self, Guess};
use traind_convert::guess_head::Head;

use crate::interfaces::text::one_line;

use super::endings::{self, JOB_FILE_ENDINGS, JOB_FILES};
use super::exit::Exit;
use super::submit::is_standard;
use first_rows::{check_data, head_of, is_path};

/// The most names of columns in a warning.
const NAMES_SHOWN: usize = 50;

/// Write a job file from a model, a data file and a few questions
#[derive(clap::Args)]
pub(crate) struct Init {
    /// Model folder, or hub id such as org/name
    model: Option<String>,
    /// File to train on, or data set of the hub
    data: Option<String>,
    /// Task of the model, such as sequence-classification
    #[arg(long)]
    task: Option<String>,
    /// File to evaluate on [default: a tenth of the training rows]
    #[arg(long, value_name = "FILE")]
    validation: Option<String>,
    /// Number of cores
    #[arg(long)]
    cores: Option<u32>,
    /// The job file to write; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "job.yaml")]
    output: PathBuf,
}

impl Init {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        if !is_standard(&self.output) {
            check_output(&self.output)?;
        }
        let terminal = std::io::stdin().is_terminal();
        let job_file = self.job_file(&mut Dialogue { input: std::io::stdin().lock(), terminal })?;
        if is_standard(&self.output) {
            print!("{job_file}");
            return Ok(Exit::Done);
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&self.output);
        let written = file.as_mut().map(|file| file.write_all(job_file.as_bytes()));
        let path = self.output.display();
        match written {
            Ok(written) => written.with_context(|| format!("write {path}"))?,
            Err(error) => bail!("write {path}: {error}; choose another file with --output"),
        }
        eprintln!("wrote {path}; submit it with: traind submit {path} --watch");
        Ok(Exit::Done)
    }

    fn job_file(&self, dialogue: &mut Dialogue<impl BufRead>) -> anyhow::Result<String> {
        let given = |value: &Option<String>| value.clone();
        let model = dialogue.ask("model (folder, or hub id)", "MODEL", given(&self.model), None)?;
        let of_model = guess::task_of_model(&config(&model)?);
        let data = dialogue.ask("file to train on", "DATA", given(&self.data), None)?;
        let mut head = head_of(&data)?;
        let Guess { task, columns } = guess_of(head.as_ref(), of_model);
        if head.is_none() && self.task.is_none() && Path::new(&data).is_file() {
            eprintln!(
                "note: the columns of {data} are not looked at, and the task is that of the model: name another with \
                 --task; `traind data` shows what a job reads"
            );
        }
        let task = task.or(of_model);
        let task = dialogue.ask("task", "--task", given(&self.task), task)?;
        if let Some(head) = head.as_mut().filter(|_| task != "sft") {
            head.settings.retain(|(key, _)| *key != "format");
        }
        let lacking = head.as_ref().and_then(|head| lacking(&data, &task, head, &columns));
        if let Some(lacking) = lacking {
            eprintln!("warning: {lacking}");
        }
        let validation = dialogue.ask(
            "file to evaluate on, or share of the training rows",
            "--validation",
            given(&self.validation),
            Some("0.1"),
        )?;
        if validation.parse::<f64>().is_err() {
            check_data(&validation)?;
        }
        let cores = self.cores.map(|cores| cores.to_string());
        let cores = dialogue.ask("cores", "--cores", cores, Some("1"))?;
        let mut fields = vec![
            ("model.name_or_path", text(&folder_or_id(&model))),
            ("model.task", text(&task)),
            ("data.train", text(&data)),
            match validation.parse::<f64>() {
                Ok(_) => ("data.validation_split", validation),
                Err(_) => ("data.validation", text(&validation)),
            },
        ];
        fields.extend(settings(head.as_ref()));
        fields.extend(named(&columns, head.as_ref()));
        fields.extend(number_of_labels(&task, head.as_ref(), &columns));
        fields.extend(ignored_labels(&data, &task, head.as_ref(), &columns));
        fields.push(("train.eval_strategy", text("epoch")));
        fields.push(("resources.cores", cores));
        fields.push(("output_dir", text(&format!("out/{task}"))));
        let fields: Vec<(String, String)> =
            fields.into_iter().map(|(path, value)| (path.to_owned(), value)).collect();
        let header = "Written by `traind init`; docs/job-file.md has all keys.";
        Ok(traind_convert::write(&fields, header)?.job_file)
    }
}

/// Asks questions on a terminal. Without one, uses defaults, and fails if there is none.
struct Dialogue<R> {
    input: R,
    terminal: bool,
}

impl<R: BufRead> Dialogue<R> {
    fn ask(
        &mut self,
        question: &str,
        argument: &str,
        given: Option<String>,
        default: Option<&str>,
    ) -> anyhow::Result<String> {
        if let Some(given) = given {
            return Ok(given);
        }
        if !self.terminal {
            return default.map(str::to_owned).with_context(|| {
                format!("{question}: standard input is not a terminal; set {argument}")
            });
        }
        let hint = default.map(|default| format!(" [{default}]")).unwrap_or_default();
        loop {
            eprint!("{question}{hint}: ");
            let mut answer = String::new();
            if self.input.read_line(&mut answer).context("read the answer")? == 0 {
                bail!("{question}: no answer");
            }
            match (answer.trim(), default) {
                ("", Some(default)) => return Ok(default.to_owned()),
                ("", None) => {}
                (answer, _) => return Ok(answer.to_owned()),
            }
        }
    }
}

/// Finds before the questions what would lose their answers.
fn check_output(path: &Path) -> anyhow::Result<()> {
    endings::refuse_others(path, JOB_FILES, &JOB_FILE_ENDINGS)?;
    let shown = path.display();
    // A link that leads nowhere is in the way too.
    let exists = path.symlink_metadata().is_ok();
    ensure!(!exists, "{shown} exists already: name another file with --output, or remove it");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("write {shown}: there is no folder {}; create it first", folder.display());
    }
    Ok(())
}

/// Guesses task and columns. Models that write a text from another have no other task.
fn guess_of(head: Option<&Head>, of_model: Option<&str>) -> Guess {
    let columns = match of_model {
        Some(guess::SEQ2SEQ) => guess::columns_of_seq2seq,
        _ => guess::columns,
    };
    head.map(|head| columns(&head.names)).unwrap_or_default()
}

/// Names the columns of a file that lacks those of a task, which the job file is to name.
fn lacking(data: &str, task: &str, head: &Head, columns: &[(&str, String)]) -> Option<String> {
    let has = |key: &&&str| {
        columns.iter().any(|(known, _)| known == *key) || head.names.iter().any(|name| name == *key)
    };
    let lacking: Vec<&str> =
        guess::wanted(task, &head.names).iter().filter(|key| !has(key)).copied().collect();
    if lacking.is_empty() {
        return None;
    }
    let fields: Vec<String> = lacking.iter().map(|key| format!("data.{key}")).collect();
    // The names are of a file that another may have made, and go to a terminal.
    let shown = |name: &String| match name.as_str() {
        "" => "\"\"".to_owned(),
        name => one_line(name),
    };
    let names: Vec<String> = head.names.iter().take(NAMES_SHOWN).map(shown).collect();
    let more = if head.names.len() > NAMES_SHOWN { " and others" } else { "" };
    let (names, fields) = (names.join(", ") + more, fields.join(" and "));
    Some(format!("{data} has the columns {names}: name the right ones in the job file as {fields}"))
}

/// The configuration of a local model; null for a model of the hub.
fn config(model: &str) -> anyhow::Result<Value> {
    let folder = Path::new(model);
    ensure!(!folder.is_file(), "{model} is a file: name the folder of the model");
    if !folder.is_dir() {
        ensure!(!is_path(model), "there is no folder {model}");
        return Ok(Value::Null);
    }
    let path = folder.join("config.json");
    let is_adapter = !path.exists() && folder.join("adapter_config.json").exists();
    ensure!(
        !is_adapter,
        "{model} is the folder of an adapter: name its base model, and in the job file the adapter as \
         peft.adapter_name_or_path"
    );
    ensure!(path.exists(), "{model} has no config.json: name the folder of a model");
    let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// Prefixes an existing folder with `./`, which distinguishes it from a hub id.
fn folder_or_id(model: &str) -> String {
    let is_folder = Path::new(model).is_dir() && !model.starts_with(['.', '/']);
    if is_folder { format!("./{model}") } else { model.to_owned() }
}

/// Settings without which a file cannot be read.
fn settings(head: Option<&Head>) -> Vec<(&'static str, String)> {
    let settings = head.into_iter().flat_map(|head| &head.settings);
    let path = |key: &str| match key {
        "encoding" => "data.encoding",
        "delimiter" => "data.delimiter",
        _ => "data.format",
    };
    settings.map(|(key, value)| (path(key), text(value))).collect()
}

/// Settings for columns whose names differ from the defaults. A layout says its own.
fn named(columns: &[(&'static str, String)], head: Option<&Head>) -> Vec<(&'static str, String)> {
    if head.is_some_and(|head| head.settings.iter().any(|(key, _)| *key == "format")) {
        return Vec::new();
    }
    let path = |key: &str| match key {
        "text_pair" => "data.text_pair",
        "source" => "data.source",
        "target" => "data.target",
        "messages" => "data.messages",
        "prompt" => "data.prompt",
        "completion" => "data.completion",
        "chosen" => "data.chosen",
        "rejected" => "data.rejected",
        "image" => "data.image",
        "label" => "data.label",
        "tokens" => "data.tokens",
        "labels" => "data.labels",
        "question" => "data.question",
        "context" => "data.context",
        "answers" => "data.answers",
        _ => "data.text",
    };
    let differ = columns.iter().filter(|(key, name)| key != name);
    differ.map(|(key, name)| (path(key), text(name))).collect()
}

/// One label for numbers that are no classes, which is learned as a number.
fn number_of_labels(
    task: &str,
    head: Option<&Head>,
    columns: &[(&str, String)],
) -> Option<(&'static str, String)> {
    let column = columns.iter().find(|(key, _)| *key == "label").map(|(_, name)| name)?;
    let is_number = task == "sequence-classification" && head?.has_fractions(column);
    is_number.then(|| ("model.num_labels", "1".to_owned()))
}

/// Leaves out rows without a label, where a column of classes has what data sets write in its place.
fn ignored_labels(
    data: &str,
    task: &str,
    head: Option<&Head>,
    columns: &[(&str, String)],
) -> Option<(&'static str, String)> {
    let key = match task {
        "sequence-classification" => "label",
        "token-classification" => "labels",
        _ => return None,
    };
    let column = columns.iter().find(|(known, _)| *known == key).map_or(key, |(_, name)| name);
    let labels = head?.no_labels(column);
    if labels.is_empty() {
        return None;
    }
    let list = Value::from(labels).to_string();
    eprintln!(
        "note: {data} has labels by which data sets mark what has no label, and data.ignored_labels: {list} of the job \
         file leaves these out: remove those that are classes"
    );
    Some(("data.ignored_labels", list))
}

/// Quotes text for YAML.
fn text(value: &str) -> String {
    Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;
    use traind_convert::guess_head;
    use traind_job_file::JobFile;

    use super::*;

    fn init(
        folder: &Path,
        model: Option<&str>,
        data: &str,
        answers: &str,
    ) -> anyhow::Result<Value> {
        let path = |name: &str| folder.join(name).display().to_string();
        let init = Init {
            model: model.map(path),
            data: Some(path(data)),
            task: None,
            validation: None,
            cores: None,
            output: folder.join("job.yaml"),
        };
        let terminal = !answers.is_empty();
        let yaml = init.job_file(&mut Dialogue { input: answers.as_bytes(), terminal })?;
        let job = JobFile::parse(&yaml, Path::new("/base")).unwrap().job;
        Ok(serde_json::to_value(job).unwrap())
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bert")).unwrap();
        let config = r#"{"architectures": ["BertForMaskedLM"]}"#;
        fs::write(folder.path().join("bert/config.json"), config).unwrap();
        fs::write(folder.path().join("tweets.csv"), "tweet,stars\n\"a, b\",3\n").unwrap();
        fs::write(folder.path().join("texts.txt"), "It was late.\n").unwrap();
        folder
    }

    #[test]
    fn columns_and_configuration_determine_settings() {
        let folder = folder();
        let job = init(folder.path(), Some("bert"), "tweets.csv", "").unwrap();
        assert_eq!(job["model"]["task"], "sequence-classification");
        assert_eq!(
            (&job["data"]["text"], &job["data"]["label"]),
            (&"tweet".into(), &"stars".into())
        );
        assert_eq!(job["data"]["validation_split"], 0.1);
        let job = init(folder.path(), Some("bert"), "texts.txt", "").unwrap();
        assert_eq!(job["model"]["task"], "masked-lm");
    }

    /// They were masked language modeling, the model's own task, whatever their columns.
    #[test]
    fn saved_data_sets_lists_below_data_and_pairs_determine_the_task() {
        let folder = folder();
        let rows = folder.path();
        let info = json!({"features": {"text": {"dtype": "string"}, "stars": {"dtype": "int64"}}});
        fs::create_dir_all(rows.join("saved/train")).unwrap();
        fs::write(rows.join("saved/train/dataset_info.json"), info.to_string()).unwrap();
        fs::write(rows.join("saved/dataset_dict.json"), r#"{"splits": ["train"]}"#).unwrap();
        let job = init(rows, Some("bert"), "saved", "").unwrap();
        assert_eq!(job["model"]["task"], "sequence-classification");
        assert_eq!(job["data"]["label"], "stars");
        fs::write(rows.join("rows.json"), r#"{"data": [{"text": "a", "label": "b"}]}"#).unwrap();
        let job = init(rows, Some("bert"), "rows.json", "").unwrap();
        assert_eq!(job["model"]["task"], "sequence-classification");
        fs::write(rows.join("pairs.jsonl"), r#"{"anchor": "a", "positive": "b"}"#).unwrap();
        let job = init(rows, Some("bert"), "pairs.jsonl", "").unwrap();
        assert_eq!(job["model"]["task"], "embedding");
    }

    /// The job was refused, as fractions are no classes.
    #[test]
    fn fractions_are_learned_as_numbers() {
        let folder = folder();
        let labels = |rows: &str| {
            fs::write(folder.path().join("rows.csv"), rows).unwrap();
            init(folder.path(), Some("bert"), "rows.csv", "").unwrap()["model"]["num_labels"]
                .clone()
        };
        assert_eq!(labels("text,score\na,0.25\nb,1\n"), 1);
        assert_eq!(labels("text,score\na,1.0\nb,2.0\n"), Value::Null);
        assert_eq!(labels("text,label\na,good\nb,bad\n"), Value::Null);
    }

    /// Names of columns went to the terminal as they are, with zeros and escape sequences.
    #[test]
    fn binary_files_and_hostile_names_do_not_reach_the_terminal() {
        let folder = folder();
        for name in ["a.csv", "a.jsonl", "a.txt"] {
            fs::write(folder.path().join(name), [&b"\x7fELF"[..], &[0; 100]].concat()).unwrap();
            let error = init(folder.path(), Some("bert"), name, "").unwrap_err().to_string();
            assert!(error.contains("is not text in UTF-8"), "{error}");
        }
        let said = |names: Vec<String>| {
            let features: Value = names.into_iter().map(|name| (name, Value::Null)).collect();
            let head = Head::of_features(&json!({ "features": features })).unwrap();
            lacking("a.csv", "masked-lm", &head, &[]).unwrap()
        };
        let few = said(["", "a\u{1b}[2J", "b"].map(str::to_owned).to_vec());
        assert!(few.starts_with("a.csv has the columns \"\", a"), "{few}");
        assert!(!few.contains('\u{1b}'), "{few}");
        let many = said((0..1000).map(|number| format!("{number:04}")).collect());
        assert!(many.contains("0049 and others") && many.len() < 500, "{many}");
    }

    /// A causal language model once made `causal-lm` of every file.
    #[test]
    fn conversations_preferences_and_summaries_determine_the_task() {
        let folder = folder();
        let task = |model: &str, architecture: &str, row: &str| {
            let config = format!(r#"{{"architectures": ["{architecture}"]}}"#);
            fs::create_dir_all(folder.path().join(model)).unwrap();
            fs::write(folder.path().join(model).join("config.json"), config).unwrap();
            fs::write(folder.path().join("rows.jsonl"), row).unwrap();
            let job = init(folder.path(), Some(model), "rows.jsonl", "").unwrap();
            (job["model"]["task"].clone(), job["data"].clone())
        };
        for (row, wanted) in [
            (r#"{"messages": [{"role": "user", "content": "a"}]}"#, "sft"),
            (r#"{"prompt": "a", "completion": "b"}"#, "sft"),
            (r#"{"prompt": "a", "chosen": "b", "rejected": "c"}"#, "dpo"),
            (r#"[{"instruction": "a", "input": "", "output": "b"}]"#, "sft"),
            (r#"{"conversations": [{"from": "human", "value": "a"}]}"#, "sft"),
            (r#"{"text": "a"}"#, "causal-lm"),
        ] {
            assert_eq!(task("llama", "LlamaForCausalLM", row).0, wanted, "{row}");
            assert_eq!(task("gpt2", "GPT2LMHeadModel", row).0, wanted, "{row}");
        }
        let row = r#"{"text": "a", "summary": "b"}"#;
        let (found, data) = task("t5", "T5ForConditionalGeneration", row);
        assert_eq!(found, "seq2seq-lm");
        assert_eq!((&data["source"], &data["target"]), (&"text".into(), &"summary".into()));
    }

    #[test]
    fn other_delimiters_encodings_and_layouts_are_written_out() {
        let folder = folder();
        let written = |name: &str, content: &[u8]| {
            fs::write(folder.path().join(name), content).unwrap();
            init(folder.path(), Some("bert"), name, "").unwrap()["data"].clone()
        };
        let data = written("excel.csv", b"Text;Score\n\xe9t\xe9;1,5\n");
        assert_eq!((&data["delimiter"], &data["encoding"]), (&";".into(), &"latin-1".into()));
        assert_eq!((&data["text"], &data["label"]), (&"Text".into(), &"Score".into()));
        let turns = br#"{"conversations": [{"from": "human", "value": "a"}]}"#;
        assert_eq!(written("talks.jsonl", turns)["format"], "sharegpt");
    }

    /// SNLI has rows on which its annotators do not agree.
    #[test]
    fn labels_that_are_none_are_left_out() {
        let folder = folder();
        let written = |name: &str, content: &str| {
            fs::write(folder.path().join(name), content).unwrap();
            init(folder.path(), Some("bert"), name, "").unwrap()["data"]["ignored_labels"].clone()
        };
        let snli = "premise,hypothesis,label\na,b,neutral\na,c,-\na,d,entailment\n";
        assert_eq!(written("snli.csv", snli), serde_json::json!(["-"]));
        let rows = "{\"tokens\": [\"a\", \"b\", \"c\"], \"ner_tags\": [0, 2, 1]}\n{\"tokens\": [\"c\"], \"ner_tags\": [-1]}\n";
        assert_eq!(written("words.jsonl", rows), serde_json::json!(["-1"]));
        // Behind more than a MiB, in a last line without an end.
        let many = "a,b,neutral\n".repeat(100_000);
        let snli = format!("premise,hypothesis,label\n{many}a,c,-");
        assert_eq!(written("long.csv", &snli), serde_json::json!(["-"]));
        assert_eq!(written("tweets.csv", "tweet,stars\na,3\n"), serde_json::json!([]));
    }

    #[test]
    fn columns_that_no_name_suggests_are_to_be_named() {
        let head = guess_head::head("a.csv", b"id,toxic,remark\n".to_vec(), true).unwrap().unwrap();
        let found = lacking("a.csv", "sequence-classification", &head, &[]).unwrap();
        let expect = "a.csv has the columns id, toxic, remark: name the right ones in the job file as data.text \
                      and data.label";
        assert_eq!(found, expect);
        let named = [("text", "remark".to_owned()), ("label", "toxic".to_owned())];
        assert_eq!(lacking("a.csv", "sequence-classification", &head, &named), None);
        assert_eq!(lacking("a.csv", "sft", &head, &[]), None);
    }

    #[test]
    fn missing_settings_are_asked_for_on_a_terminal() {
        let folder = folder();
        let dev = folder.path().join("texts.txt").display().to_string();
        let answers = format!("\norg/name\ncausal-lm\n{dev}\n2\n");
        let job = init(folder.path(), None, "texts.txt", &answers).unwrap();
        assert_eq!(job["model"]["name_or_path"], "org/name");
        assert_eq!(job["model"]["task"], "causal-lm");
        assert_eq!(job["data"]["validation"], serde_json::json!([dev]));
        assert_eq!(job["resources"]["cores"], 2);
        let error = init(folder.path(), None, "texts.txt", "").unwrap_err().to_string();
        assert!(error.contains("set MODEL"), "{error}");
    }

    /// Each failure says its cause, and before the questions where it can.
    #[test]
    fn what_cannot_be_read_or_written_is_named_with_its_cause() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        for (name, content) in [
            ("adapter/adapter_config.json", "{}"),
            ("weights/model.safetensors", ""),
            ("broken/config.json", "{"),
            ("empty.csv", ""),
            ("book.xlsx", "PK"),
            ("list.json", "["),
            ("numbers.jsonl", "1\n2\n"),
        ] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), content).unwrap();
        }
        let check = |model: &str, data: &str, expect: &str| {
            let error = init(folder.path(), Some(model), data, "").unwrap_err();
            let error = format!("{error:#}").replace(&format!("{}/", folder.path().display()), "");
            assert!(error.starts_with(expect), "{error}");
        };
        check("none", "tweets.csv", "there is no folder none");
        check("tweets.csv", "tweets.csv", "tweets.csv is a file: name the folder of the model");
        check("weights", "tweets.csv", "weights has no config.json");
        check("adapter", "tweets.csv", "adapter is the folder of an adapter: name its base model");
        check("broken", "tweets.csv", "broken/config.json is not JSON: EOF while parsing");
        check("bert", "none.csv", "there is no file none.csv");
        check("bert", "none", "there is no file and no folder none");
        check("bert", "empty.csv", "empty.csv is empty");
        check(
            "bert",
            "book.xlsx",
            "book.xlsx: unknown data format; known file names end in .csv, ",
        );
        check("bert", "list.json", "list.json: no row can be read: EOF while parsing");
        check("bert", "numbers.jsonl", "numbers.jsonl: no row can be read: invalid type: integer");
        let shown = |name: &str| {
            let error = check_output(&path(name)).unwrap_err().to_string();
            error.replace(&format!("{}/", folder.path().display()), "")
        };
        assert!(shown("tweets.csv").starts_with("tweets.csv: job files are YAML"));
        assert!(shown("bert").starts_with("bert exists already: name another file"));
        assert!(shown("far/job.yaml").starts_with("write far/job.yaml: there is no folder far"));
        check_output(&path("job.yaml")).unwrap();
    }
}
