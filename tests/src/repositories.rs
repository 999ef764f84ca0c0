//! A Hugging Face hub that takes commits to models' repositories, by the protocol of `huggingface_hub`:
//! large files go to a storage of another host name, in parts if they are very large.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::http::{Request, Response, Server};

pub const ACCOUNT: &str = "ann";
/// An organization in which the account may not write.
pub const FOREIGN: &str = "others";
pub const TOKEN: &str = "hf_that_may_write";
/// Files of more bytes are sent in parts of so many.
pub const PART_BYTES: usize = 5000;
const DATE: &str = "2026-11-22T12:00:00.000Z";

/// The hub with its repositories.
#[derive(Debug)]
pub struct Repositories {
    server: Server,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    repositories: BTreeMap<String, Repository>,
    /// Large files by their SHA-256.
    stored: BTreeMap<String, Vec<u8>>,
    /// The parts of unfinished uploads, by SHA-256 and number.
    parts: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
    /// Requests that a client should not send.
    faults_seen: Vec<String>,
    failures: usize,
    failed: BTreeMap<String, usize>,
    refuses: bool,
}

#[derive(Debug, Default)]
struct Repository {
    is_private: bool,
    branches: BTreeMap<String, Vec<Commit>>,
}

/// One commit with all files of the repository.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    pub id: String,
    pub title: String,
    files: BTreeMap<String, File>,
}

#[derive(Clone, Debug)]
enum File {
    Small(Vec<u8>),
    /// The SHA-256 of a large one.
    Large(String),
}

impl Repositories {
    pub fn start() -> Repositories {
        let content = Arc::new(Mutex::new(Content::default()));
        let shared = Arc::clone(&content);
        let server = Server::start(move |request| respond(&mut shared.lock().unwrap(), request));
        Repositories { server, content }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The environment of a client that may write.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![("HF_ENDPOINT", self.server.url()), ("HF_TOKEN", TOKEN.to_owned())]
    }

    /// The commits of a branch without the first, which is empty.
    pub fn commits(&self, id: &str, branch: &str) -> Vec<Commit> {
        let content = self.content();
        let repository = content.repositories.get(id);
        let commits = repository.and_then(|repository| repository.branches.get(branch));
        commits.map_or_else(Vec::new, |commits| commits[1..].to_vec())
    }

    /// The titles of [`Repositories::commits`] on the main branch.
    pub fn titles(&self, id: &str) -> Vec<String> {
        self.commits(id, "main").into_iter().map(|commit| commit.title).collect()
    }

    /// The names of the files of a repository's main branch.
    pub fn names(&self, id: &str) -> Vec<String> {
        let newest = self.commits(id, "main").pop().unwrap_or_default();
        newest.files.into_keys().collect()
    }

    /// The content of a file in the newest commit of the main branch.
    pub fn file(&self, id: &str, name: &str) -> Option<Vec<u8>> {
        let newest = self.commits(id, "main").pop()?;
        self.content().read(newest.files.get(name)?)
    }

    pub fn is_private(&self, id: &str) -> bool {
        self.content().repositories[id].is_private
    }

    /// Makes each request that changes something fail `failures` times before it succeeds.
    pub fn fail_writes(&self, failures: usize) {
        self.content().failures = failures;
    }

    /// Sets whether all requests that change something are refused.
    pub fn refuse_writes(&self, refuses: bool) {
        self.content().refuses = refuses;
    }

    /// Asserts that no token was sent to the storage, and that nothing was sent in vain.
    pub fn assert_well_used(&self) {
        let seen = &self.content().faults_seen;
        assert!(seen.is_empty(), "{seen:?}");
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }
}

impl Content {
    /// A file in the listing of a revision.
    fn entry(&self, (name, file): (&String, &File)) -> Value {
        let content = self.read(file).unwrap();
        let mut entry = json!({
            "type": "file", "path": name, "size": content.len(), "oid": git_sha1(&content),
        });
        if let File::Large(oid) = file {
            entry["lfs"] = json!({"oid": oid, "size": content.len(), "pointerSize": 130});
        }
        entry
    }

    fn read(&self, file: &File) -> Option<Vec<u8>> {
        match file {
            File::Small(content) => Some(content.clone()),
            File::Large(oid) => self.stored.get(oid).cloned(),
        }
    }

