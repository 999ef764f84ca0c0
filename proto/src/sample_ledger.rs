//! The sample ledger of a run directory: which rows of which files each step
//! trained on. The runner writes a step's record when it hands the step over,
//! and again when the step is done again; the daemon reads.
//!
//! A head (magic, sizes, files, CRC32C), then a record of one size for each
//! step, in order: the number of rows, then their numbers in all files taken
//! together, u32 little-endian. So a step is found without reading others.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Name of the file in a run directory.
pub const SAMPLE_LEDGER_FILE: &str = "samples.bin";

const MAGIC: &[u8; 8] = b"TRNDSMP1";
/// A head of more bytes was not written by a runner.
const HEAD_BYTES_MAX: u64 = 64 * 1024 * 1024;
const WORD_BYTES: u64 = 4;
/// A step of more rows is not read: its head or its count may be forged.
const STEP_ROWS_MAX: u32 = 1 << 22;

/// The files and sizes that a ledger refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerHead {
    /// The largest number of rows of a step.
    pub rows_per_step: u32,
    /// The files in order, each with the number of its rows.
    pub files: Vec<(String, u64)>,
    /// The number of the set that each file belongs to; empty where there is one set.
    pub sets: Vec<u32>,
}

/// A row of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRow {
    /// Place in [`LedgerHead::files`].
    pub file: usize,
    /// Row of that file, from 0.
    pub row: u64,
}

/// Writes and reads records.
#[derive(Debug)]
pub struct SampleLedger {
    file: File,
    head: LedgerHead,
    records_start: u64,
}

impl SampleLedger {
    /// Opens the ledger of a run directory to append to it. Creates one where there is none, or where
    /// it describes other data.
    pub fn open(run_dir: &Path, head: LedgerHead) -> io::Result<SampleLedger> {
        let path = run_dir.join(SAMPLE_LEDGER_FILE);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let bytes = head.encode();
        let records_start = bytes.len() as u64;
        if read_head(&file).ok().flatten().is_none_or(|(found, _)| found != head) {
            file.set_len(0)?;
            file.write_all_at(&bytes, 0)?;
        }
        Ok(SampleLedger { file, head, records_start })
    }

    /// Opens the ledger of a run directory to read; `None` where there is none yet.
    pub fn read(run_dir: &Path) -> io::Result<Option<SampleLedger>> {
        let file = match File::open(run_dir.join(SAMPLE_LEDGER_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        SampleLedger::of_file(file)
    }

    /// Reads a ledger that was opened before; `None` where it has no head yet.
    pub fn of_file(file: File) -> io::Result<Option<SampleLedger>> {
        let head = read_head(&file)?;
        Ok(head.map(|(head, records_start)| SampleLedger { file, head, records_start }))
    }

    pub fn head(&self) -> &LedgerHead {
        &self.head
    }

    /// Writes the rows of `step`, which counts from 1.
    pub fn write(&self, step: u64, rows: &[u32]) -> io::Result<()> {
        let mut record = Vec::with_capacity(self.record_bytes() as usize);
        record.extend((rows.len() as u32).to_le_bytes());
        record.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
        self.file.write_all_at(&record, self.place(step)?)
    }

    /// The rows of `step` in the order in which it had them; empty for a step
    /// that was not done.
    pub fn step(&self, step: u64) -> io::Result<Vec<LedgerRow>> {
        let place = self.place(step)?;
        let mut word = [0; WORD_BYTES as usize];
        let read = read_up_to(&self.file, &mut word, place)?;
        let count = if read == word.len() { u32::from_le_bytes(word) } else { 0 };
        if count > self.head.rows_per_step.min(STEP_ROWS_MAX) {
            return Err(corrupt());
        }
        let mut record = vec![0; count as usize * word.len()];
        if read_up_to(&self.file, &mut record, place + WORD_BYTES)? < record.len() {
            return Err(corrupt());
        }
        let words = record.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        words.map(|row| self.head.locate(row).ok_or_else(corrupt)).collect()
    }

    fn record_bytes(&self) -> u64 {
        (u64::from(self.head.rows_per_step) + 1) * WORD_BYTES
    }

    fn place(&self, step: u64) -> io::Result<u64> {
        let records =
            step.checked_sub(1).and_then(|before| before.checked_mul(self.record_bytes()));
        let place = records.and_then(|bytes| bytes.checked_add(self.records_start));
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "no such step");
        place.filter(|place| *place <= i64::MAX as u64).ok_or_else(invalid)
    }
}

impl LedgerHead {
    /// The file that holds a row of all files taken together, and its row there.
    fn locate(&self, row: u32) -> Option<LedgerRow> {
        let mut row = u64::from(row);
        for (file, (_, rows)) in self.files.iter().enumerate() {
            if row < *rows {
                return Some(LedgerRow { file, row });
            }
            row -= rows;
        }
        None
    }

