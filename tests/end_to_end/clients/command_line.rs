//! The command line with real jobs: its output and exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use traind_proto::v1::JobState;
use traind_tests::{Draft, Host, JOB_FILE, data};

/// A folder with the job file `job.yaml` and everything that it names.
fn folder(host: &Host, name: &str) -> Draft {
    let draft = Draft::new(host, name);
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    draft
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_job_that_completes_exits_with_0() {
    let host = Host::started(2).await;
    let draft = folder(&host, "job");
    let output = host.cli(draft.folder(), &["submit", "job.yaml", "--watch"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    for words in ["step 16/16", "eval_accuracy", draft.output("out").folder().to_str().unwrap()] {
        assert!(output.stderr.contains(words), "{words} in {}", output.stderr);
    }
    assert_eq!(host.get(output.stdout.trim()).await.state(), JobState::Completed);
    assert_eq!(host.cli(draft.folder(), &["watch", "tiny"]).code, Some(0));
    let list = host.cli(draft.folder(), &["ls"]);
    assert!(list.stdout.contains("16/16") && list.stdout.contains("completed"), "{}", list.stdout);
    let got = host.cli(draft.folder(), &["get", "tiny", "-o", "json"]);
    let job: serde_json::Value = serde_json::from_str(&got.stdout).unwrap();
    let listed = host.cli(draft.folder(), &["ls", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    for field in ["id", "name", "state", "end_time"] {
        assert_eq!(listed[0][field], job[field], "{field}");
    }
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((job["state"].as_str(), job["attempt"].as_u64()), (Some("completed"), Some(1)));

    // The classes and lengths of each split.
    let train = &job["data"][0];
    assert_eq!((train["split"].as_str(), train["rows"].as_u64()), (Some("train"), Some(60)));
    let classes = train["classes"].as_array().unwrap();
    let names: Vec<_> = classes.iter().map(|class| class["label"].as_str().unwrap()).collect();
    assert_eq!(names, data::CLASSES);
    let rows = data::rows(1, 60, 6);
    for (class, name) in classes.iter().zip(data::CLASSES) {
        let of_class = rows.iter().filter(|(_, label)| *label == name).count() as u64;
        assert_eq!(class["rows"].as_u64(), Some(of_class), "{name}");
    }
    assert_eq!((&train["lengths"]["max"], &job["data"][1]["rows"]), (&8.into(), &53.into()));
    let got = host.cli(draft.folder(), &["get", "tiny"]).stdout;
    let line = got.lines().find(|line| line.starts_with("train ")).unwrap();
    assert!(line.contains("60 rows") && line.contains("p50") && line.contains("max 8"), "{got}");
    let share = got.lines().find(|line| line.trim_start().starts_with("animal ")).unwrap();
    assert!(share.contains(" rows ") && share.contains(" %  #"), "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_job_that_fails_exits_with_3() {
    let host = Host::started(2).await;
    let draft = folder(&host, "job");
    fs::remove_file(draft.path("model/tokenizer.json")).unwrap();
    let output = host.cli(draft.folder(), &["submit", "job.yaml", "--watch"]);
    assert_eq!(output.code, Some(3), "{}", output.stderr);
    for words in ["FILE_NOT_FOUND", "tokenizer.json"] {
        assert!(output.stderr.contains(words), "{words} in {}", output.stderr);
    }
    assert_eq!(host.cli(draft.folder(), &["watch", "tiny"]).code, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_cancelled_while_watched_exits_with_4_and_ctrl_c_with_130() {
    let host = Host::started(2).await;
    let draft = folder(&host, "job");
    let endless = ["submit", "job.yaml", "--set", "train.max_steps=1000000"];
    let id = host.cli(draft.folder(), &endless).stdout.trim().to_owned();
    host.until_past(&id, 0).await;

    let mut watch = host.traind().args(["watch", &id]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("step ")));
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    assert!(lines.any(|line| line.contains("keeps running")), "the hint names the running job");
    assert_eq!(watch.wait().unwrap().code(), Some(130));
    let step = host.get(&id).await.progress.unwrap().step;
    host.until_past(&id, step).await;

    assert_eq!(host.cli(draft.folder(), &["cancel", &id]).code, Some(0));
    assert_eq!(host.cli(draft.folder(), &["watch", &id]).code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_command_exits_with_1_and_wrong_usage_with_2() {
    let host = Host::started(2).await;
    let draft = folder(&host, "job");
    let codes = [
        (&["submit", "job.yaml", "--set", "train.learning_rat=1"][..], 1, "train.learning_rate"),
        (&["submit", "job.yaml", "--set", "resources.cores=3"], 1, "2 cpu cores"),
        (&["submit", "absent.yaml"], 1, "absent.yaml"),
        (&["watch", "absent"], 1, "absent"),
        (&["cancel", "absent"], 1, "absent"),
        (&["submit"], 2, "Usage"),
        (&["trian"], 2, "Usage"),
    ];
    for (arguments, code, words) in codes {
        let output = host.cli(draft.folder(), arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
    let list = host.cli(draft.folder(), &["ls"]).stdout;
    assert!(!list.contains("pending") && !list.contains("tiny"), "a job was made: {list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_and_the_cores_of_a_running_job_are_shown() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "busy").endless().set("resources.cores", 2);
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 0).await;
    let cores = host.cli(draft.folder(), &["cores"]).stdout;
    assert_eq!(cores.matches("busy").count(), 2, "{cores}");
    let listed = host.cli(draft.folder(), &["cores", "-o", "json"]).stdout;
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let shown = |core: &serde_json::Value| {
        assert!(core["usage"]["step"].as_u64() > Some(0), "{core}");
        (core["platform"].clone(), core["core"].as_u64().unwrap(), core["job_id"].clone())
    };
    let expect = [0, 1].map(|core| ("cpu".into(), core, job.id.as_str().into()));
    assert_eq!(listed.iter().map(shown).collect::<Vec<_>>(), expect);
    let log = host.cli(draft.folder(), &["logs", "busy"]).stdout;
    assert!(log.contains("step 1/"), "{log}");
}

/// `traind logs` once panicked on a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn output_that_cannot_be_written_is_an_error() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job");
    let job = host.complete(&draft).await.job;
    let run = |arguments: &[&str], output: Stdio| {
        let output = host.traind().args(arguments).stdout(output).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in [&["logs", &job.id][..], &["ls"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, said) = run(arguments, full.into());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.starts_with("error: write to standard output: No space left"), "{said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(run(arguments, writer.into()), (Some(141), String::new()));
    }
}
