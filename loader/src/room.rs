//! Whether a disk has room: what is cached is not to fill it up to the last byte, which
//! checkpoints and other jobs need.

use std::path::Path;

use rustix::fs::statvfs;

use crate::{Error, Result};

/// Bytes that are left to others.
const LEFT_FREE_BYTES: u64 = 256 << 20;

/// Fails where the disk of `path`, which is there, has no room for `bytes` more. `what` they are,
/// for the error.
pub(crate) fn require(path: &Path, bytes: u64, what: &'static str) -> Result<()> {
    let found = statvfs(path).map_err(std::io::Error::from);
    let found = found.map_err(Error::io(path, "look at the disk of"))?;
    let available = found.f_bavail.saturating_mul(found.f_frsize);
    match available < LEFT_FREE_BYTES.saturating_add(bytes) {
        true => Err(Error::DiskFull { path: path.to_path_buf(), what, available }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_named() {
        let folder = tempfile::tempdir().unwrap();
        require(folder.path(), 0, "a test").unwrap();
        let error = require(folder.path(), u64::MAX / 2, "a test").unwrap_err().to_string();
        assert!(
            error.ends_with("too few for a test; make room or move the cache folder"),
            "{error}"
        );
        assert!(error.starts_with(&folder.path().display().to_string()), "{error}");
    }
}
