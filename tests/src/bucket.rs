//! A server for the part of the S3 protocol that reads objects.

use std::collections::BTreeMap;

use crate::http::{Request, Response, Server};

pub const BUCKET: &str = "data";
pub const ACCESS_KEY: &str = "AKIATESTKEY";
pub const SECRET_KEY: &str = "the-secret-of-the-test";
/// A prefix of objects that may not be read.
pub const DENIED: &str = "private/";

/// A bucket with a few objects.
#[derive(Debug)]
pub struct Bucket {
    server: Server,
}

impl Bucket {
    pub fn start(objects: &[(&str, Vec<u8>)]) -> Bucket {
        let objects: BTreeMap<String, Vec<u8>> =
            objects.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.clone())).collect();
        Bucket { server: Server::start(move |request| respond(&objects, request)) }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The environment of a daemon that may read the bucket.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.server.url()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_REGION", "eu-central-1".to_owned()),
        ]
    }
}

fn is_listing(request: &Request) -> bool {
    request.query.contains("list-type=2")
}

fn respond(objects: &BTreeMap<String, Vec<u8>>, request: &Request) -> Response {
    let signed = request.headers.get("authorization").cloned().unwrap_or_default();
    if !signed.contains(&format!("Credential={ACCESS_KEY}/")) {
        return refusal(403, "InvalidAccessKeyId");
    }
    let (bucket, key) = request.path[1..].split_once('/').unwrap_or((&request.path[1..], ""));
    if bucket != BUCKET {
        return refusal(404, "NoSuchBucket");
    }
    if is_listing(request) {
        return listing(objects, request);
    }
    match objects.get(key) {
        Some(_) if key.starts_with(DENIED) => refusal(403, "AccessDenied"),
        Some(bytes) => Response::content(bytes.clone())
            .ranged(request)
            .with("etag", &format!("\"{:x}\"", bytes.len()))
            .with("last-modified", "Wed, 21 Oct 2026 07:28:00 GMT"),
        None => refusal(404, "NoSuchKey"),
    }
}

fn refusal(status: u16, code: &str) -> Response {
    Response::new(status, format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"))
}

fn listing(objects: &BTreeMap<String, Vec<u8>>, request: &Request) -> Response {
    let prefix = request.query.split('&').find_map(|part| part.strip_prefix("prefix="));
    let prefix = prefix.unwrap_or_default().replace("%2F", "/");
    let contents =
        objects.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(key, bytes)| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-10-21T07:28:00.000Z</LastModified>\
             <ETag>&quot;{:x}&quot;</ETag><Size>{}</Size></Contents>",
                bytes.len(),
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
