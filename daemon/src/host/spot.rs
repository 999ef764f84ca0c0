//! EC2's notices that a machine will be taken away, read from the instance metadata
//! service, version 2. A notice drains the daemon.

use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// The service's address on every instance.
pub(crate) const BASE_URL: &str = "http://169.254.169.254";
/// A spot instance is taken two minutes after its notice.
const PERIOD: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(2);
const TOKEN_SECONDS: &str = "300";
const BODY_BYTES_MAX: usize = 16 * 1024;

/// What is asked for, and what it means if it is there.
const NOTICES: [(&str, &str); 2] = [
    ("/latest/meta-data/spot/instance-action", "EC2 will take this spot instance away"),
    ("/latest/meta-data/events/recommendations/rebalance", "EC2 advises to leave this instance"),
];

#[derive(Debug, thiserror::Error)]
enum SpotError {
    #[error("the address: {0}")]
    Address(#[from] hyper::http::Error),
    #[error("ask the metadata service: {0}")]
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
    let mut silent = false;
    loop {
        ticks.tick().await;
        match metadata.notice().await {
            Ok(Some(notice)) => return notice,
            Ok(None) => silent = false,
            // Said once: off EC2 nobody answers.
            Err(error) if !silent => {
                tracing::warn!(%error, "look for notices of EC2");
                silent = true;
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

    /// The first notice there is, in words.
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

    /// The body; `None` where there is no such thing.
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
