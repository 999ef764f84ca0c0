//! The web page in a headless browser.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use traind_tests::{CommandOutput, Draft, Host};

const EPOCHS: u32 = 3;
/// A name that would run a script in the browser if the page took it for markup.
const HOSTILE: &str = "endless <img src=x onerror=window.pwned=true>";
/// A folder of the same kind.
const HOSTILE_OUTPUT: &str = "out <svg onload=window.pwned=true>";
/// The browser is killed after it; all of its pages take seconds.
const DEADLINE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn the_web_page_shows_jobs_and_cores_and_cancels() {
    let Some(browser) = Browser::find() else { return };
    let host = Host::started_with(2, &["--web-address", "127.0.0.1:0"]).await;
    let draft = |name: &str| {
        let draft = Draft::new(&host, name).set("train.num_train_epochs", EPOCHS);
        draft.set("train.eval_strategy", "epoch").set("resources.cores", 2)
    };
    let brisk = draft("brisk").set("train.save_strategy", "epoch");
    let brisk = brisk.set("output_dir", HOSTILE_OUTPUT);
    let first = host.complete(&brisk).await.job;
    let forked = host.cli(brisk.folder(), &["fork", "brisk", "--set=train.num_train_epochs=4"]);
    let fork = host.watch(forked.stdout.trim()).await.job;
    let second = host.complete(&draft("gentle").edit("5.0e-3", "5.0e-4")).await.job;
    // Steps take a millisecond, too short for an event each.
    let endless = draft("endless").endless().set("train.logging_steps", 25);
    let endless = endless.set("name", HOSTILE);
    let running = host.create(&endless.set("train.eval_strategy", "no")).await.unwrap();
    let waiting = host.create(&draft("patient")).await.unwrap();
    host.until_past(&running.id, 100).await;

    let jobs = [&running.id, &waiting.id, &first.id, &second.id, &fork.id];
    let saw = browser.drive(&host, jobs.map(String::as_str));
    assert_eq!(saw["errors"], json!([]), "the browser's console");
    assert!(text(&saw["strangers"]).contains("traind web"), "{saw}");
    check_overview(&saw["overview"]);
    check_job(&saw["job"]);
    for part in
        ["eval_loss", "accuracy", "validation", HOSTILE_OUTPUT, "final", "completed", "animal"]
    {
        assert!(text(&saw["completed"]).contains(part), "{part:?} is not in {}", saw["completed"]);
    }
    let forked = &saw["forked"];
    assert_eq!(forked["legend"], json!(["training", "parent", "evaluation"]));
    assert!(text(&forked["text"]).contains(&format!("Continues {} from step", first.id)));
    assert_eq!(saw["focus"], "cancel job", "the button that was chosen");
    let broken = &saw["broken"];
    assert_eq!(broken["lines"].as_array().unwrap().len(), 2, "{broken}");
    assert!(!broken.to_string().contains("NaN"), "{broken}");
    assert!(text(&broken["none"]).contains("no finite values"), "{broken}");
    let compared = &saw["compare"];
    assert_eq!(compared["hash"], json!(format!("#/compare/{},{}", first.id, second.id)));
    assert_eq!(compared["legend"], json!(["brisk", "gentle"]));
    assert!(text(&compared["differs"]).contains("train.learning_rate"), "{compared}");
    assert!(!text(&compared["differs"]).contains("model.task"), "{compared}");
    check_plan(&saw["plan"]);
    for (page, width) in saw["phone"].as_object().unwrap() {
        assert!(width.as_u64().unwrap() <= 390, "{page} is {width} wide on a phone of 390");
    }
    assert_eq!(saw["cancelled"], json!(["cancelled"]));
    assert_eq!(
        saw["parsed"],
        json!({"overview": [0, false], "job": [0, false], "completed": [0, false]})
    );
    assert_eq!(host.get(&running.id).await.owner, running.owner);
}

