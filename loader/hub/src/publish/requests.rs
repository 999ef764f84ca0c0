//! The requests of uploads, in the form of `huggingface_hub`.

use std::time::Duration;

use reqwest::blocking::{Body, RequestBuilder, Response};
use reqwest::header::{ACCEPT, CONTENT_TYPE, ETAG};
use reqwest::{StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::client::{Client, unreachable};
use super::super::{Problem, Repository};
use super::content::Range;

const LFS: &str = "application/vnd.git-lfs+json";
const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";
/// The hub checks all files of a commit before it answers.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(600);
const CONTENT_TIMEOUT: Duration = Duration::from_secs(120);
/// A slower way to the hub counts as broken.
const BYTES_PER_SECOND_MIN: u64 = 32 << 10;
const ATTEMPTS_MAX: usize = 3;
const PAUSE: Duration = Duration::from_millis(200);
/// The most of a response that an error quotes.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// Repeats a request that fails for a moment, as storages do now and then.
pub(super) fn repeat<T>(mut request: impl FnMut() -> Result<T, Problem>) -> Result<T, Problem> {
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS_MAX {
        match request() {
            Err(Problem::Unreachable { .. }) => std::thread::sleep(pause),
            done => return done,
        }
        pause *= 2;
    }
    request()
}

impl Client {
    /// Returns the name of the token's account.
    pub(super) fn account(&self) -> Result<String, Problem> {
        let response = self.send(self.get(self.url(&["api"], "whoami-v2", &[], "")))?;
        let about: Value = answer(response, "the account of the token")?;
        let name = about.get("name").and_then(Value::as_str);
        name.map(str::to_owned).ok_or_else(|| corrupt("the account of the token"))
    }

    pub(super) fn create_repository(
        &self,
        repository: &Repository,
        is_private: Option<bool>,
    ) -> Result<(), Problem> {
        let (organization, name) = repository.id.split_once('/').unwrap_or(("", &repository.id));
        let mut about = json!({"name": name, "organization": organization, "type": "model"});
        if let Some(is_private) = is_private {
            about["visibility"] = if is_private { "private" } else { "public" }.into();
        }
        let response = self.post(self.url(&["api", "repos"], "create", &[], ""), &about)?;
        match response.status() {
            StatusCode::CONFLICT => Ok(()),
            // An account that may not create it may still write to it.
            status if status.is_client_error() => {
                let refused = check(response, "the creation of the repository");
                let exists = self.revision(repository, super::MAIN).is_ok();
                if exists { Ok(()) } else { refused.map(drop) }
            }
            _ => check(response, "the creation of the repository").map(drop),
        }
    }

    pub(super) fn create_branch(
        &self,
        repository: &Repository,
        branch: &str,
    ) -> Result<(), Problem> {
        let url = self.url(&["api", "models"], &repository.id, &["branch", branch], "");
        let response = self.post(url, &json!({}))?;
        match response.status() {
            StatusCode::CONFLICT => Ok(()),
            _ => check(response, "the creation of the branch").map(drop),
        }
    }

    /// Asks how each of some files is to be uploaded.
    pub(super) fn preupload<T: DeserializeOwned>(
        &self,
        repository: &Repository,
        branch: &str,
        files: &Value,
    ) -> Result<T, Problem> {
        let url = self.url(&["api", "models"], &repository.id, &["preupload", branch], "");
        answer(self.post(url, files)?, "the list of files to upload")
    }

    /// Asks the storage where to send files.
    pub(super) fn lfs_batch<T: DeserializeOwned>(
        &self,
        repository: &Repository,
        objects: &Value,
    ) -> Result<T, Problem> {
        let id = format!("{}.git", repository.id);
        let url = self.url(&[], &id, &["info", "lfs", "objects", "batch"], "");
        let request = self.request(url, LFS, objects).header(ACCEPT, LFS);
        answer(self.send(request)?, "the list of large files to upload")
    }

    /// Sends content to the storage, which gets no token, since its address has a signature. Returns the
    /// content's ETag.
    pub(super) fn put(&self, url: &str, content: Range) -> Result<String, Problem> {
        let bytes = content.left;
        let timeout = CONTENT_TIMEOUT + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN);
        let request = self.to_storage(parse(url)?).body(Body::sized(content, bytes));
        let response = request.timeout(timeout).send().map_err(unreachable)?;
        let response = check_stored(response)?;
        let etag = response.headers().get(ETAG).and_then(|etag| etag.to_str().ok());
        Ok(etag.unwrap_or_default().to_owned())
    }

    /// Puts the parts of a file together.
    pub(super) fn complete_parts(&self, url: &str, parts: &Value) -> Result<(), Problem> {
        let request = self.request(parse(url)?, LFS, parts).header(ACCEPT, LFS);
        check_stored(request.timeout(COMMIT_TIMEOUT).send().map_err(unreachable)?).map(drop)
    }

    /// Lets the hub look at an uploaded file. Only the hub gets the token.
    pub(super) fn verify(&self, url: &str, object: &Value) -> Result<(), Problem> {
        let url = parse(url)?;
        let is_hub = self.is_own(&url);
        let request = self.request(url, JSON, object);
        let response = match is_hub {
            true => self.send(request)?,
            false => request.send().map_err(unreachable)?,
        };
        check_stored(response).map(drop)
    }

    /// Commits; returns the address of the commit.
    pub(super) fn commit(
        &self,
        repository: &Repository,
        branch: &str,
        lines: Vec<u8>,
    ) -> Result<String, Problem> {
        let url = self.url(&["api", "models"], &repository.id, &["commit", branch], "");
        let request = self.with_body(url, NDJSON, lines).timeout(COMMIT_TIMEOUT);
        let about: Value = answer(self.send(request)?, "the commit")?;
        let url = about.get("commitUrl").and_then(Value::as_str);
        url.map(str::to_owned).ok_or_else(|| corrupt("the commit"))
    }

    fn post(&self, url: Url, value: &Value) -> Result<Response, Problem> {
        self.send(self.request(url, JSON, value))
    }

    fn request(&self, url: Url, content_type: &str, value: &Value) -> RequestBuilder {
        self.with_body(url, content_type, value.to_string().into_bytes())
    }

    fn with_body(&self, url: Url, content_type: &str, body: Vec<u8>) -> RequestBuilder {
        self.to_hub(url).header(CONTENT_TYPE, content_type).body(body)
    }
}

