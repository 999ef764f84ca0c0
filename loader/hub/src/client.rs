//! The part of the hub's protocol that fetches files: the listing of a revision, then ETag, size and
//! content of each file.

use std::io::Read;
use std::time::Duration;

use reqwest::blocking::{Client as Http, RequestBuilder, Response};
use reqwest::header::{ETAG, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;

use super::{Problem, Repository};

const ENDPOINT: &str = "https://huggingface.co";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit for each response and each part of a body, unless HF_HUB_DOWNLOAD_TIMEOUT is set.
const TIMEOUT: Duration = Duration::from_secs(60);
/// [`TIMEOUT`] of a plan, which a user waits for.
const PLAN_TIMEOUT: Duration = Duration::from_secs(4);
/// Well above the list of any repository's files.
const LISTING_BYTES_MAX: u64 = 64 << 20;
/// Well above the size of any `config.json`.
const SMALL_FILE_BYTES_MAX: u64 = 4 << 20;
const REDIRECTS_MAX: usize = 5;

/// A revision as the hub describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Revision {
    #[serde(rename = "sha")]
    pub(crate) commit: String,
    #[serde(rename = "siblings", deserialize_with = "names")]
    pub(crate) files: Vec<String>,
}

/// A file's description, which precedes its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileInfo {
    /// The SHA-256 of the content for large files.
    pub(crate) etag: String,
    pub(crate) bytes: u64,
}

pub(crate) struct Client {
    endpoint: Url,
    token: Option<String>,
    /// Follows no redirects: the description of a large file comes with the redirect to its content.
    unredirected: Http,
    redirected: Http,
}

/// Leaves out the token, and a password in the address.
impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("endpoint", &bare(&self.endpoint)).finish()
    }
}

impl Revision {
    pub(crate) fn has(&self, file: &str) -> bool {
        self.files.iter().any(|name| name == file)
    }
}

impl Client {
    pub(crate) fn new() -> Result<Client, Problem> {
        let timeout = variable("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|text| text.parse().ok());
        Client::with_timeout(timeout.map_or(TIMEOUT, Duration::from_secs))
    }

    pub(crate) fn for_plan() -> Result<Client, Problem> {
        Client::with_timeout(PLAN_TIMEOUT)
    }

    fn with_timeout(timeout: Duration) -> Result<Client, Problem> {
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        Client::at(&endpoint, timeout)
    }

    /// A client of the hub at an address.
    pub(crate) fn at(endpoint: &str, timeout: Duration) -> Result<Client, Problem> {
        // The address may have a password.
        let unreachable = |error: &dyn std::error::Error| Problem::Unreachable {
            message: format!("its address in HF_ENDPOINT: {error}"),
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
            endpoint: Url::parse(endpoint).map_err(|error| unreachable(&error))?,
        })
    }

    /// Returns the commit of a revision and its files.
    pub(crate) fn revision(
        &self,
        repository: &Repository,
        revision: &str,
    ) -> Result<Revision, Problem> {
        let before = ["api", repository.plural()];
        let url = self.url(&before, &repository.id, &["revision", revision], "");
        let response = self.send(self.redirected.get(url))?;
        let response = self.accepted(response, &repository.id, Some(revision))?;
        let corrupt = || Problem::Corrupt { file: "the list of files".to_owned() };
        let mut listing = Vec::new();
        let read = response.take(LISTING_BYTES_MAX).read_to_end(&mut listing);
        let broken =
            |error| Problem::Unreachable { message: format!("the list of files: {error}") };
        read.map_err(broken)?;
        let found: Revision = serde_json::from_slice(&listing).map_err(|_| corrupt())?;
        // The commit becomes part of a path.
        match found.commit.bytes().all(|byte| byte.is_ascii_hexdigit()) && !found.commit.is_empty()
        {
            true => Ok(found),
            false => Err(corrupt()),
        }
    }

    /// Returns the description of a file.
    pub(crate) fn file_info(
        &self,
        repository: &Repository,
        commit: &str,
        file: &str,
    ) -> Result<FileInfo, Problem> {
        let mut url = self.file_url(repository, commit, file);
        for _ in 0..REDIRECTS_MAX {
            let response = self.send(self.unredirected.request(Method::HEAD, url.clone()))?;
            let next = redirect_target(&url, &response);
            if let Some(next) = next.filter(|next| self.is_own(next) || self.is_secured(next)) {
                url = next;
                continue;
            }
            let corrupt = || Problem::Corrupt { file: file.to_owned() };
            let response = match response.status().is_redirection() {
                true => response,
                false => self.accepted(response, file, None)?,
            };
            let header = |names: [&str; 2]| {
                names.into_iter().find_map(|name| text(response.headers(), name))
            };
            let etag = header(["x-linked-etag", ETAG.as_str()]).ok_or_else(corrupt)?;
            let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
            let bytes = header(["x-linked-size", "content-length"]).ok_or_else(corrupt)?;
            // The ETag becomes a file name.
            let is_name = !etag.is_empty() && etag.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let bytes = bytes.parse().ok().filter(|_| is_name).ok_or_else(corrupt)?;
            return Ok(FileInfo { etag, bytes });
        }
        Err(Problem::Unreachable { message: format!("too many redirects at {}", bare(&url)) })
    }

