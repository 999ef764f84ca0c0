//! The log of a run's records: LevelDB's log format after a header of W&B.
//!
//! The file consists of blocks. A record is one fragment, or several where it does not fit in its block.
//! A fragment is its CRC-32 (of the kind and the data), its length (u16), its kind and its data,
//! little-endian. The end of a block that is too short for a fragment is zero.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use prost::Message;

use super::records::{Content, Record};
use crate::error::RunResult;
use crate::output::failed;

const HEADER: [u8; 7] = *b":W&B\xe1\xbe\x00";
const BLOCK_BYTES: u64 = 32 * 1024;
const FRAGMENT_HEADER_BYTES: u64 = 7;

/// Position of a fragment in its record.
const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// Appends records to a log.
#[derive(Debug)]
pub(super) struct RecordLog {
    path: PathBuf,
    file: File,
    /// The length of the file.
    bytes: u64,
    records: i64,
}

impl RecordLog {
    /// Opens the log at `path`, which is created, for records after those that `is_kept`. The first that
    /// is not kept ends the log, as does one that is incomplete.
    pub(super) fn open(
        path: &Path,
        mut is_kept: impl FnMut(&Content) -> bool,
    ) -> RunResult<RecordLog> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(failed("open", path))?;
        let mut reader = Reader { file: BufReader::new(&mut file), bytes: 0 };
        let (mut bytes, mut records) = (0, 0);
        if reader.header().map_err(failed("read", path))? {
            bytes = reader.bytes;
            while let Some(record) = reader.next().map_err(failed("read", path))? {
                if !record.content.as_ref().is_none_or(&mut is_kept) {
                    break;
                }
                (bytes, records) = (reader.bytes, record.num);
            }
        }
        let mut log = RecordLog { path: path.to_owned(), file, bytes, records };
        let cut = log.file.set_len(bytes).and_then(|()| log.file.seek(SeekFrom::Start(bytes)));
        cut.map_err(failed("truncate", path))?;
        if bytes == 0 {
            log.write(&HEADER)?;
        }
        Ok(log)
    }

    /// Whether the log has no record.
    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn append(&mut self, content: Content) -> RunResult<()> {
        self.records += 1;
        let record = Record { num: self.records, content: Some(content) };
        self.write(&fragments(self.bytes, &record.encode_to_vec()))
    }

    /// Makes the log durable.
    pub(super) fn sync(&self) -> RunResult<()> {
        self.file.sync_all().map_err(failed("sync", &self.path))
    }

    fn write(&mut self, bytes: &[u8]) -> RunResult<()> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(failed("append to", &self.path))
    }
}

/// Returns the fragments of a record, from the offset `start` of the file.
fn fragments(start: u64, mut record: &[u8]) -> Vec<u8> {
    let (mut written, mut is_first) = (Vec::new(), true);
    loop {
        let left = BLOCK_BYTES - (start + written.len() as u64) % BLOCK_BYTES;
        if left < FRAGMENT_HEADER_BYTES {
            written.resize(written.len() + left as usize, 0);
            continue;
        }
        let (data, rest) =
            record.split_at(record.len().min((left - FRAGMENT_HEADER_BYTES) as usize));
        let kind = match (is_first, rest.is_empty()) {
            (true, true) => WHOLE,
            (true, false) => FIRST,
            (false, false) => MIDDLE,
            (false, true) => LAST,
        };
        written.extend(checksum(kind, data).to_le_bytes());
        written.extend((data.len() as u16).to_le_bytes());
        written.push(kind);
        written.extend(data);
        if rest.is_empty() {
            return written;
        }
        (record, is_first) = (rest, false);
    }
}

fn checksum(kind: u8, data: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(data);
    hasher.finalize()
}

/// Reads the records of a log.
struct Reader<R> {
    file: R,
    /// The number of bytes read.
    bytes: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header, and returns whether the file begins with one.
    fn header(&mut self) -> io::Result<bool> {
        Ok(self.take(HEADER.len())?.is_some_and(|header| header == HEADER))
    }

