//! The files of the audit log: lines are only ever appended, a full file is followed by a new one, and the
//! oldest are removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::entry::{Entry, Event};

/// The size at which a file is followed by a new one, and the most files.
const FILE_BYTES_MAX: u64 = 16 << 20;
const FILES_MAX: usize = 64;
/// The most lines that are read in one go.
const LINES_MAX: usize = 1000;

/// The log of one daemon.
#[derive(Debug)]
pub(crate) struct AuditLog {
    folder: PathBuf,
    file_bytes_max: u64,
    end: Mutex<End>,
}

/// The end of the log.
#[derive(Debug)]
struct End {
    file: File,
    bytes: u64,
    /// The number and the hash of the last line.
    number: u64,
    hash: String,
}

impl AuditLog {
    /// Opens or creates the log in a folder that only the daemon can read.
    pub(crate) fn open(folder: &Path) -> io::Result<AuditLog> {
        AuditLog::open_with(folder, FILE_BYTES_MAX)
    }

    fn open_with(folder: &Path, file_bytes_max: u64) -> io::Result<AuditLog> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let newest = files(folder)?.pop();
        let path = newest.map_or_else(|| folder.join(file_name(1)), |(_, path)| path);
        let last = last_entry(&path)?.unwrap_or_default();
        let file = append_to(&path)?;
        let bytes = file.metadata()?.len();
        let end = Mutex::new(End { file, bytes, number: last.number, hash: last.hash });
        Ok(AuditLog { folder: folder.to_owned(), file_bytes_max, end })
    }

    /// Appends a line. It is on disk on return.
    pub(crate) fn append(&self, event: Event) -> io::Result<()> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry::of(event, end.number + 1, &end.hash);
        if end.bytes >= self.file_bytes_max {
            end.file = append_to(&self.folder.join(file_name(entry.number)))?;
            end.bytes = 0;
            self.remove_oldest()?;
        }
        let line = entry.line() + "\n";
        let written = end.file.write_all(line.as_bytes()).and_then(|()| end.file.sync_data());
        if let Err(error) = written {
            // A part of a line would end the chain.
            end.file.set_len(end.bytes)?;
            return Err(error);
        }
        end.bytes += line.len() as u64;
        (end.number, end.hash) = (entry.number, entry.hash);
        Ok(())
    }

    /// Returns some lines from the one with the number `from` on, or from the oldest one.
    pub(crate) fn lines(&self, from: u64) -> io::Result<Vec<String>> {
        let files = files(&self.folder)?;
        let first = files.iter().rposition(|(number, _)| *number <= from).unwrap_or(0);
        let mut lines = Vec::new();
        for (number, path) in &files[first..] {
            let skipped = usize::try_from(from.saturating_sub(*number)).unwrap_or(usize::MAX);
            let left = LINES_MAX - lines.len();
            for line in BufReader::new(File::open(path)?).lines().skip(skipped).take(left) {
                lines.push(line?);
            }
        }
        Ok(lines)
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let files = files(&self.folder)?;
        let oldest = files.len().saturating_sub(FILES_MAX);
        files[..oldest].iter().try_for_each(|(_, path)| fs::remove_file(path))
    }
}

fn file_name(first: u64) -> String {
    format!("audit-{first:012}.jsonl")
}

/// The files of the log with the numbers of their first lines, oldest first.
fn files(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let first = name.strip_prefix("audit-").and_then(|name| name.strip_suffix(".jsonl"));
        if let Some(first) = first.and_then(|first| first.parse().ok()) {
            files.push((first, path));
        }
    }
    files.sort();
    Ok(files)
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The last whole entry of a file. A part of a line after it, which a power failure leaves, is removed.
fn last_entry(path: &Path) -> io::Result<Option<Entry>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        append_to(path)?.set_len(whole as u64)?;
    }
    let last = bytes[..whole].split(|byte| *byte == b'\n').rfind(|line| !line.is_empty());
    Ok(last.and_then(|line| serde_json::from_slice(line).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::audit::Chain;

    #[test]
    fn the_chain_continues_over_files_restarts_and_power_failures() {
        let folder = tempfile::tempdir().unwrap();
        let open = || AuditLog::open_with(folder.path(), 2000).unwrap();
        for round in 0..3 {
            let log = open();
            for number in 0..10 {
                let user = format!("user-{round}-{number}");
                log.append(Event { user, ..Event::default() }).unwrap();
            }
            let newest = files(folder.path()).unwrap().pop().unwrap().1;
            append_to(&newest).unwrap().write_all(b"{\"number\":9").unwrap();
        }
        let log = open();
        assert!(files(folder.path()).unwrap().len() > 2, "it was rotated");
        let lines = log.lines(0).unwrap();
        assert_eq!(lines.len(), 30);
        let mut chain = Chain::default();
        lines.iter().for_each(|line| chain.check(line).unwrap());
        assert_eq!(chain.last().unwrap().0, 30);
        assert_eq!(log.lines(29).unwrap(), lines[28..]);
        assert!(log.lines(31).unwrap().is_empty());
    }
}