    /// Requests the content of a file from byte `from`. The status says whether the server skips to
    /// that byte.
    pub(crate) fn content(
        &self,
        repository: &Repository,
        commit: &str,
        file: &str,
        from: u64,
    ) -> Result<Response, Problem> {
        let mut request = self.redirected.get(self.file_url(repository, commit, file));
        if from > 0 {
            request = request.header("Range", format!("bytes={from}-"));
        }
        self.accepted(self.send(request)?, file, None)
    }

    /// Returns the content of a small file.
    pub(crate) fn small_file(
        &self,
        repository: &Repository,
        commit: &str,
        file: &str,
    ) -> Result<Vec<u8>, Problem> {
        let mut content = Vec::new();
        let response = self.content(repository, commit, file, 0)?;
        let read = response.take(SMALL_FILE_BYTES_MAX).read_to_end(&mut content);
        read.map_err(|error| Problem::Unreachable { message: format!("{file}: {error}") })?;
        Ok(content)
    }

    fn file_url(&self, repository: &Repository, commit: &str, file: &str) -> Url {
        self.url(repository.path_prefix(), &repository.id, &["resolve", commit], file)
    }

    /// Whether requests have a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether an address is one of the hub, which may see the token.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin()
    }

    /// Whether an address is the hub's with TLS instead of without. Another port is another server.
    fn is_secured(&self, url: &Url) -> bool {
        let (old, new) = (&self.endpoint, url);
        let ports = [old.port(), new.port()];
        new.scheme() == "https" && new.host() == old.host() && ports == [None, None]
    }

    pub(crate) fn get(&self, url: Url) -> RequestBuilder {
        self.redirected.get(url)
    }

    /// A request that gives the hub something.
    pub(crate) fn to_hub(&self, url: Url) -> RequestBuilder {
        self.redirected.post(url)
    }

    /// A request that gives the hub's storage something.
    pub(crate) fn to_storage(&self, url: Url) -> RequestBuilder {
        self.redirected.put(url)
    }

    pub(crate) fn url(&self, before: &[&str], id: &str, after: &[&str], file: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(before).extend(id.split('/')).extend(after);
            path.extend(file.split('/').filter(|part| !part.is_empty()));
        }
        url
    }

    /// Sends a request with the token.
    pub(crate) fn send(&self, request: RequestBuilder) -> Result<Response, Problem> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().map_err(unreachable)
    }

    /// Returns the response if it is a success, else the problem behind its status.
    fn accepted(
        &self,
        response: Response,
        file: &str,
        revision: Option<&str>,
    ) -> Result<Response, Problem> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let code = text(response.headers(), "x-error-code");
        Err(match (code.as_deref(), revision) {
            (Some("GatedRepo"), _) => Problem::Gated,
            (Some("RevisionNotFound"), Some(revision)) => {
                Problem::NoRevision { revision: revision.to_owned() }
            }
            (Some("RepoNotFound"), _) => Problem::NotFound,
            _ if status == StatusCode::NOT_FOUND && revision.is_some() => Problem::NotFound,
            _ if status == StatusCode::UNAUTHORIZED && self.token.is_some() => Problem::BadToken,
            _ if status == StatusCode::UNAUTHORIZED => Problem::NotFound,
            _ if status == StatusCode::FORBIDDEN => Problem::Gated,
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Problem::Unreachable { message: format!("it responded with {status}") }
            }
            _ => Problem::Refused { status: status.as_u16(), file: file.to_owned() },
        })
    }
}

/// Whether HF_HUB_OFFLINE forbids requests.
pub(crate) fn is_offline() -> bool {
    let values = ["1", "ON", "YES", "TRUE"];
    variable("HF_HUB_OFFLINE").is_some_and(|value| values.contains(&value.to_uppercase().as_str()))
}

/// Describes a request without an answer. Its address is without what may be secret.
pub(crate) fn unreachable(error: reqwest::Error) -> Problem {
    let address = error.url().map(bare);
    let error = error.without_url();
    let mut message = address.map_or_else(String::new, |address| format!("{address}: "));
    message += &error.to_string();
    let mut next = std::error::Error::source(&error);
    while let Some(source) = next {
        message = format!("{message}: {source}");
        next = source.source();
    }
    Problem::Unreachable { message }
}

