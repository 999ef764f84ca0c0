//! Free disk space: what is cached must leave room for checkpoints and other jobs.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;

use crate::error::{Error, Result};

/// Bytes that the cache leaves free for others.
const RESERVED_BYTES: u64 = 256 << 20;

/// Fails if the disk that holds the existing `path` has no space for `bytes` more. `purpose` names
/// the data in the error.
pub fn require_space(path: &Path, bytes: u64, purpose: &'static str) -> Result<()> {
    let disk = statvfs(path)
        .map_err(io::Error::from)
        .map_err(Error::io(path, "query the free disk space of"))?;
    let available = disk.f_bavail.saturating_mul(disk.f_frsize);
    match available < RESERVED_BYTES.saturating_add(bytes) {
        true => Err(Error::DiskFull { path: path.to_path_buf(), purpose, available }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

    use super::*;

    #[test]
    fn a_full_disk_is_named() {
        let folder = tempfile::tempdir().unwrap();
        require_space(folder.path(), 0, "a test").unwrap();
        let error = require_space(folder.path(), u64::MAX / 2, "a test").unwrap_err();
        assert_eq!(error.path(), folder.path());
        let text = error.to_string();
        assert!(text.ends_with("too few for a test; make room or move the cache folder"), "{text}");
    }
}
