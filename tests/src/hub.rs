//! A Hugging Face hub with one model, `org/tiny`, and optionally a data set, `org/rows`. As on the
//! real hub, large files are redirected to another host and identified by their SHA-256.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::http::{Request, Response, Server};

pub const MODEL: &str = "org/tiny";
pub const DATA_SET: &str = "org/rows";
pub const GATED: &str = "org/gated";
pub const TOKEN: &str = "hf_the_token_of_the_test";
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Debug)]
pub struct Hub {
    server: Server,
}

/// The files of a model or data set.
struct Repository {
    api: String,
    files: String,
    folder: PathBuf,
}

impl Hub {
    /// Serves the files of a folder as the model, to clients with `token` if one is given.
    pub fn start(folder: &Path, token: Option<&str>) -> Hub {
        Hub::serve(vec![Repository::new("models", "", MODEL, folder)], token)
    }

    /// Serves the files of two folders as the model and the data set.
    pub fn with_data_set(model: &Path, data_set: &Path) -> Hub {
        let model = Repository::new("models", "", MODEL, model);
        let data_set = Repository::new("datasets", "/datasets", DATA_SET, data_set);
        Hub::serve(vec![model, data_set], None)
    }

    fn serve(repositories: Vec<Repository>, token: Option<&str>) -> Hub {
        let token = token.map(|token| format!("Bearer {token}"));
        let server = Server::start(move |request| {
            let given = request.headers.get("authorization");
            let is_redirected = request.path.starts_with("/lfs/");
            if token.is_some() && given != token.as_ref() && !is_redirected {
                return Response::new(401, "").with("x-error-code", "RepoNotFound");
            }
            respond(&repositories, request)
        });
        Hub { server }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }
}

impl Repository {
    fn new(kind: &str, prefix: &str, id: &str, folder: &Path) -> Repository {
        Repository {
            api: format!("/api/{kind}/{id}/revision/"),
            files: format!("{prefix}/{id}/resolve/{COMMIT}/"),
            folder: folder.to_owned(),
        }
    }

    fn info(&self) -> String {
        let mut names = Vec::new();
        list(&self.folder, "", &mut names);
        let siblings = names.iter().map(|name| serde_json::json!({"rfilename": name}));
        let siblings: Vec<serde_json::Value> = siblings.collect();
        serde_json::json!({"id": "org", "sha": COMMIT, "siblings": siblings}).to_string()
    }
}

/// Collects the relative paths of all files below a folder.
fn list(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        match entry.path().is_dir() {
            true => list(&entry.path(), &format!("{name}/"), names),
            false => names.push(name),
        }
    }
}

fn respond(repositories: &[Repository], request: &Request) -> Response {
    let path = request.path.as_str();
    if path.starts_with(&format!("/api/models/{GATED}/")) {
        return Response::new(403, "").with("x-error-code", "GatedRepo");
    }
    for repository in repositories {
        if let Some(revision) = path.strip_prefix(&repository.api) {
            return match revision {
                "main" | COMMIT => Response::new(200, repository.info()),
                _ => Response::new(404, "").with("x-error-code", "RevisionNotFound"),
            };
        }
        let read = |file: &str| fs::read(repository.folder.join(file)).ok();
        let file = path.strip_prefix(&repository.files);
        if let Some(content) = file.and_then(read) {
            return resolved(file.unwrap_or_default(), content, request);
        }
        if let Some(content) = path.strip_prefix("/lfs/").and_then(read) {
            return Response::content(content).ranged(request);
        }
    }
    Response::new(404, "").with("x-error-code", "RepoNotFound")
}

fn resolved(file: &str, content: Vec<u8>, request: &Request) -> Response {
    let is_large = [".safetensors", ".parquet"].iter().any(|end| file.ends_with(end));
    let digest = Sha256::digest(&content);
    let etag: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if !is_large {
        return Response::new(200, content)
            .ranged(request)
            .with("etag", &format!("\"{}\"", &etag[..40]));
    }
    Response::new(302, "")
        .with("x-repo-commit", COMMIT)
        .with("x-linked-etag", &format!("\"{etag}\""))
        .with("x-linked-size", &content.len().to_string())
        .with("location", &format!("http://{}/lfs/{file}", localhost(request)))
}

/// The server by another host name, to which no token may be sent.
fn localhost(request: &Request) -> String {
    request.headers["host"].replace("127.0.0.1", "localhost")
}