/// An address without user and password, and without a query, which may be the signature of a redirect.
fn bare(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail for addresses that can have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

fn redirect_target(from: &Url, response: &Response) -> Option<Url> {
    let location = text(response.headers(), LOCATION.as_str())?;
    from.join(&location).ok().filter(|_| response.status().is_redirection())
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads the names of a list of `{"rfilename": …}`.
fn names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Sibling {
        rfilename: String,
    }
    let siblings = Vec::<Sibling>::deserialize(deserializer)?;
    Ok(siblings.into_iter().map(|sibling| sibling.rfilename).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_token_is_sent_to_no_other_server_of_the_hubs_host() {
        let [hub, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let mut client = Client::at(&address(&hub), Duration::from_secs(5)).unwrap();
        client.token = Some("secret".to_owned());
        let head = format!("HTTP/1.1 307 x\r\nLocation: {}/x\r\n\r\n", address(&other));
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = hub.accept().unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..read]).to_lowercase()
        });
        let found = client.file_info(&Repository::model("org/model"), "c0ffee", "config.json");
        assert!(matches!(found, Err(Problem::Corrupt { .. })), "{found:?}");
        assert!(serving.join().unwrap().contains("authorization: bearer secret"));
        other.set_nonblocking(true).unwrap();
        assert_eq!(other.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    /// Refuses every request. Returns the heads of those that arrive.
    fn refusing() -> (String, std::sync::mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (heads, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, mut head) = (stream.unwrap(), [0; 4096]);
                let read = stream.read(&mut head).unwrap();
                let answer = b"HTTP/1.1 407 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.write_all(answer).unwrap();
                heads.send(String::from_utf8_lossy(&head[..read]).to_lowercase()).unwrap();
            }
        });
        (address, receiver)
    }

    /// The environment of a process is that of all its tests, so this test runs itself with variables for proxies.
    #[test]
    fn proxies_get_their_password_and_no_message_has_it() {
        const HUB: &str = "TRAIND_TEST_HUB";
        if let Some(hub) = variable(HUB) {
            let client = Client::at(&hub, Duration::from_secs(20)).unwrap();
            let problem = client.revision(&Repository::model("org/model"), "main").unwrap_err();
            println!("PROBLEM {problem} {problem:?} {client:?}");
            return;
        }
        let problem_of = |hub: &str, variables: &[(&str, &str)]| {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "client::tests::proxies_get_their_password_and_no_message_has_it";
            again.args(["--exact", name, "--nocapture"]).env(HUB, hub).env_remove("HF_TOKEN");
            for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
                again.env_remove(name).env_remove(name.to_uppercase());
            }
            let output = again.envs(variables.iter().copied()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains("PROBLEM"), "{output:?}");
            for secret in ["sesame", "YW5uOnNlc2FtZQ"] {
                assert!(!text.contains(secret), "{text}");
            }
            text
        };
        let (proxy, asked) = refusing();
        let (hub, direct) = refusing();
        let proxy = format!("http://ann:sesame@{proxy}");
        problem_of("http://hub.example", &[("http_proxy", &proxy)]);
        let head = asked.recv().unwrap();
        assert!(head.starts_with("get http://hub.example/api/models/org/model"), "{head}");
        assert!(head.contains("proxy-authorization: basic"), "{head}");
        for name in ["HTTPS_PROXY", "ALL_PROXY"] {
            problem_of("https://hub.example", &[(name, &proxy)]);
            assert!(asked.recv().unwrap().starts_with("connect hub.example:443"), "{name}");
        }
        // A proxy that is away, and an address that is none.
        let away =
            problem_of("http://hub.example", &[("http_proxy", "http://ann:sesame@127.0.0.1:1")]);
        assert!(away.contains("http://hub.example/"), "{away}");
        // This one passes the proxy by, with a password for the hub itself.
        let own = format!("http://ann:sesame@{hub}");
        problem_of(&own, &[("http_proxy", &proxy), ("no_proxy", "127.0.0.1,hub.example")]);
        assert!(direct.recv().unwrap().contains("authorization: basic"));
        assert!(asked.try_recv().is_err(), "the proxy is not asked");
        problem_of("http://ann:sesame@127.0.0.1:1", &[]);
    }

    #[test]
    fn a_hub_may_move_to_tls() {
        let moves = |from: &str, to: &str| {
            let client = Client::at(from, Duration::from_secs(5)).unwrap();
            client.is_secured(&Url::parse(to).unwrap())
        };
        assert!(moves("http://hub.example", "https://hub.example/x"));
        assert!(!moves("https://hub.example", "http://hub.example/x"));
        assert!(!moves("http://hub.example", "https://hub.example:8443/x"));
        assert!(!moves("http://hub.example", "https://other.example/x"));
    }
}
