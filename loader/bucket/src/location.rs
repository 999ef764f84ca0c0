//! `s3://BUCKET/PREFIX`.

use std::fmt;

use super::{Error, Problem, Result};

/// Precedes the bucket in a URL.
pub const SCHEME: &str = "s3://";

/// A bucket and the prefix of the keys of all its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The bucket's name.
    pub bucket: String,
    /// The prefix without slashes at its ends; may be empty.
    pub prefix: String,
}

impl Location {
    /// Parses a URL. A slash at its end makes no difference.
    pub fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix(SCHEME).unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() || prefix.split('/').any(|part| [".", ".."].contains(&part)) {
            return Err(Error { url: url.to_owned(), problem: Box::new(Problem::NotAUrl) });
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// The key of a file.
    pub fn key(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    /// The URL of a file.
    pub fn url(&self, name: &str) -> String {
        format!("{SCHEME}{}/{}", self.bucket, self.key(name))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix.as_str() {
            "" => write!(formatter, "{SCHEME}{}", self.bucket),
            prefix => write!(formatter, "{SCHEME}{}/{prefix}", self.bucket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_bucket_and_a_prefix() {
        let parse = |url: &str| Location::parse(url).ok().map(|it| (it.to_string(), it.key("f")));
        let parsed = |url: &str, key: &str| Some((url.to_owned(), key.to_owned()));
        assert_eq!(parse("s3://b/runs/one/"), parsed("s3://b/runs/one", "runs/one/f"));
        assert_eq!(parse("s3://b/"), parsed("s3://b", "f"));
        assert_eq!(parse("s3://b"), parsed("s3://b", "f"));
        for refused in ["s3://", "s3:///k", "/b/k", "s3://b/../c"] {
            assert_eq!(parse(refused), None, "{refused}");
        }
    }
}
