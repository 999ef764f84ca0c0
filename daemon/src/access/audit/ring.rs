//! The files of a part of the audit log: lines are only ever appended, a full file is followed by a new one, and the
//! oldest are removed.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::entry::{Entry, Event, Noted};

/// The most lines that are read in one go, and the size beyond which no more are.
const LINES_MAX: usize = 1000;
const PAGE_BYTES_MAX: usize = 1 << 20;
/// The most lines that wait in memory for room on the disk. Beyond them, the oldest are lost and counted.
const UNWRITTEN_MAX: usize = 10_000;

/// The names and limits of a part's files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files {
    pub(super) prefix: &'static str,
    /// The size at which a file is followed by a new one.
    pub(super) bytes_max: u64,
    pub(super) count_max: usize,
}

/// A part of the log, with a chain of its own.
#[derive(Debug)]
pub(super) struct Ring {
    folder: PathBuf,
    files: Files,
    end: Mutex<End>,
}

/// The end of a part.
#[derive(Debug)]
struct End {
    file: File,
    bytes: u64,
    last: Last,
    /// Oldest first: lines for which the disk had no room.
    unwritten: VecDeque<Noted>,
    /// Lines that were lost for want of room.
    lost: u64,
}

/// The number and the hash of the last line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Last {
    number: u64,
    hash: String,
}