    /// The injected failure of a request, if it is to fail.
    fn failure(&mut self, request: &Request) -> Option<Response> {
        if self.refuses {
            return Some(refusal(403, "", "you may not write"));
        }
        let name = format!("{} {}?{}", request.method, request.path, request.query);
        let failed = self.failed.entry(name).or_default();
        if *failed >= self.failures {
            return None;
        }
        *failed += 1;
        Some(refusal(500, "", "try again"))
    }
}

fn respond(content: &mut Content, request: &Request) -> Response {
    let authorization = request.headers.get("authorization");
    if request.path.starts_with("/storage/") {
        if authorization.is_some() {
            content.faults_seen.push(format!("a token in {} {}", request.method, request.path));
        }
        return store(content, request);
    }
    if authorization != Some(&format!("Bearer {TOKEN}")) {
        return refusal(401, "RepoNotFound", "Invalid username or password.");
    }
    let is_question = request.path.contains("/preupload/") || request.path.ends_with("/verify");
    let is_change = request.method == "POST" && !is_question;
    if let Some(response) = is_change.then(|| content.failure(request)).flatten() {
        return response;
    }
    let path: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    match path[..] {
        ["api", "whoami-v2"] => answer(&json!({"type": "user", "name": ACCOUNT, "orgs": []})),
        ["api", "validate-yaml"] => answer(&json!({"errors": [], "warnings": []})),
        ["api", "repos", "create"] => create(content, request),
        ["api", "models", owner, name, ref rest @ ..] => {
            api(content, &format!("{owner}/{name}"), rest, request)
        }
        [owner, name, "info", "lfs", "objects", "batch"] => {
            batch(content, &format!("{owner}/{}", name.trim_end_matches(".git")), request)
        }
        [owner, name, "verify"] => verify(content, &format!("{owner}/{name}"), request),
        [owner, name, "resolve", revision, ref file @ ..] => {
            resolve(content, &format!("{owner}/{name}"), revision, &file.join("/"), request)
        }
        _ => refusal(404, "", "no such page"),
    }
}

fn api(content: &mut Content, id: &str, path: &[&str], request: &Request) -> Response {
    let Some(repository) = content.repositories.get_mut(id) else {
        return refusal(404, "RepoNotFound", "Repository not found");
    };
    let branch = match path {
        [_, branch, ..] => crate::http::decoded(branch),
        _ => "main".to_owned(),
    };
    if let ["branch", ..] = path {
        let first = repository.branches["main"][..1].to_vec();
        return match repository.branches.insert(branch, first) {
            Some(_) => refusal(409, "", "Reference already exists"),
            None => Response::new(200, ""),
        };
    }
    let Some(commits) = repository.find(&branch) else {
        return refusal(404, "RevisionNotFound", "Revision not found");
    };
    let newest = commits.last().unwrap();
    if let ["tree", ..] = path {
        let newest = newest.clone();
        return answer(&newest.files.iter().map(|file| content.entry(file)).collect());
    }
    match path {
        [] | ["revision", _] => answer(&about(id, repository.is_private, newest)),
        ["commits", _] => answer(&commits.iter().rev().map(listed).collect()),
        ["preupload", _] => preupload(newest, request),
        ["commit", _] => commit(content, id, &branch, request),
        _ => refusal(404, "", "no such page"),
    }
}

impl Repository {
    /// The commits of a branch, or those up to a commit.
    fn find(&self, revision: &str) -> Option<&[Commit]> {
        if let Some(commits) = self.branches.get(revision) {
            return Some(commits);
        }
        let up_to = |commits: &Vec<Commit>| commits.iter().position(|it| it.id == revision);
        self.branches.values().find_map(|commits| Some(&commits[..=up_to(commits)?]))
    }
}

fn about(id: &str, is_private: bool, commit: &Commit) -> Value {
    let siblings: Vec<Value> = commit.files.keys().map(|name| json!({"rfilename": name})).collect();
    json!({
        "_id": "1", "id": id, "modelId": id, "sha": commit.id, "private": is_private,
        "siblings": siblings, "tags": [], "lastModified": DATE, "createdAt": DATE,
    })
}

