//! A server for the part of the S3 protocol that reads, lists, writes and removes objects.
//!
//! It watches over checkpoints: from the moment that a manifest is there, all files that it names
//! are there with their sizes, until it is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use sha2::{Digest, Sha256};

use crate::http::{Request, Response, Server, decoded};

pub const BUCKET: &str = "data";
pub const ACCESS_KEY: &str = "AKIATESTKEY";
pub const SECRET_KEY: &str = "the-secret-of-the-test";
/// A prefix of objects that may be neither read nor written.
pub const DENIED: &str = "private/";
const MANIFEST: &str = "manifest.json";

/// A bucket with a few objects.
#[derive(Debug)]
pub struct Bucket {
    server: Server,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    objects: BTreeMap<String, Vec<u8>>,
    /// The parts of unfinished uploads by their ids.
    uploads: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
    begun: usize,
    /// Reports of checkpoints that were not whole.
    torn: Vec<String>,
    faults: WriteFaults,
}

/// Faults to inject into requests that change something.
#[derive(Debug, Default)]
struct WriteFaults {
    /// Each request fails as often before it succeeds.
    failures: usize,
    /// How often each has failed.
    failed: BTreeMap<String, usize>,
    /// Refuses all of them.
    refuses: bool,
    /// The number of requests that change something before one is refused.
    left: Option<usize>,
}

impl Bucket {
    pub fn start(objects: &[(&str, Vec<u8>)]) -> Bucket {
        let objects =
            objects.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.clone())).collect();
        let content = Arc::new(Mutex::new(Content { objects, ..Content::default() }));
        let shared = Arc::clone(&content);
        let server = Server::start(move |request| respond(&mut shared.lock().unwrap(), request));
        Bucket { server, content }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The environment of a daemon that may use the bucket.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.server.url()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_REGION", "eu-central-1".to_owned()),
        ]
    }

    /// The keys that begin with `prefix`.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let content = self.content();
        content.objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.content().objects.get(key).cloned()
    }

    /// Puts an object there, as another program would.
    pub fn put(&self, key: &str, bytes: Vec<u8>) {
        self.content().objects.insert(key.to_owned(), bytes);
    }

    pub fn remove(&self, key: &str) {
        self.content().objects.remove(key).unwrap();
    }

    /// The steps of the checkpoints below `prefix` that have a manifest.
    pub fn checkpoints(&self, prefix: &str) -> Vec<u64> {
        let step = |key: &String| {
            let name = key.strip_prefix(prefix)?.strip_prefix("/checkpoint-")?;
            name.strip_suffix(&format!("/{MANIFEST}"))?.parse().ok()
        };
        let mut steps: Vec<u64> = self.keys(prefix).iter().filter_map(step).collect();
        steps.sort_unstable();
        steps
    }

    /// Makes each request that changes something fail `failures` times before it succeeds.
    pub fn fail_writes(&self, failures: usize) {
        self.content().faults.failures = failures;
    }

    /// Sets whether all requests that change something are refused.
    pub fn refuse_writes(&self, refuses: bool) {
        self.content().faults.refuses = refuses;
    }

    /// Refuses the change that follows `count` more.
    pub fn refuse_write_after(&self, count: usize) {
        self.content().faults.left = Some(count);
    }

    /// Asserts that no checkpoint with a manifest lacked a file at any time.
    pub fn assert_never_torn(&self) {
        let torn = &self.content().torn;
        assert!(torn.is_empty(), "{torn:?}");
    }

    /// The number of uploads in parts that were begun and not ended.
    pub fn unfinished_uploads(&self) -> usize {
        self.content().uploads.len()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }
}

fn respond(content: &mut Content, request: &Request) -> Response {
    let signed = request.headers.get("authorization").cloned().unwrap_or_default();
    if !signed.contains(&format!("Credential={ACCESS_KEY}/")) {
        return refusal(403, "InvalidAccessKeyId");
    }
    let path = decoded(&request.path[1..]);
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    if bucket != BUCKET {
        return refusal(404, "NoSuchBucket");
    }
    if key.starts_with(DENIED) {
        return refusal(403, "AccessDenied");
    }
    match request.method.as_str() {
        "GET" if request.parameter("list-type").is_some() => listing(content, request),
        "GET" | "HEAD" => read(content, key, request),
        _ => match content.faults.response(request) {
            Some(response) => response,
            None => {
                let response = change(content, key, request);
                content.look_for_torn(request);
                response
            }
        },
    }
}