fn check_overview(saw: &Value) {
    let headings = ["Cores: 2 of 2 held", "Active: 1", "Waiting: 1", "Ended"];
    assert_eq!(saw["headings"], json!(headings));
    assert_eq!(saw["cores"].as_array().unwrap().len(), 2);
    let card = text(&saw["cards"]);
    for part in ["endless", "running", "of 1000000", "loss", "samples/s", "left"] {
        assert!(card.contains(part), "{part:?} is not in {card}");
    }
    assert!(text(&saw["rows"]).contains("needs 2 cores"), "{saw}");
}

fn check_job(saw: &Value) {
    assert_eq!(saw["title"], json!([HOSTILE]));
    for slip in ["null", "undefined", "NaN", "[object"] {
        assert!(!text(&saw["text"]).contains(slip), "{slip} is in {saw}");
    }
    let charts = ["Loss", "Learning rate", "Gradient norm", "Samples per second"];
    assert_eq!(saw["charts"], json!(charts));
    let tiles = text(&saw["tiles"]);
    for part in ["left", "loss", "learning rate", "gradient norm", "samples/s", "tokens/s"] {
        assert!(tiles.contains(part), "{part:?} is not in {tiles}");
    }
    assert!(text(&saw["time"]).contains("compute"), "{saw}");
    assert!(text(&saw["log"]).contains("grad_norm"), "{saw}");
}

fn check_plan(saw: &Value) {
    assert_eq!(saw["title"], json!(["Plan of brisk"]));
    let rows = text(&saw["rows"]);
    assert!(rows.contains("shard_optimizer") && rows.contains("KiB"), "{rows}");
    assert!(text(&saw["notes"]).contains("bert"), "{saw}");
    assert!(text(&saw["refused"]).contains("model"), "{saw}");
}

/// The text of a value, or of all its elements.
fn text(value: &Value) -> String {
    match value {
        Value::Array(parts) => parts.iter().map(text).collect::<Vec<_>>().join("\n"),
        other => other.as_str().unwrap().to_owned(),
    }
}

/// Runs a command and kills its process group if it takes longer than `deadline`.
fn within(deadline: Duration, mut command: Command) -> CommandOutput {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let group = Pid::from_child(&child);
    let (send, output) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    output.recv_timeout(deadline).map(CommandOutput::of).unwrap_or_else(|_| {
        kill_process_group(group, Signal::KILL).unwrap();
        panic!("the browser took longer than {deadline:?}")
    })
}

/// Chromium, its driver, and a Python to control it.
struct Browser {
    chromium: PathBuf,
    driver: PathBuf,
    python: PathBuf,
}

impl Browser {
    fn find() -> Option<Browser> {
        let chromium = on_path("chromium").or_else(|| on_path("google-chrome"));
        let found = (|| {
            Some(Browser {
                chromium: chromium?,
                driver: on_path("chromedriver")?,
                python: on_path("python3")?,
            })
        })();
        if found.is_none() {
            let why = "no chromium, chromedriver and python3 on PATH; scripts/test installs them where it may";
            assert!(env::var_os("TRAIND_TEST_BROWSER").is_none(), "{why}");
            eprintln!("skipped: {why}");
        }
        found
    }

    fn drive(&self, host: &Host, jobs: [&str; 5]) -> Value {
        let login = host.cli(&host.path(""), &["web"]);
        assert_eq!(login.code, Some(0), "{}", login.stderr);
        let screenshots = env::var_os("TRAIND_SCREENSHOTS").map(PathBuf::from);
        let mut client = Command::new(&self.python);
        client.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("end_to_end/clients/web_page.py"));
        client.arg(&self.driver).arg(&self.chromium).arg(login.stdout.trim()).args(jobs);
        client.arg(screenshots.unwrap_or_else(|| host.path("screenshots")));
        let output = within(DEADLINE, client);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|found| found.is_file())
}
