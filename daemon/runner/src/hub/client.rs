//! The hub's protocol, as far as fetching files takes it: what a revision has, and a file's
//! ETag and size before its content.

use std::io::Read;
use std::time::Duration;

use reqwest::blocking::{Client as Http, RequestBuilder, Response};
use reqwest::header::{ETAG, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;

use super::HubProblem;
use super::repository::Repository;

const ENDPOINT: &str = "https://huggingface.co";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of each answer and each piece of a body, unless the environment says another.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The same for a plan, which people wait for.
const PLAN_TIMEOUT: Duration = Duration::from_secs(4);
/// Of `config.json`, which is kilobytes.
const CONFIG_BYTES_MAX: u64 = 4 << 20;
const REDIRECTS_MAX: usize = 5;

/// What the hub has under a revision.
#[derive(Debug, Deserialize)]
pub(super) struct Info {
    #[serde(rename = "sha")]
    pub(super) commit: String,
    #[serde(rename = "siblings", deserialize_with = "names")]
    pub(super) files: Vec<String>,
}

/// What a file is, before it is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileInfo {
    /// For large files the SHA-256 of the content.
    pub(super) etag: String,
    pub(super) bytes: u64,
}

pub(super) struct Client {
    endpoint: Url,
    token: Option<String>,
    /// The headers that tell what a large file is come with the redirect to where it lies.
    unredirected: Http,
    redirected: Http,
}

impl Client {
    pub(super) fn new() -> Result<Client, HubProblem> {
        let timeout = variable("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|text| text.parse().ok());
        Client::with_timeout(timeout.map_or(TIMEOUT, Duration::from_secs))
    }

    pub(super) fn of_plan() -> Result<Client, HubProblem> {
        Client::with_timeout(PLAN_TIMEOUT)
    }

    fn with_timeout(timeout: Duration) -> Result<Client, HubProblem> {
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let unreachable = |error: &dyn std::error::Error| HubProblem::Unreachable {
            message: format!("{endpoint}: {error}"),
        };
        let http = |policy| {
            let connect_timeout = CONNECT_TIMEOUT.min(timeout);
            let builder = Http::builder().connect_timeout(connect_timeout).timeout(timeout);
            let builder = builder.redirect(policy).user_agent("traind");
            builder.build().map_err(|error| unreachable(&error))
        };
        Ok(Client {
            token: variable("HF_TOKEN"),
            unredirected: http(Policy::none())?,
            redirected: http(Policy::limited(REDIRECTS_MAX))?,
            endpoint: Url::parse(&endpoint).map_err(|error| unreachable(&error))?,
        })
    }

    /// The commit of a revision and its files.
    pub(super) fn info(&self, repository: &Repository, revision: &str) -> Result<Info, HubProblem> {
        let before = ["api", repository.plural()];
        let url = self.url(&before, &repository.id, &["revision", revision], "");
        let answer = self.send(self.redirected.get(url))?;
        let answer = self.accepted(answer, &repository.id, Some(revision))?;
        let unreadable = |_| HubProblem::Corrupt { file: "the list of files".to_owned() };
        let info: Info =
            serde_json::from_slice(&answer.bytes().map_err(unreachable)?).map_err(unreadable)?;
        // The commit is put into a path.
        match info.commit.bytes().all(|byte| byte.is_ascii_hexdigit()) && !info.commit.is_empty() {
            true => Ok(info),
            false => Err(HubProblem::Corrupt { file: "the list of files".to_owned() }),
        }
    }

    pub(super) fn file_info(
        &self,
        repository: &Repository,
        commit: &str,
        file: &str,
    ) -> Result<FileInfo, HubProblem> {
        let mut url = self.file_url(repository, commit, file);
        for _ in 0..REDIRECTS_MAX {
            let answer = self.send(self.unredirected.request(Method::HEAD, url.clone()))?;
            let next = elsewhere(&url, &answer);
            if let Some(next) = next.filter(|next| next.host() == url.host()) {
                url = next;
                continue;
            }
            let corrupt = || HubProblem::Corrupt { file: file.to_owned() };
            let answer = match answer.status().is_redirection() {
                true => answer,
                false => self.accepted(answer, file, None)?,
            };
            let header =
                |names: [&str; 2]| names.into_iter().find_map(|name| text(answer.headers(), name));
            let etag = header(["x-linked-etag", ETAG.as_str()]).ok_or_else(corrupt)?;
            let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
            let bytes = header(["x-linked-size", "content-length"]).ok_or_else(corrupt)?;
            // The ETag is put into a path.
            let named = !etag.is_empty() && etag.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let bytes = bytes.parse().ok().filter(|_| named).ok_or_else(corrupt)?;
            return Ok(FileInfo { etag, bytes });
        }
        Err(HubProblem::Unreachable { message: format!("{url} leads nowhere but elsewhere") })
    }

    /// The content of a file from a byte on; the answer says whether it begins there.
    pub(super) fn content(
        &self,
        repository: &Repository,
        commit: &str,
        file: &str,
        from: u64,
    ) -> Result<Response, HubProblem> {
        let mut request = self.redirected.get(self.file_url(repository, commit, file));
        if from > 0 {
            request = request.header("Range", format!("bytes={from}-"));
        }
        self.accepted(self.send(request)?, file, None)
    }

    /// The content of a small file.
    pub(super) fn small(
        &self,
        repository: &Repository,
        commit: &str,
        file: &str,
    ) -> Result<Vec<u8>, HubProblem> {
        let mut content = Vec::new();
        let answer = self.content(repository, commit, file, 0)?;
        let read = answer.take(CONFIG_BYTES_MAX).read_to_end(&mut content);
        read.map_err(|error| HubProblem::Unreachable { message: format!("{file}: {error}") })?;
        Ok(content)
    }

    fn file_url(&self, repository: &Repository, commit: &str, file: &str) -> Url {
        self.url(repository.prefix(), &repository.id, &["resolve", commit], file)
    }

    fn url(&self, before: &[&str], id: &str, after: &[&str], file: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(before).extend(id.split('/')).extend(after);
            path.extend(file.split('/').filter(|part| !part.is_empty()));
        }
        url
    }

