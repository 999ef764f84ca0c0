//! The size of a folder.

use std::fs;
use std::io;
use std::path::Path;

/// Returns the bytes of all files in a folder and its subfolders.
pub(crate) fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