    /// Returns the next record, unless the log ends or is corrupt there.
    fn next(&mut self) -> io::Result<Option<Record>> {
        let (mut record, mut is_begun) = (Vec::new(), false);
        loop {
            let Some((kind, data)) = self.fragment()? else { return Ok(None) };
            if is_begun == matches!(kind, WHOLE | FIRST) {
                return Ok(None);
            }
            is_begun = true;
            record.extend(data);
            if matches!(kind, WHOLE | LAST) {
                return Ok(Record::decode(record.as_slice()).ok());
            }
        }
    }

    fn fragment(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let left = BLOCK_BYTES - self.bytes % BLOCK_BYTES;
        if left < FRAGMENT_HEADER_BYTES && self.take(left as usize)?.is_none() {
            return Ok(None);
        }
        let Some(header) = self.take(FRAGMENT_HEADER_BYTES as usize)? else { return Ok(None) };
        let (sum, length, kind) = (&header[..4], &header[4..6], header[6]);
        let length = u16::from_le_bytes([length[0], length[1]]);
        let Some(data) = self.take(usize::from(length))? else { return Ok(None) };
        let is_intact =
            sum == checksum(kind, &data).to_le_bytes() && (WHOLE..=LAST).contains(&kind);
        Ok(is_intact.then_some((kind, data)))
    }

    /// Returns the next bytes, if there are as many.
    fn take(&mut self, count: usize) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; count];
        match self.file.read_exact(&mut bytes) {
            Ok(()) => {
                self.bytes += count as u64;
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{Item, Updates};
    use super::*;

    fn record(characters: usize) -> Content {
        let item = Item::new("text", &"x".repeat(characters).into());
        Content::Summary(Updates { updates: vec![item] })
    }

    /// The sizes of the texts of all records.
    fn sizes(path: &Path) -> Vec<usize> {
        let mut found = Vec::new();
        let note = |content: &Content| {
            let Content::Summary(summary) = content else { panic!("{content:?}") };
            found.push(summary.updates[0].value_json.len() - 2);
            true
        };
        RecordLog::open(path, note).unwrap();
        found
    }

    #[test]
    fn records_of_any_size_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.wandb");
        // Among them are records that leave any number of bytes at the end of a block.
        let written: Vec<usize> = (32_690..32_740).chain([0, 1, 70_000, 200_000, 3]).collect();
        for part in written.chunks(7) {
            let mut log = RecordLog::open(&path, |_| true).unwrap();
            part.iter().for_each(|size| log.append(record(*size)).unwrap());
        }
        assert_eq!(sizes(&path), written);
    }

    #[test]
    fn an_incomplete_record_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.wandb");
        let mut log = RecordLog::open(&path, |_| true).unwrap();
        assert!(log.is_empty());
        log.append(record(10)).unwrap();
        log.append(record(50_000)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in [1, 20_000, 49_000] {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut log = RecordLog::open(&path, |_| true).unwrap();
            log.append(record(20)).unwrap();
            assert_eq!((sizes(&path), log.records), (vec![10, 20], 2));
        }
        // The end of the log may be wrong too.
        let mut bytes = whole.clone();
        bytes[40_000] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(sizes(&path), [10]);
        std::fs::write(&path, b"no log").unwrap();
        assert!(sizes(&path).is_empty());
    }

    #[test]
    fn records_from_the_first_that_is_not_kept_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.wandb");
        let mut log = RecordLog::open(&path, |_| true).unwrap();
        [1, 2, 3, 1].iter().for_each(|size| log.append(record(*size)).unwrap());
        let mut log = RecordLog::open(&path, |content| *content != record(3)).unwrap();
        log.append(record(4)).unwrap();
        assert_eq!(sizes(&path), [1, 2, 4]);
    }
}