impl WriteFaults {
    /// The failure of a request, if it is to fail.
    fn response(&mut self, request: &Request) -> Option<Response> {
        let left = self.left;
        self.left = left.and_then(|left| left.checked_sub(1));
        if self.refuses || left == Some(0) {
            return Some(refusal(403, "AccessDenied"));
        }
        let id = request.parameter("uploadId").map(|_| request.parameter("partNumber"));
        let failed = self.failed.entry(format!("{} {} {id:?}", request.method, request.path));
        let failed = failed.or_default();
        if *failed >= self.failures {
            return None;
        }
        *failed += 1;
        Some(refusal(500, "InternalError"))
    }
}

fn read(content: &Content, key: &str, request: &Request) -> Response {
    match content.objects.get(key) {
        Some(bytes) => Response::content(bytes.clone())
            .ranged(request)
            .with("etag", &etag(bytes))
            .with("last-modified", "Wed, 21 Oct 2026 07:28:00 GMT"),
        None => refusal(404, "NoSuchKey"),
    }
}

fn change(content: &mut Content, key: &str, request: &Request) -> Response {
    let upload = request.parameter("uploadId");
    match (request.method.as_str(), upload) {
        ("POST", None) if request.parameter("uploads").is_some() => {
            content.begun += 1;
            let id = format!("upload-{}", content.begun);
            content.uploads.insert(id.clone(), BTreeMap::new());
            let id = format!("<UploadId>{id}</UploadId>");
            Response::new(
                200,
                format!(
                    "<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{key}</Key>{id}\
                     </InitiateMultipartUploadResult>"
                ),
            )
        }
        ("PUT", Some(id)) => {
            let Some(parts) = content.uploads.get_mut(&id) else {
                return refusal(404, "NoSuchUpload");
            };
            let number = request.parameter("partNumber").unwrap().parse().unwrap();
            parts.insert(number, request.body.clone());
            Response::new(200, "").with("etag", &etag(&request.body))
        }
        ("POST", Some(id)) => {
            let Some(parts) = content.uploads.remove(&id) else {
                return refusal(404, "NoSuchUpload");
            };
            assert!(parts.keys().copied().eq(1..=parts.len()), "{:?}", parts.keys());
            let whole = parts.into_values().collect::<Vec<_>>().concat();
            let etag = etag(&whole);
            content.objects.insert(key.to_owned(), whole);
            Response::new(
                200,
                format!(
                    "<CompleteMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{key}</Key>\
                     <ETag>{etag}</ETag></CompleteMultipartUploadResult>"
                ),
            )
        }
        ("DELETE", Some(id)) => {
            content.uploads.remove(&id);
            Response::new(204, "")
        }
        ("PUT", None) => {
            let creates = request.headers.get("if-none-match").is_some_and(|tag| tag == "*");
            if creates && content.objects.contains_key(key) {
                return refusal(412, "PreconditionFailed");
            }
            content.objects.insert(key.to_owned(), request.body.clone());
            Response::new(200, "").with("etag", &etag(&request.body))
        }
        ("DELETE", None) => {
            content.objects.remove(key);
            Response::new(204, "")
        }
        _ => refusal(405, "MethodNotAllowed"),
    }
}

impl Content {
    /// Notes checkpoints with a manifest that are not whole.
    fn look_for_torn(&mut self, request: &Request) {
        let mut torn = BTreeSet::new();
        for (key, manifest) in &self.objects {
            let Some(folder) = key.strip_suffix(MANIFEST) else { continue };
            let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap();
            for file in manifest["files"].as_array().unwrap() {
                let name = format!("{folder}{}", file["name"].as_str().unwrap());
                let bytes = self.objects.get(&name).map(|bytes| bytes.len() as u64);
                if bytes != file["bytes"].as_u64() {
                    torn.insert(format!("{name} after {} {}", request.method, request.path));
                }
            }
        }
        self.torn.extend(torn);
    }
}

fn etag(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

fn refusal(status: u16, code: &str) -> Response {
    Response::new(status, format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"))
}

fn listing(content: &Content, request: &Request) -> Response {
    let prefix = request.parameter("prefix").unwrap_or_default();
    let found = content.objects.iter().filter(|(key, _)| key.starts_with(&prefix));
    let contents = found.map(|(key, bytes)| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-10-21T07:28:00.000Z</LastModified>\
             <ETag>{}</ETag><Size>{}</Size></Contents>",
            etag(bytes).replace('"', "&quot;"),
            bytes.len()
        )
    });
    let contents: String = contents.collect();
    Response::new(
        200,
        format!(
            "<ListBucketResult><Name>{BUCKET}</Name><KeyCount>1</KeyCount>\
             <IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        ),
    )
}