fn parse(url: &str) -> Result<Url, Problem> {
    Url::parse(url).map_err(|_| corrupt("the list of large files to upload"))
}

fn corrupt(subject: &str) -> Problem {
    Problem::Corrupt { file: subject.to_owned() }
}

/// Reads a response about `subject`.
fn answer<T: DeserializeOwned>(response: Response, subject: &str) -> Result<T, Problem> {
    let body = check(response, subject)?.bytes().map_err(unreachable)?;
    serde_json::from_slice(&body).map_err(|_| corrupt(subject))
}

/// Returns the response if it is a success, else the problem behind its status.
fn check(response: Response, subject: &str) -> Result<Response, Problem> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    Err(match status {
        StatusCode::UNAUTHORIZED => Problem::BadToken,
        StatusCode::FORBIDDEN => Problem::Forbidden { message: message(response) },
        StatusCode::NOT_FOUND => Problem::NotFound,
        _ if may_pass(status) => {
            Problem::Unreachable { message: format!("it responded with {status}") }
        }
        _ => Problem::Rejected {
            subject: subject.to_owned(),
            status: status.as_u16(),
            message: message(response),
        },
    })
}

/// Checks a response of the storage as [`check`] does: another attempt gets other addresses, so any problem may pass.
fn check_stored(response: Response) -> Result<Response, Problem> {
    let status = response.status();
    match status.is_success() {
        true => Ok(response),
        false if may_pass(status) => {
            Err(Problem::Unreachable { message: format!("its storage responded with {status}") })
        }
        false => Err(Problem::NotStored { status: status.as_u16(), message: message(response) }),
    }
}

/// Whether the same request may succeed later. A branch that another commit changed meanwhile is one
/// such case.
fn may_pass(status: StatusCode) -> bool {
    let passing = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::PRECONDITION_FAILED,
        StatusCode::CONFLICT,
    ];
    status.is_server_error() || passing.contains(&status)
}

/// The hub's own words.
fn message(response: Response) -> String {
    let text = response.text().unwrap_or_default();
    let about: Option<Value> = serde_json::from_str(&text).ok();
    let error = about.as_ref().and_then(|about| about.get("error")?.as_str());
    let message = error.unwrap_or(&text).trim();
    message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARACTERS_MAX).collect()
}
