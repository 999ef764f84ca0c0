//! A hub with one model, `org/tiny`: what a revision has, where each file lies, its content.
//! Large files lie elsewhere, as on the real one, and are known by their SHA-256.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::http::{Answer, Cuts, Request, Server};

pub const MODEL: &str = "org/tiny";
pub const GATED: &str = "org/gated";
pub const TOKEN: &str = "hf_the_token_of_the_test";
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Debug)]
pub struct Hub {
    server: Server,
    cuts: Cuts,
}

impl Hub {
    /// Serves the files of a folder, to those who know `token`, if there is one.
    pub fn start(folder: &Path, token: Option<&str>) -> Hub {
        let folder = folder.to_owned();
        let token = token.map(|token| format!("Bearer {token}"));
        let cuts = Cuts::default();
        let left = cuts.clone();
        let server = Server::start(move |request| {
            let given = request.headers.get("authorization");
            let elsewhere = request.path.starts_with("/lfs/");
            if token.is_some() && given != token.as_ref() && !elsewhere {
                return Answer::new(401, "").with("x-error-code", "RepoNotFound");
            }
            let mut answer = answer(&folder, request);
            if request.method == "GET" && elsewhere {
                left.apply(&mut answer);
            }
            answer
        });
        Hub { server, cuts }
    }

    /// Breaks off the next `count` downloads of large files.
    pub fn cut(&self, count: usize) {
        self.cuts.set(count);
    }

    pub fn server(&self) -> &Server {
        &self.server
    }
}

fn answer(folder: &Path, request: &Request) -> Answer {
    let path = request.path.as_str();
    if path.starts_with(&format!("/api/models/{GATED}/")) {
        return Answer::new(403, "").with("x-error-code", "GatedRepo");
    }
    if let Some(revision) = path.strip_prefix(&format!("/api/models/{MODEL}/revision/")) {
        return match revision {
            "main" | COMMIT => Answer::new(200, info(folder)),
            _ => Answer::new(404, "").with("x-error-code", "RevisionNotFound"),
        };
    }
    let file = path.strip_prefix(&format!("/{MODEL}/resolve/{COMMIT}/"));
    if let Some(content) = file.and_then(|file| fs::read(folder.join(file)).ok()) {
        return resolved(file.unwrap_or_default(), content, request);
    }
    match path.strip_prefix("/lfs/").and_then(|file| fs::read(folder.join(file)).ok()) {
        Some(content) => Answer::new(200, content).ranged(request),
        None => Answer::new(404, "").with("x-error-code", "RepoNotFound"),
    }
}

fn info(folder: &Path) -> String {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let siblings = names.map(|name| serde_json::json!({"rfilename": name.to_str().unwrap()}));
    let siblings: Vec<serde_json::Value> = siblings.collect();
    serde_json::json!({"id": MODEL, "sha": COMMIT, "siblings": siblings}).to_string()
}

fn resolved(file: &str, content: Vec<u8>, request: &Request) -> Answer {
    if !file.ends_with(".safetensors") {
        let etag = format!("\"{:040x}\"", content.len());
        return Answer::new(200, content).ranged(request).with("etag", &etag);
    }
    let digest = Sha256::digest(&content);
    let etag: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Answer::new(302, "")
        .with("x-repo-commit", COMMIT)
        .with("x-linked-etag", &format!("\"{etag}\""))
        .with("x-linked-size", &content.len().to_string())
        .with("location", &format!("http://{}/lfs/{file}", localhost(request)))
}

/// Another name for the same host: tokens must not go there.
fn localhost(request: &Request) -> String {
    request.headers["host"].replace("127.0.0.1", "localhost")
}