fn listed(commit: &Commit) -> Value {
    json!({
        "id": commit.id, "title": commit.title, "message": "", "date": DATE,
        "authors": [{"user": ACCOUNT}],
    })
}

fn create(content: &mut Content, request: &Request) -> Response {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    let owner = asked["organization"].as_str().unwrap_or(ACCOUNT);
    if owner == FOREIGN {
        return refusal(403, "", "You don't have the rights to create a model");
    }
    let id = format!("{owner}/{}", asked["name"].as_str().unwrap());
    let url = format!("{}/{id}", base(request));
    if content.repositories.contains_key(&id) {
        let body = json!({"error": "You already created this model repo", "url": url});
        return Response::new(409, body.to_string());
    }
    let first = Commit { id: hash(&id), title: "initial commit".to_owned(), ..Commit::default() };
    let is_private = asked["visibility"] == "private" || asked["private"] == true;
    let branches = BTreeMap::from([("main".to_owned(), vec![first])]);
    content.repositories.insert(id.clone(), Repository { is_private, branches });
    answer(&json!({"url": url, "name": id, "id": "1"}))
}

fn preupload(newest: &Commit, request: &Request) -> Response {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    let files = asked["files"].as_array().unwrap().iter().map(|file| {
        let name = file["path"].as_str().unwrap();
        let sample = STANDARD.decode(file["sample"].as_str().unwrap()).unwrap();
        let is_large = name.ends_with(".safetensors") || std::str::from_utf8(&sample).is_err();
        let oid = newest.files.get(name).map(|file| match file {
            File::Small(content) => git_sha1(content),
            File::Large(oid) => oid.clone(),
        });
        let mode = if is_large { "lfs" } else { "regular" };
        json!({"path": name, "uploadMode": mode, "shouldIgnore": false, "oid": oid})
    });
    answer(&json!({"files": files.collect::<Vec<_>>()}))
}

fn batch(content: &mut Content, id: &str, request: &Request) -> Response {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(asked["operation"], "upload");
    let storage = storage(request);
    let verify = format!("{}/{id}/verify", base(request));
    let objects = asked["objects"].as_array().unwrap().iter().map(|object| {
        let (oid, size) = (object["oid"].as_str().unwrap(), object["size"].as_u64().unwrap());
        if content.stored.contains_key(oid) {
            return json!({"oid": oid, "size": size});
        }
        let url = format!("{storage}/storage/{oid}");
        let count = (size as usize).div_ceil(PART_BYTES);
        let upload = match count {
            0 | 1 => json!({"href": url}),
            _ => {
                let part =
                    |part: usize| (format!("{part:05}"), Value::from(format!("{url}?part={part}")));
                let mut header: serde_json::Map<_, _> = (1..=count).map(part).collect();
                header.insert("chunk_size".to_owned(), PART_BYTES.to_string().into());
                json!({"href": format!("{url}?complete"), "header": header})
            }
        };
        let actions = json!({"upload": upload, "verify": {"href": verify}});
        json!({"oid": oid, "size": size, "authenticated": true, "actions": actions})
    });
    answer(&json!({"transfer": "multipart", "objects": objects.collect::<Vec<_>>()}))
}

fn store(content: &mut Content, request: &Request) -> Response {
    let oid = request.path.trim_start_matches("/storage/").to_owned();
    if request.method == "GET" || request.method == "HEAD" {
        return Response::content(content.stored[&oid].clone()).ranged(request);
    }
    if let Some(response) = content.failure(request) {
        return response;
    }
    let etag = format!("\"{}\"", hash(&String::from_utf8_lossy(&request.body)));
    if let Some(part) = request.parameter("part") {
        let parts = content.parts.entry(oid.clone()).or_default();
        if parts.insert(part.parse().unwrap(), request.body.clone()).is_some() {
            content.faults_seen.push(format!("part {part} of {oid} came twice"));
        }
        return Response::new(200, "").with("etag", &etag);
    }
    let whole = match request.parameter("complete") {
        Some(_) => put_together(content, &oid, request),
        None => request.body.clone(),
    };
    if sha256(&whole) != oid {
        return refusal(400, "", "the content has another checksum");
    }
    if content.stored.insert(oid.clone(), whole).is_some() {
        content.faults_seen.push(format!("{oid} came twice"));
    }
    Response::new(200, "{}").with("etag", &etag)
}

