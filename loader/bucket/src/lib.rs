//! Files in buckets, from AWS or a server that speaks its protocol (`AWS_ENDPOINT_URL`). Credentials
//! come from the places of AWS's own tools: the environment, the container, the instance.
//!
//! The calls block. They end early, with [`Problem::Abandoned`], when the caller's [`Keep`] says so.

mod error;
mod lease;
mod location;
#[cfg(feature = "s3")]
mod objects;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod upload;
#[cfg(not(feature = "s3"))]
#[path = "unsupported.rs"]
mod upload;

pub use error::{Error, Problem, Result};
pub use lease::{Lease, Taken, Timing};
pub use location::{Location, SCHEME};
#[cfg(feature = "s3")]
pub use objects::Bucket;
#[cfg(feature = "s3")]
pub use s3::{Connected, connect, error_chain, is_no_bucket};
#[cfg(not(feature = "s3"))]
pub use upload::Bucket;
pub use upload::Upload;

/// Returns false once a call is to end early.
pub type Keep<'a> = &'a (dyn Fn() -> bool + Sync);

/// An object below a bucket's location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The key without the location's prefix: `checkpoint-5/model.safetensors`.
    pub name: String,
    /// Size of its content.
    pub bytes: u64,
}