    fn send(&self, request: RequestBuilder) -> Result<Response, HubProblem> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().map_err(unreachable)
    }

    fn accepted(
        &self,
        answer: Response,
        what: &str,
        revision: Option<&str>,
    ) -> Result<Response, HubProblem> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let code = text(answer.headers(), "x-error-code");
        let refused = || HubProblem::Refused { status: status.as_u16(), what: what.to_owned() };
        Err(match (code.as_deref(), revision) {
            (Some("GatedRepo"), _) => HubProblem::Gated,
            (Some("RevisionNotFound"), Some(revision)) => {
                HubProblem::NoRevision { revision: revision.to_owned() }
            }
            (Some("RepoNotFound"), _) => HubProblem::NotFound,
            _ if status == StatusCode::NOT_FOUND && revision.is_some() => HubProblem::NotFound,
            _ if status == StatusCode::UNAUTHORIZED && self.token.is_some() => HubProblem::BadToken,
            _ if status == StatusCode::UNAUTHORIZED => HubProblem::NotFound,
            _ if status == StatusCode::FORBIDDEN => HubProblem::Gated,
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                HubProblem::Unreachable { message: format!("it answered with {status}") }
            }
            _ => refused(),
        })
    }
}

/// Whether nothing is to be asked of the hub.
pub(super) fn is_offline() -> bool {
    let values = ["1", "ON", "YES", "TRUE"];
    variable("HF_HUB_OFFLINE").is_some_and(|value| values.contains(&value.to_uppercase().as_str()))
}

pub(super) fn unreachable(error: reqwest::Error) -> HubProblem {
    let mut message = error.to_string();
    let mut next = std::error::Error::source(&error);
    while let Some(source) = next {
        message = format!("{message}: {source}");
        next = source.source();
    }
    HubProblem::Unreachable { message }
}

fn elsewhere(from: &Url, answer: &Response) -> Option<Url> {
    let location = text(answer.headers(), LOCATION.as_str())?;
    from.join(&location).ok().filter(|_| answer.status().is_redirection())
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Sibling {
        rfilename: String,
    }
    let siblings = Vec::<Sibling>::deserialize(deserializer)?;
    Ok(siblings.into_iter().map(|sibling| sibling.rfilename).collect())
}
