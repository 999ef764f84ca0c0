//! Access to the web page, and its API. `web_page.rs` of the end-to-end tests checks the page
//! itself.

use serde_json::{Value, json};
use traind_proto::v1::JobState;

use crate::jobs::planning::plan_with_mesh;
use crate::support::host::{Host, until_logged};
use crate::support::http::{Answer, request, request_with};
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED};

const OPTIONS: [&str; 2] = ["--web-address", "127.0.0.1:0"];

/// A browser with the page's address and a session.
pub(crate) struct Browser {
    address: String,
    session: String,
}

impl Browser {
    async fn stranger(host: &Host) -> Browser {
        let address = until_logged(host, "serve the web page address=").await;
        Browser { address, session: String::new() }
    }

    async fn logged_in(host: &Host) -> Browser {
        Browser::with_address(host, &String::from_utf8(host.cli(&["web"]).stdout).unwrap()).await
    }

    /// Opens the URL that `traind web` printed.
    pub(crate) async fn with_address(host: &Host, login: &str) -> Browser {
        let mut browser = Browser::stranger(host).await;
        let answer = browser.log_in(key(login)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let given: Value = serde_json::from_str(&answer.body).unwrap();
        browser.session = given["session"].as_str().unwrap().to_owned();
        browser
    }

    async fn log_in(&self, key: &str) -> Answer {
        let body = format!(r#"{{"key": "{key}"}}"#);
        request_with(&self.address, "POST", "/api/login", &[], &body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[]).await
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let session = format!("Bearer {}", self.session);
        let headers: Vec<_> =
            [("authorization", session.as_str())].iter().chain(headers).copied().collect();
        request(&self.address, method, path, &headers).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let session = format!("Bearer {}", self.session);
        let headers = [("authorization", session.as_str()), ("content-type", "application/json")];
        request_with(&self.address, "POST", path, &headers, &body.to_string()).await
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

fn key(login: &str) -> &str {
    login.trim().split_once("/#/login/").unwrap().1
}

#[tokio::test]
async fn the_api_requires_a_session_and_a_key_works_once() {
    let host = Host::started_with(1, COMPLETES, &OPTIONS).await;
    let job = host.submit("secret-name", 1).await;
    let mut stranger = Browser::stranger(&host).await;
    for path in ["/api/overview".to_owned(), format!("/api/jobs/{}", job.id)] {
        for session in ["", "guess"] {
            stranger.session = session.to_owned();
            let answer = stranger.get(&path).await;
            assert_eq!(answer.status, 401, "{path}");
            assert!(answer.body.contains("traind web") && !answer.body.contains("secret-name"));
        }
    }
    let login = String::from_utf8(host.cli(&["web"]).stdout).unwrap();
    assert_eq!(stranger.log_in(key(&login)).await.status, 200);
    assert_eq!(stranger.log_in(key(&login)).await.status, 401, "a second time");
    assert_eq!(stranger.log_in("guess").await.status, 401);
}

/// Browsers send cookies to all ports of a host, and so to the servers of its other users.
#[tokio::test]
async fn sessions_do_not_use_cookies() {
    let host = Host::started_with(1, COMPLETES, &OPTIONS).await;
    let stranger = Browser::stranger(&host).await;
    let login = String::from_utf8(host.cli(&["web"]).stdout).unwrap();
    let answer = stranger.log_in(key(&login)).await;
    assert_eq!(answer.header("set-cookie"), None);
    let given: Value = serde_json::from_str(&answer.body).unwrap();
    let cookie = format!("session={}", given["session"].as_str().unwrap());
    assert_eq!(stranger.send("GET", "/api/overview", &[("cookie", &cookie)]).await.status, 401);
}

#[tokio::test]
async fn the_api_has_jobs_curves_and_events() {
    let host = Host::started_with(2, COMPLETES, &OPTIONS).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    let browser = Browser::logged_in(&host).await;
    let page = browser.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let overview = browser.json("/api/overview").await;
    assert_eq!(overview["cores"].as_array().unwrap().len(), 2);
    assert_eq!(overview["jobs"][0]["state"], "completed");
    let shown = browser.json(&format!("/api/jobs/{}", job.id)).await;
    assert!(shown["job_file"].as_str().unwrap().contains("name: first"), "{shown}");
    let curves = browser.json(&format!("/api/jobs/{}/curves", job.id)).await;
    assert_eq!(curves["steps"].as_array().unwrap().len(), 40);
    assert_eq!(curves["steps"][39]["loss"], 0.025);
    let stream = browser.get(&format!("/api/jobs/{}/events?from=1", job.id)).await;
    let last = curves["last_sequence"].as_u64().unwrap();
    assert_eq!(stream.body.matches(r#""sequence":"#).count() as u64, last, "{}", stream.body);
    assert!(stream.body.contains("event: end"), "{}", stream.body);
    let resumed = browser.get(&format!("/api/jobs/{}/events?from=41", job.id)).await.body;
    assert!(!resumed.contains(r#""sequence":40,"#) && resumed.contains(r#""sequence":41,"#));
    assert_eq!(browser.get("/api/jobs/nothing").await.status, 404);
}

#[tokio::test]
async fn every_file_that_the_page_references_exists() {
    let host = Host::started_with(1, COMPLETES, &OPTIONS).await;
    let browser = Browser::logged_in(&host).await;
    let mut wanted = vec!["/".to_owned()];
    let mut seen = Vec::new();
    while let Some(path) = wanted.pop() {
        let answer = browser.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.contains("https://"), "{path} references another host");
        for piece in answer.body.split('"') {
            let named = piece.strip_prefix("./").map(|name| format!("/assets/{name}"));
            let named = named.or_else(|| piece.starts_with("/assets/").then(|| piece.to_owned()));
            wanted.extend(named.filter(|name| !seen.contains(name)));
        }
        seen.push(path);
    }
    assert!(seen.len() > 9, "{seen:?}");
}

#[tokio::test]
async fn a_session_may_cancel() {
    let host = Host::started_with(1, STOPS_WHEN_ASKED, &OPTIONS).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let path = format!("/api/jobs/{}/cancel", job.id);
    assert_eq!(Browser::stranger(&host).await.send("POST", &path, &[]).await.status, 401);
    let browser = Browser::logged_in(&host).await;
    assert_eq!(browser.get(&path).await.status, 405);
    assert_eq!(host.get(&job.id).await.state(), JobState::Running);
    assert_eq!(browser.send("POST", &path, &[]).await.status, 200);
    host.until_state(&job.id, JobState::Cancelled).await;
}

/// The planner is a script here, whose answer is a file.
#[tokio::test]
async fn meshes_are_planned_for_other_machines() {
    let host = Host::started_with(2, COMPLETES, &OPTIONS).await;
    let planned = json!({"plan": plan_with_mesh()}).to_string();
    std::fs::write(host.path("plan.json"), planned).unwrap();
    let request = host.request("planned", 1);
    let browser = Browser::logged_in(&host).await;
    let mut form = json!({"job_file": request.job_file, "base_dir": request.base_dir,
        "platform": "cuda", "device": "h100", "hosts": 2, "cores_per_host": 8});
    let answer = browser.post("/api/plan", &form).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let shown: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        shown["meshes"][0]["settings"],
        "8 x 1, 8 parts, interleave 2, full_shard, positions"
    );
    assert_eq!(shown["meshes"][0]["sent_bytes"], json!([5, 6, 7]));
    assert_eq!(Browser::stranger(&host).await.post("/api/plan", &form).await.status, 401);

    form["job_file"] = json!(request.job_file.replace("task:", "tusk:"));
    let refused = browser.post("/api/plan", &form).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("model.tusk"), "{}", refused.body);
}

#[tokio::test]
async fn a_session_has_its_users_permissions() {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    let user = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap().trim().to_owned();
    let access = host.path("access.yaml");
    std::fs::write(&access, format!("users: {{{user}: viewer}}\n")).unwrap();
    host.options = OPTIONS.map(str::to_owned).to_vec();
    host.options.extend(["--access".to_owned(), access.display().to_string()]);
    host.start().await;
    let browser = Browser::logged_in(&host).await;
    assert_eq!(browser.json("/api/overview").await["user"], user);
    let answer = browser.send("POST", "/api/jobs/any/cancel", &[]).await;
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("requires the role submitter"), "{}", answer.body);
    // What was refused is in the audit log, too.
    let log = std::fs::read_to_string(host.path("state/audit/audit-000000000001.jsonl")).unwrap();
    let last = log.lines().last().unwrap();
    assert!(last.contains("web page") && last.contains("PermissionDenied"), "{log}");
    let form = json!({"job_file": "", "base_dir": "/"});
    assert_eq!(browser.post("/api/plan", &form).await.status, 403);
}

#[tokio::test]
async fn without_a_page_the_error_has_instructions() {
    let host = Host::started(1, COMPLETES).await;
    let said = host.cli(&["web"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("--web-address 127.0.0.1:9401"), "{text}");
}
