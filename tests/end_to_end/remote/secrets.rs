//! Credentials for fetching data and models appear neither in output, nor in files of the daemon and
//! the job, nor in the list of processes.

use std::fs;
use std::path::Path;

use traind_proto::v1::JobState;
use traind_tests::bucket::{Bucket, DENIED, SECRET_KEY};
use traind_tests::hub::{GATED, Hub, MODEL, TOKEN};
use traind_tests::{Draft, Host, data, model};

const SESSION: &str = "the-session-of-the-test";
const SECRETS: [&str; 3] = [SECRET_KEY, SESSION, TOKEN];

fn bucket() -> Bucket {
    let rows = data::rows(1, 60, 6);
    let denied: &'static str = Box::leak(format!("{DENIED}train.csv").into_boxed_str());
    let content = data::csv(&rows).into_bytes();
    Bucket::start(&[("train.csv", content.clone()), (denied, content)])
}

fn held(bytes: &[u8]) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(bytes);
    SECRETS.into_iter().filter(|secret| text.contains(secret)).collect()
}

/// Every file below `folder` that holds a secret.
fn found(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(self::found(&path));
        } else if entry.file_type().unwrap().is_file() {
            let secrets = held(&fs::read(&path).unwrap_or_default());
            found.extend(secrets.iter().map(|secret| format!("{secret} in {}", path.display())));
        }
    }
    found
}

/// The command lines of all processes, as `ps` shows them.
fn command_lines() -> Vec<u8> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.flat_map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default()).collect()
}

#[tokio::test]
async fn credentials_for_data_and_models_are_found_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    model::write(folder.path());
    let (bucket, hub) = (bucket(), Hub::start(folder.path(), Some(TOKEN)));
    let mut environment = bucket.environment();
    environment.push(("AWS_SESSION_TOKEN", SESSION.to_owned()));
    environment.push(("HF_ENDPOINT", hub.server().url()));
    environment.push(("HF_TOKEN", TOKEN.to_owned()));
    // Log as much as possible.
    environment.push(("RUST_LOG", "trace".to_owned()));
    let host = Host::started_with_environment(1, environment).await;
    let draft = |name: &str| {
        let draft = Draft::new(&host, name).set("data.train", "s3://data/train.csv");
        draft.set("model.name_or_path", MODEL)
    };

    let running = host.create(&draft("running").endless()).await.unwrap();
    host.until_past(&running.id, 0).await;
    assert_eq!(held(&command_lines()), [""; 0]);
    host.cancel(&running.id).await;
    let mut stories = vec![host.watch(&running.id).await];
    assert_eq!(stories[0].job.state(), JobState::Cancelled);
    for (name, key, value) in [
        ("denied", "data.train", format!("s3://data/{DENIED}train.csv")),
        ("gated", "model.name_or_path", GATED.to_owned()),
    ] {
        let history = host.run(&draft(name).set(key, value.as_str())).await;
        assert_eq!(history.job.state(), JobState::Failed);
        stories.push(history);
    }

    let sent = [bucket.server().requests(), hub.server().requests()].concat();
    let sent: String = sent.iter().map(|request| format!("{:?}", request.headers)).collect();
    assert!(sent.contains(SESSION) && sent.contains(TOKEN), "they are used");
    for history in &stories {
        let id = history.job.id.as_str();
        let mut text = format!("{:?}{:?}", history.events, history.job);
        for arguments in [&["get", id, "-o", "json"][..], &["logs", id], &["get", id]] {
            let output = host.cli(folder.path(), arguments);
            text += &(output.stdout + &output.stderr);
        }
        assert_eq!(held(text.as_bytes()), [""; 0], "{text}");
    }
    assert!(host.log().contains("TRACE"), "the log was as talkative as it can be");
    assert_eq!(found(&host.path("")), [""; 0]);
}