    /// Magic, bytes of the whole head, then what it says, then its checksum.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0; 8]);
        bytes.extend(self.rows_per_step.to_le_bytes());
        bytes.extend((self.files.len() as u32).to_le_bytes());
        for (path, rows) in &self.files {
            bytes.extend((path.len() as u32).to_le_bytes());
            bytes.extend(path.as_bytes());
            bytes.extend(rows.to_le_bytes());
        }
        bytes.extend(self.sets.iter().flat_map(|set| set.to_le_bytes()));
        let length = bytes.len() as u64 + WORD_BYTES;
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<LedgerHead> {
        let (content, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let mut rest = content.get(16..)?;
        let mut take = |count: usize| {
            let (taken, left) = rest.split_at_checked(count)?;
            rest = left;
            Some(taken)
        };
        let mut word = || Some(u32::from_le_bytes(take(4)?.try_into().ok()?));
        let (rows_per_step, files) = (word()?, word()?);
        let mut head = LedgerHead { rows_per_step, files: Vec::new(), sets: Vec::new() };
        for _ in 0..files {
            let length = u32::from_le_bytes(take(4)?.try_into().ok()?);
            let path = String::from_utf8(take(length as usize)?.to_vec()).ok()?;
            head.files.push((path, u64::from_le_bytes(take(8)?.try_into().ok()?)));
        }
        // A head ends with its files where there is one set.
        let (words, _) = rest.as_chunks();
        head.sets = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Some(head)
    }
}

/// The head and where the records begin; `None` where it is not all there yet.
fn read_head(file: &File) -> io::Result<Option<(LedgerHead, u64)>> {
    let mut start = [0; 16];
    if read_up_to(file, &mut start, 0)? < start.len() {
        return Ok(None);
    }
    let (magic, length) = start.split_at(8);
    let length = u64::from_le_bytes(length.try_into().map_err(|_| corrupt())?);
    if magic != MAGIC || length > HEAD_BYTES_MAX {
        return Err(corrupt());
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Ok(None);
    }
    LedgerHead::decode(&bytes).map(|head| Some((head, length))).ok_or_else(corrupt)
}

/// Reads as many bytes as there are.
fn read_up_to(file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], place + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

fn corrupt() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{SAMPLE_LEDGER_FILE} is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> LedgerHead {
        let files = vec![("a.csv".into(), 2), ("b.csv".into(), 5)];
        LedgerHead { rows_per_step: 3, files, sets: Vec::new() }
    }

    fn rows(ledger: &SampleLedger, step: u64) -> Vec<(usize, u64)> {
        ledger.step(step).unwrap().into_iter().map(|row| (row.file, row.row)).collect()
    }

    #[test]
    fn steps_are_found_by_number_and_may_be_done_again() {
        let folder = tempfile::tempdir().unwrap();
        assert!(SampleLedger::read(folder.path()).unwrap().is_none());
        let ledger = SampleLedger::open(folder.path(), head()).unwrap();
        ledger.write(1, &[0, 6, 2]).unwrap();
        ledger.write(3, &[1]).unwrap();
        let again = SampleLedger::open(folder.path(), head()).unwrap();
        again.write(2, &[5, 4]).unwrap();
        let read = SampleLedger::read(folder.path()).unwrap().unwrap();
        assert_eq!(*read.head(), head());
        assert_eq!(rows(&read, 1), [(0, 0), (1, 4), (1, 0)]);
        assert_eq!(rows(&read, 2), [(1, 3), (1, 2)]);
        // Its record ends with its last row.
        assert_eq!(rows(&read, 3), [(0, 1)]);
        assert_eq!(rows(&read, 4), []);
        assert!(read.step(0).is_err());
        assert!(read.step(u64::MAX).is_err());
    }

    /// The file is the user's, and the daemon reads it.
    #[test]
    fn a_forged_count_of_rows_allocates_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let forged = LedgerHead { rows_per_step: u32::MAX, ..head() };
        let ledger = SampleLedger::open(folder.path(), forged).unwrap();
        ledger.write(1, &[1, 2]).unwrap();
        let read = || SampleLedger::read(folder.path()).unwrap().unwrap();
        assert_eq!(rows(&read(), 1), [(0, 1), (1, 0)]);
        ledger.file.write_all_at(&u32::MAX.to_le_bytes(), ledger.records_start).unwrap();
        // Sparse: it has all the rows that the count promises.
        ledger.file.set_len(20 << 30).unwrap();
        assert_eq!(read().step(1).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn other_data_begin_another_ledger_and_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        SampleLedger::open(folder.path(), head()).unwrap().write(1, &[0]).unwrap();
        let other = LedgerHead { rows_per_step: 4, sets: vec![0, 1], ..head() };
        let ledger = SampleLedger::open(folder.path(), other).unwrap();
        assert_eq!(rows(&ledger, 1), []);
        let read = SampleLedger::read(folder.path()).unwrap().unwrap();
        assert_eq!(read.head().sets, [0, 1]);
        ledger.write(1, &[7]).unwrap();
        assert!(ledger.step(1).is_err(), "there are 7 rows");
        let path = folder.path().join(SAMPLE_LEDGER_FILE);
        let whole = std::fs::read(&path).unwrap();
        for bit in 0..ledger.records_start as usize * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, flipped).unwrap();
            assert!(!matches!(SampleLedger::read(folder.path()), Ok(Some(_))), "bit {bit}");
        }
    }
}