impl Ring {
    /// Opens or creates a part of the log in a folder that only the daemon can read.
    pub(super) fn open(folder: &Path, files: Files) -> io::Result<Ring> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let listed = files.list(folder)?;
        let newest = listed.last().map(|(_, path)| path.clone());
        let path = newest.unwrap_or_else(|| folder.join(files.name(1)));
        let last = last_of(&listed)?;
        let file = append_to(&path)?;
        let bytes = file.metadata()?.len();
        let end = Mutex::new(End { file, bytes, last, unwritten: VecDeque::new(), lost: 0 });
        Ok(Ring { folder: folder.to_owned(), files, end })
    }

    /// The number of the next line.
    pub(super) fn next_number(&self) -> u64 {
        let end = self.end();
        end.last.number + end.unwritten.len() as u64 + u64::from(end.lost > 0) + 1
    }

    /// Appends a line, which is on disk on return. After an error it waits in memory, and is written with the next one.
    pub(super) fn append(&self, noted: Noted) -> io::Result<()> {
        let mut end = self.end();
        end.unwritten.push_back(noted);
        let written = self.write(&mut end);
        while end.unwritten.len() > UNWRITTEN_MAX {
            end.unwritten.pop_front();
            end.lost += 1;
        }
        written
    }

    /// Returns some lines from the one with the number `from` on, or from the oldest one.
    pub(super) fn lines(&self, from: u64) -> io::Result<Vec<String>> {
        // There may be room by now.
        self.flush();
        let files = self.files.list(&self.folder)?;
        let first = files.iter().rposition(|(number, _)| *number <= from).unwrap_or(0);
        let (mut lines, mut bytes) = (Vec::new(), 0);
        for (number, path) in &files[first..] {
            let skipped = usize::try_from(from.saturating_sub(*number)).unwrap_or(usize::MAX);
            for line in BufReader::new(File::open(path)?).lines().skip(skipped) {
                if lines.len() == LINES_MAX || bytes > PAGE_BYTES_MAX {
                    return Ok(lines);
                }
                let line = line?;
                bytes += line.len();
                lines.push(line);
            }
        }
        Ok(lines)
    }

    /// Writes the lines that wait for room, if there is some.
    fn flush(&self) {
        let mut end = self.end();
        if let Err(error) = self.write(&mut end) {
            tracing::error!(waiting = end.unwritten.len(), %error, "write the audit log");
        }
    }

    fn write(&self, end: &mut End) -> io::Result<()> {
        if end.lost > 0 {
            let outcome = format!("{} lines were lost, since the disk was full", end.lost);
            let event = Event { call: "audit".to_owned(), outcome, ..Event::default() };
            self.write_one(end, &Noted::now(event, None))?;
            end.lost = 0;
        }
        while let Some(noted) = end.unwritten.pop_front() {
            if let Err(error) = self.write_one(end, &noted) {
                end.unwritten.push_front(noted);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_one(&self, end: &mut End, noted: &Noted) -> io::Result<()> {
        let entry = Entry::of(noted, end.last.number + 1, &end.last.hash);
        if end.bytes >= self.files.bytes_max {
            end.file = append_to(&self.folder.join(self.files.name(entry.number)))?;
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
        end.last = Last { number: entry.number, hash: entry.hash };
        Ok(())
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let files = self.files.list(&self.folder)?;
        let oldest = files.len().saturating_sub(self.files.count_max);
        files[..oldest].iter().try_for_each(|(_, path)| fs::remove_file(path))
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Files {
    fn name(&self, first: u64) -> String {
        format!("{}-{first:012}.jsonl", self.prefix)
    }

    /// The files of a part with the numbers of their first lines, oldest first.
    fn list(&self, folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_prefix(self.prefix).and_then(|name| name.strip_prefix('-'));
            let first = number.and_then(|name| name.strip_suffix(".jsonl"));
            if let Some(first) = first.and_then(|first| first.parse().ok()) {
                files.push((first, path));
            }
        }
        files.sort();
        Ok(files)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The last line of a part. A new file may have none yet, if the disk was full or the daemon ended.
fn last_of(files: &[(u64, PathBuf)]) -> io::Result<Last> {
    for (first, path) in files.iter().rev() {
        if let Some(last) = last_line(*first, path)? {
            return Ok(last);
        }
    }
    Ok(Last::default())
}

/// The last whole line of a file. A part of a line after it, which a power failure leaves, is removed.
fn last_line(first: u64, path: &Path) -> io::Result<Option<Last>> {
    let bytes = fs::read(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        append_to(path)?.set_len(whole as u64)?;
    }
    let mut lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let count = lines.clone().count() as u64;
    let Some(last) = lines.next_back() else { return Ok(None) };
    // A line that is no entry keeps its number, and verification finds it.
    let unknown = Last { number: (first + count).saturating_sub(1), hash: String::new() };
    let known = |entry: Entry| Last { number: entry.number, hash: entry.hash };
    Ok(Some(serde_json::from_slice(last).map_or(unknown, known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::audit::Chain;

    const FILES: Files = Files { prefix: "audit", bytes_max: 2000, count_max: 64 };

    fn noted(user: &str) -> Noted {
        Noted::now(Event { user: user.to_owned(), ..Event::default() }, None)
    }

    fn newest(folder: &Path) -> PathBuf {
        FILES.list(folder).unwrap().pop().unwrap().1
    }

    /// The number of lines, whose chain is whole.
    fn verified(ring: &Ring) -> u64 {
        let mut chain = Chain::default();
        let lines = ring.lines(0).unwrap();
        lines.iter().for_each(|line| chain.check(line).unwrap());
        assert_eq!(chain.last().unwrap().0, lines.len() as u64);
        lines.len() as u64
    }

    #[test]
    fn the_chain_continues_over_files_restarts_and_power_failures() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Ring::open(folder.path(), FILES).unwrap();
        for round in 0..3 {
            let ring = open();
            for number in 0..10 {
                ring.append(noted(&format!("user-{round}-{number}"))).unwrap();
            }
            let newest = newest(folder.path());
            append_to(&newest).unwrap().write_all(b"{\"number\":9").unwrap();
        }
        let ring = open();
        assert!(FILES.list(folder.path()).unwrap().len() > 2, "it was rotated");
        let lines = ring.lines(0).unwrap();
        assert_eq!(verified(&ring), 30);
        assert_eq!(ring.lines(29).unwrap(), lines[28..]);
        assert!(ring.lines(31).unwrap().is_empty());
    }

    #[test]
    fn the_chain_continues_after_a_file_that_was_created_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let ring = Ring::open(folder.path(), FILES).unwrap();
        (0..10).for_each(|_| ring.append(noted("ann")).unwrap());
        drop(ring);
        append_to(&folder.path().join(FILES.name(11))).unwrap();
        let ring = Ring::open(folder.path(), FILES).unwrap();
        ring.append(noted("bob")).unwrap();
        assert_eq!(verified(&ring), 11);
        assert_eq!(ring.lines(11).unwrap().len(), 1);
    }

    #[test]
    fn pages_of_long_lines_are_short() {
        let folder = tempfile::tempdir().unwrap();
        let ring = Ring::open(folder.path(), Files { bytes_max: 16 << 20, ..FILES }).unwrap();
        // Each letter takes six bytes.
        let subject = "\u{1}".repeat(1000);
        let event = Event { subject: subject.clone(), request_id: subject, ..Event::default() };
        (0..400).for_each(|_| ring.append(Noted::now(event.clone(), None)).unwrap());
        let lines = ring.lines(0).unwrap();
        assert!((200..400).contains(&lines.len()), "{}", lines.len());
        let bytes: usize = lines.iter().map(String::len).sum();
        assert!(bytes < 2 * PAGE_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn a_last_line_that_is_none_is_found_and_the_numbers_continue() {
        let folder = tempfile::tempdir().unwrap();
        let ring = Ring::open(folder.path(), FILES).unwrap();
        (0..2).for_each(|_| ring.append(noted("ann")).unwrap());
        drop(ring);
        append_to(&newest(folder.path())).unwrap().write_all(b"{}\n").unwrap();
        let ring = Ring::open(folder.path(), FILES).unwrap();
        ring.append(noted("bob")).unwrap();
        let lines = ring.lines(3).unwrap();
        assert!(lines.len() == 2 && lines[1].starts_with(r#"{"number":4,"#), "{lines:?}");
    }

    #[test]
    fn lines_of_a_full_disk_are_written_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let ring = Ring::open(folder.path(), FILES).unwrap();
        ring.append(noted("before")).unwrap();
        let file = std::mem::replace(&mut ring.end().file, File::open("/dev/null").unwrap());
        // Nothing can be written to it.
        for user in ["first", "second"] {
            ring.append(noted(user)).unwrap_err();
        }
        assert_eq!(ring.next_number(), 4);
        for _ in 0..UNWRITTEN_MAX {
            ring.append(noted("third")).unwrap_err();
        }
        let mut end = ring.end();
        assert_eq!((end.unwritten.len(), end.lost), (UNWRITTEN_MAX, 2));
        end.unwritten.truncate(1);
        end.file = file;
        drop(end);
        ring.append(noted("after")).unwrap();
        assert_eq!(verified(&ring), 4);
        let lines = ring.lines(2).unwrap();
        assert!(lines[0].contains("2 lines were lost"), "{lines:?}");
        assert!(lines[1].contains("third") && lines[2].contains("after"), "{lines:?}");
    }
}