fn put_together(content: &mut Content, oid: &str, request: &Request) -> Vec<u8> {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(asked["oid"], oid);
    let parts = content.parts.remove(oid).unwrap();
    for (index, named) in asked["parts"].as_array().unwrap().iter().enumerate() {
        let etag = format!("\"{}\"", hash(&String::from_utf8_lossy(&parts[&(index + 1)])));
        assert_eq!((&named["partNumber"], &named["etag"]), (&json!(index + 1), &json!(etag)));
    }
    parts.into_values().collect::<Vec<_>>().concat()
}

fn verify(content: &Content, id: &str, request: &Request) -> Response {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    let stored = content.stored.get(asked["oid"].as_str().unwrap());
    let is_whole = stored.is_some_and(|stored| Some(stored.len() as u64) == asked["size"].as_u64());
    match is_whole && content.repositories.contains_key(id) {
        true => answer(&json!({})),
        false => refusal(404, "", "the storage has no such file"),
    }
}

fn commit(content: &mut Content, id: &str, branch: &str, request: &Request) -> Response {
    let lines: Vec<Value> = String::from_utf8(request.body.clone())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let commits = content.repositories.get_mut(id).unwrap().branches.get_mut(branch).unwrap();
    let mut next = commits.last().unwrap().clone();
    next.title = lines[0]["value"]["summary"].as_str().unwrap().to_owned();
    for line in &lines[1..] {
        let (key, value) = (line["key"].as_str().unwrap(), &line["value"]);
        let path = value["path"].as_str().unwrap().to_owned();
        match key {
            "file" => {
                let decoded = STANDARD.decode(value["content"].as_str().unwrap()).unwrap();
                next.files.insert(path, File::Small(decoded));
            }
            "lfsFile" => {
                let oid = value["oid"].as_str().unwrap().to_owned();
                if !content.stored.contains_key(&oid) {
                    return refusal(422, "", "a pointer to a file that is not there");
                }
                next.files.insert(path, File::Large(oid));
            }
            "deletedFile" => drop(next.files.remove(&path).unwrap()),
            _ => return refusal(400, "", "an unknown operation"),
        }
    }
    next.id = hash(&format!("{}{}", next.id, String::from_utf8_lossy(&request.body)));
    let url = format!("{}/{id}/commit/{}", base(request), next.id);
    let oid = next.id.clone();
    commits.push(next);
    answer(&json!({"success": true, "commitUrl": url, "commitOid": oid, "hookOutput": ""}))
}

fn resolve(content: &Content, id: &str, revision: &str, file: &str, request: &Request) -> Response {
    let commits = content.repositories.get(id).and_then(|repository| repository.find(revision));
    let Some(commit) = commits.and_then(|commits| commits.last()) else {
        return refusal(404, "RevisionNotFound", "Revision not found");
    };
    let response = match commit.files.get(file) {
        None => refusal(404, "EntryNotFound", "Entry not found"),
        Some(File::Small(content)) => {
            let etag = format!("\"{}\"", git_sha1(content));
            Response::new(200, content.clone()).ranged(request).with("etag", &etag)
        }
        Some(File::Large(oid)) => Response::new(302, "")
            .with("x-linked-etag", &format!("\"{oid}\""))
            .with("x-linked-size", &content.stored[oid].len().to_string())
            .with("location", &format!("{}/storage/{oid}", storage(request))),
    };
    response.with("x-repo-commit", &commit.id)
}

fn base(request: &Request) -> String {
    format!("http://{}", request.headers["host"])
}

fn storage(request: &Request) -> String {
    base(request).replace("127.0.0.1", "localhost")
}

fn answer(value: &Value) -> Response {
    Response::new(200, value.to_string()).with("content-type", "application/json")
}

fn refusal(status: u16, code: &str, message: &str) -> Response {
    let body = json!({"error": message}).to_string();
    Response::new(status, body).with("x-error-code", code).with("x-error-message", message)
}

fn hash(text: &str) -> String {
    sha256(text.as_bytes())[..40].to_owned()
}

fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// The name of a file's content in git.
fn git_sha1(content: &[u8]) -> String {
    hex(&Sha1::new()
        .chain_update(format!("blob {}\0", content.len()))
        .chain_update(content)
        .finalize())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
