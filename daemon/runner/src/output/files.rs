//! Writing files so that a reader, or a crash, meets all of one or none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes `content` beside `path`, syncs it, renames it into place and syncs
/// the folder.
pub(crate) fn write_atomic(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let mut file = File::create(&aside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Size of all files in a folder and below it, in bytes.
pub(crate) fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
