//! Why a file of a bucket cannot be written or read.

use std::io;
#[cfg(feature = "s3")]
use std::path::Path;
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

/// A file of a bucket, or a location, that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {problem}")]
pub struct Error {
    /// The URL of the file or the location.
    pub url: String,
    /// The reason.
    pub problem: Box<Problem>,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("expected s3://BUCKET/PREFIX")]
    NotAUrl,
    #[error("there is no such bucket")]
    NoBucket,
    #[error("the bucket has no such object")]
    NotFound,
    #[error("access denied; the credentials in use may not {action}")]
    Denied { action: &'static str },
    #[error("the server does not accept the credentials")]
    Unauthenticated,
    #[error("it is not as long as it was listed: {found} of {expected} bytes arrived")]
    Short { found: u64, expected: u64 },
    #[error("cannot {action}: {message}")]
    Failed { action: &'static str, message: String },
    #[error("it is damaged, or of a later version of traind: {message}")]
    Damaged { message: String },
    #[error("{action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("abandoned, since the run is to end")]
    Abandoned,
    #[error("this build of traind uses no s3:// URLs")]
    Unsupported,
}

impl Problem {
    /// Whether the same call may succeed later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Short { .. } | Self::NotFound)
    }

    /// Turns an I/O error at `path` into a problem.
    #[cfg(feature = "s3")]
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
