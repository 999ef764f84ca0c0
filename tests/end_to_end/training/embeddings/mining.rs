//! Hard negatives, which `traind mine` finds with a model. The unit tests of the runner compare them with
//! sentence-transformers'.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use traind_tests::model::Weights;
use traind_tests::{Draft, Host, POLL, alive, model, traind};

use super::write_model;
use crate::training::sft::{fixture, lines};

/// Vectors are written as safetensors where that is asked for. Labels may be of any kind, since none is read.
#[tokio::test]
async fn vectors_are_written_as_safetensors() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let folder = host.path("embed");
    std::fs::create_dir(&folder).unwrap();
    write_model(&folder.join("model"), &fixture);
    let rows = fixture["runs"]["symmetric"]["rows"].as_array().unwrap();
    let mut labelled = rows.clone();
    labelled.iter_mut().for_each(|row| row["label"] = json!("entailment"));
    std::fs::write(folder.join("pairs.jsonl"), lines(&labelled)).unwrap();
    let embed = ["embed", "model", "pairs.jsonl", "--cores", "1", "--safetensors", "--normalize"];
    let found = host.cli(&folder, &embed);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    assert_eq!(found.stdout.lines().last(), Some("pairs-vectors/vectors.safetensors"));
    let written = Weights::read(folder.join("pairs-vectors/vectors.safetensors"));
    for column in ["anchor", "positive"] {
        let values = written.values(column);
        assert_eq!(values.len(), rows.len() * 16);
        let length: f32 = values[..16].iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    let names = |path: &str| -> Vec<_> {
        let entries = std::fs::read_dir(folder.join(path)).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names("pairs-vectors"), ["vectors.safetensors"]);

    let own = folder.join("own/predictions.parquet");
    std::fs::create_dir(folder.join("own")).unwrap();
    std::fs::write(&own, "of a user").unwrap();
    std::fs::write(folder.join("lacking.jsonl"), "{\"a\": \"one\"}\n{\"a\": null}\n").unwrap();
    let check = |command: &str, file: &str, options: &[&str], expect: &str| {
        let found = host.cli(&folder, &[&[command, "model", file], options].concat());
        assert_eq!(found.code, Some(1), "{}", found.stdout);
        assert!(found.stderr.starts_with(&format!("error: {expect}")), "{}", found.stderr);
    };
    let exists = "own/predictions.parquet exists already";
    check("embed", "pairs.jsonl", &["--output", "own"], exists);
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "of a user");
    check("embed", "lacking.jsonl", &["--safetensors"], "1 row has no text");
    check("embed", "pairs.jsonl", &["-o", "new/a", "--max-length", "99999"], "--max-length is ");
    check("embed", "pairs.jsonl", &["-o", "new/a", "--cores", "65536"], "--cores 65536: ");
    check("mine", "pairs.jsonl", &["-o", "nodir/x.jsonl"], "there is no folder nodir");
    let mut left = names("");
    left.sort();
    assert_eq!(left, ["lacking.jsonl", "model", "own", "pairs-vectors", "pairs.jsonl"]);
}

/// The negatives of a file are texts of other rows or of the corpus, and a reranker is trained on them.
#[tokio::test]
async fn negatives_are_found_and_trained_on() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let job_file = "name: mined\nmodel: {name_or_path: ./ranker, task: reranker}\n\
                    data: {train: negatives.jsonl}\nreranker: {list_size: 3}\n\
                    train: {max_steps: 1, per_device_train_batch_size: 2, save_strategy: 'no'}\noutput_dir: out\n";
    let draft = Draft::of_job_file(&host, "mined", job_file);
    write_model(&draft.path("model"), &fixture);
    model::write_fixture(&draft.path("ranker"), "bert-regression");
    let rows = fixture["runs"]["symmetric"]["rows"].as_array().unwrap();
    let corpus = [json!("one two"), json!("great words"), json!(null)];
    let corpus: Vec<Value> = corpus.iter().map(|text| json!({ "text": text })).collect();
    let draft = draft.write("pairs.jsonl", lines(rows)).write("corpus.jsonl", lines(&corpus));
    let folder = draft.path("");
    let mine = |more: &[&str]| {
        let all = [&["mine", "model", "pairs.jsonl", "--cores", "1"], more].concat();
        host.cli(&folder, &all)
    };
    let lists =
        ["--num-negatives", "2", "--output-format", "labeled-list", "--corpus", "corpus.jsonl"];
    let found = mine(&[&lists[..], &["--output", "negatives.jsonl"]].concat());
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let expect = "negatives.jsonl: 16 rows, 32 negatives of 16 queries among 18 texts\n\
                  1 row was left out, for want of a text\n";
    assert_eq!(found.stdout, expect);
    let written = std::fs::read_to_string(draft.path("negatives.jsonl")).unwrap();
    let printed = mine(&[&lists[..], &["--output", "-"]].concat());
    assert_eq!(
        (printed.stdout, printed.stderr),
        (written.clone(), expect.replace("negatives.jsonl", "-"))
    );
    let texts: Vec<&Value> = rows
        .iter()
        .map(|row| &row["positive"])
        .chain(corpus[..2].iter().map(|row| &row["text"]))
        .collect();
    for (line, row) in written.lines().zip(rows) {
        let mined: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&mined["anchor"], &mined["labels"]), (&row["anchor"], &json!([1, 0, 0])));
        let found = mined["positive"].as_array().unwrap();
        assert_eq!(found[0], row["positive"]);
        assert!(found[1..].iter().all(|text| *text != found[0] && texts.contains(&text)));
    }
    host.complete(&draft).await;
    let again = mine(&["--output", "negatives.jsonl"]);
    assert!(again.stderr.contains("negatives.jsonl exists already"), "{}", again.stderr);
    let column = mine(&["--query", "question"]);
    assert!(column.stderr.contains("question"), "{}", column.stderr);
    let room = mine(&["--range-min", "2", "--range-max", "4"]);
    assert!(
        room.stderr.contains("--range-max 4 leaves no room for 3 negatives"),
        "{}",
        room.stderr
    );
}

/// A command that is killed removes no files, but its runner does not continue.
#[test]
fn a_runner_ends_with_a_command_that_is_killed() {
    // The shell stands for the command, and names itself. The runner waits for a request that never comes.
    let script = "exec 3<&0; TRAIND_PARENT_PROCESS=$$ \"$0\" embed <&3 & echo $!; wait";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(traind().with_file_name("traind-runner"));
    let mut asking = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let request = asking.stdin.take().unwrap();
    let mut line = String::new();
    BufReader::new(asking.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let runner: u32 = line.trim().parse().unwrap();
    assert!(alive(runner));
    asking.kill().unwrap();
    asking.wait().unwrap();
    while alive(runner) {
        std::thread::sleep(POLL);
    }
    drop(request);
}
