//! The connection to a bucket, and what its errors mean.

use std::time::Duration;

use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};

use super::Problem;

/// Retries of a request that the server refuses or does not answer.
const RETRIES: usize = 3;
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// A bucket's client.
#[derive(Debug)]
pub struct Connected {
    pub store: AmazonS3,
    /// Another endpoint may have a bucket of the same name. Empty for AWS.
    pub endpoint: String,
}

/// Makes a client of a bucket. No request is sent.
pub fn connect(bucket: &str) -> Result<Connected, object_store::Error> {
    let retry = RetryConfig {
        max_retries: RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let endpoint = endpoint.iter().find_map(|key| builder.get_config_value(key));
    let endpoint = endpoint.unwrap_or_default();
    // An endpoint without TLS was chosen on purpose.
    let builder = match endpoint.starts_with("http://") {
        true => builder.with_allow_http(true),
        false => builder,
    };
    // Not every server knows the request that removes several objects.
    let store = builder.with_disable_bulk_delete(true).build()?;
    Ok(Connected { store, endpoint })
}

/// The problem behind an error of `action`, such as "write it".
pub(crate) fn problem(action: &'static str, error: object_store::Error) -> Problem {
    use object_store::Error as Store;
    match error {
        error if is_no_bucket(&error) => Problem::NoBucket,
        Store::NotFound { .. } => Problem::NotFound,
        Store::PermissionDenied { .. } => Problem::Denied { action },
        Store::Unauthenticated { .. } => Problem::Unauthenticated,
        other => Problem::Failed { action, message: error_chain(&other) },
    }
}

/// Returns true if the server says that the bucket does not exist.
pub fn is_no_bucket(error: &object_store::Error) -> bool {
    error_chain(error).contains("NoSuchBucket")
}

/// Returns true if the server does not know conditional writes.
pub(crate) fn has_no_conditions(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotImplemented { .. })
        || error_chain(error).contains("<Code>NotImplemented</Code>")
}

/// An error with its sources, each once.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let message = source.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        next = source.source();
    }
    text
}
