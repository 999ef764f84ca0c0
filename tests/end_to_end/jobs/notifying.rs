//! Webhooks and commands that hear of a job's states.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use sha2::{Digest, Sha256};
use traind_proto::v1::JobState;
use traind_tests::http::{Request, Response, Server};
use traind_tests::{Draft, Host, until};

const SECRET: &[u8] = b"the secret of the hook";

/// A job that fails at once, since the label map lacks a label.
fn failing(host: &Host, name: &str) -> Draft {
    let draft = Draft::new(host, name);
    // Which the planner does not read.
    fs::remove_file(draft.path("model/tokenizer.json")).unwrap();
    draft.write("key", [SECRET, b"\n"].concat())
}

/// HMAC-SHA-256 with a key shorter than a block.
fn signature(body: &[u8]) -> String {
    let key = |with: u8| {
        let mut block = [with; 64];
        SECRET.iter().enumerate().for_each(|(index, byte)| block[index] ^= byte);
        Sha256::new().chain_update(block)
    };
    let inner = key(0x36).chain_update(body).finalize();
    let digits = key(0x5c).chain_update(inner).finalize();
    format!("sha256={}", digits.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[tokio::test]
async fn notifications_outlive_the_daemon_and_are_signed() {
    let is_open = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&is_open);
    let server = Server::start(move |_| match opened.load(Ordering::SeqCst) {
        true => Response::new(204, ""),
        false => Response::new(503, ""),
    });
    let url = |path: &str| format!("{}/{path}", server.url());
    let mut host = Host::prepared(1);
    host.add_options(&["--notify-webhook", &url("all"), "--notify-states", "running,failed"]);
    host.start().await;
    let draft = failing(&host, "job")
        .set("notify.states", "[failed]")
        .set("notify.webhooks", format!("[\"{}\"]", url("job?a=b")))
        .set("notify.secret_file", "key");
    let out = draft.path("heard.json");
    let program = format!("cat > '{}' && echo $TRAIND_JOB_STATE >> '{0}'", out.display());
    let draft = draft.set("notify.command", format!("[/bin/sh, -c, \"{program}\"]"));
    let job = host.create(&draft).await.unwrap();
    let job = host.watch(&job.id).await.job;
    assert_eq!(job.state(), JobState::Failed);
    until("the command has run", || {
        fs::read_to_string(&out).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    let heard = fs::read_to_string(&out).unwrap();
    let (heard, state) = heard.trim_end().rsplit_once('}').unwrap();
    let heard: Value = serde_json::from_str(&format!("{heard}}}")).unwrap();
    assert_eq!((state, &heard["job"]["id"]), ("failed", &job.id.as_str().into()));
    assert_eq!(heard["job"]["failure"]["reason"], "FILE_NOT_FOUND");

    // No request has succeeded yet.
    let arrived = |path: &str| server.requests().iter().any(|request| request.path == path);
    until("webhooks are tried", || arrived("/all") && arrived("/job")).await;
    host.kill_daemon();
    let tried = server.requests().len();
    is_open.store(true, Ordering::SeqCst);
    host.start().await;
    // One that was on its way when the daemon was killed arrives again.
    let distinct = || {
        let delivery = |request: &Request| request.headers["x-traind-delivery"].clone();
        let mut requests: Vec<Request> = server.requests().split_off(tried);
        requests.sort_by_key(|request| (request.path.clone(), delivery(request)));
        requests.dedup_by_key(|request| delivery(request));
        requests
    };
    until("all have arrived", || distinct().len() == 3).await;
    let requests = distinct();
    let state = |request: &Request| request.headers["x-traind-event"].clone();
    assert_eq!(requests.iter().map(state).collect::<Vec<_>>(), ["running", "failed", "failed"]);
    let [_, operators, jobs] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((jobs.path.as_str(), jobs.query.as_str()), ("/job", "a=b"));
    assert_eq!(jobs.headers["x-traind-signature-256"], signature(&jobs.body));
    assert!(!operators.headers.contains_key("x-traind-signature-256"));
    let said: Value = serde_json::from_slice(&jobs.body).unwrap();
    assert_eq!(said, heard);
}

#[tokio::test]
async fn a_confining_daemon_takes_no_commands_and_other_webhooks() {
    let mut host = Host::prepared(1);
    let root = host.path("").display().to_string();
    host.add_options(&["--allow-root", &root, "--allow-url", "https://example.com/hooks"]);
    host.start().await;
    let draft = failing(&host, "job")
        .set("notify.command", "[/bin/true]")
        .set("notify.webhooks", "[\"https://example.com/hooks/a\", \"https://example.org/\"]")
        .set("notify.secret_file", "/etc/passwd");
    let details = format!("{:?}", host.create(&draft).await.unwrap_err());
    for part in [
        "is not allowed by a daemon that confines jobs to folders",
        "https://example.org/ is not below https://example.com/hooks/",
        "/etc/passwd is outside the folders",
    ] {
        assert!(details.contains(part), "{part}: {details}");
    }
    assert!(!details.contains("hooks/a is not"), "{details}");
}
