//! EC2's notices that an instance will be reclaimed, from the instance metadata service,
//! version 2.

use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// The service's address on every instance.
pub(crate) const BASE_URL: &str = "http://169.254.169.254";
/// A spot instance is reclaimed two minutes after its notice.
const PERIOD: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(2);
const TOKEN_SECONDS: &str = "300";
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Paths of notices, and their meaning.
const NOTICES: [(&str, &str); 2] = [
    ("/latest/meta-data/spot/instance-action", "EC2 will reclaim this spot instance"),
    ("/latest/meta-data/events/recommendations/rebalance", "EC2 recommends leaving this instance"),
];

#[derive(Debug, thiserror::Error)]
enum SpotError {
    #[error("build the request: {0}")]
    Address(#[from] hyper::http::Error),
    #[error("query the metadata service: {0}")]
    Request(#[from] hyper_util::client::legacy::Error),
    #[error("read the answer: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("the metadata service answered {0}")]
    Status(StatusCode),
    #[error("the metadata service took longer than {} s", TIMEOUT.as_secs())]
    Timeout(#[from] tokio::time::error::Elapsed),
}

/// Polls the service at `base_url` until it has a notice, and returns that.
pub(crate) async fn notice(base_url: String) -> String {
    let metadata = Metadata::new(base_url);
    let mut ticks = tokio::time::interval(PERIOD);
    let mut warned = false;
    loop {
        ticks.tick().await;
        match metadata.notice().await {
            Ok(Some(notice)) => return notice,
            Ok(None) => warned = false,
            // Warns once: outside EC2 nothing answers.
            Err(error) if !warned => {
                tracing::warn!(%error, "poll EC2 for notices");
                warned = true;
            }
            Err(_) => {}
        }
    }
}

struct Metadata {
    client: Client<HttpConnector, Empty<Bytes>>,
    base_url: String,
}

impl Metadata {
    fn new(base_url: String) -> Metadata {
        Metadata { client: Client::builder(TokioExecutor::new()).build_http(), base_url }
    }

    /// Returns the first notice found, as a sentence.
    async fn notice(&self) -> Result<Option<String>, SpotError> {
        let header = ("x-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS);
        let token = self.call(Method::PUT, "/latest/api/token", header).await?;
        let Some(token) = token else { return Err(SpotError::Status(StatusCode::NOT_FOUND)) };
        for (path, meaning) in NOTICES {
            let header = ("x-aws-ec2-metadata-token", token.trim());
            if let Some(body) = self.call(Method::GET, path, header).await? {
                return Ok(Some(format!("{meaning}: {}", body.trim())));
            }
        }
        Ok(None)
    }

    /// Returns the response's body, or `None` if the path does not exist.
    async fn call(
        &self,
        method: Method,
        path: &str,
        (name, value): (&str, &str),
    ) -> Result<Option<String>, SpotError> {
        let uri: Uri =
            format!("{}{path}", self.base_url).parse().map_err(hyper::http::Error::from)?;
        let request = Request::builder().method(method).uri(uri).header(name, value);
        let request = request.body(Empty::new())?;
        tokio::time::timeout(TIMEOUT, async {
            let response = self.client.request(request).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(None),
                status => return Err(SpotError::Status(status)),
            }
            let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
            let bytes = body.map_err(SpotError::Body)?.to_bytes();
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        })
        .await?
    }
}
