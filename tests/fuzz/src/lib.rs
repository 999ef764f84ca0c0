//! Fuzzing of file readers with corrupted files. A reader must accept each file or reject it with an
//! error that names it, in bounded memory and without a panic.
//!
//! `TRAIND_FUZZ_CASES` sets the number of cases per format and `TRAIND_FUZZ_SEED` the seed. A failure
//! prints the seed and keeps the file. Files are written to a file system in memory if there is one,
//! since a disk would take most of the time.

// A failed set-up fails the test.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod damage;
mod kept;
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use damage::damaged;
pub use kept::contains;
pub use random::Random;

/// Limit on the bytes that a case may allocate.
const MEMORY_MAX: u64 = 1 << 30;
/// Cases between two reads of the peak memory, each of which takes as long as a case.
const CASES_PER_CHECK: usize = 100;
/// A file system in memory, on Linux.
const IN_MEMORY: &str = "/dev/shm";

/// A file format to fuzz.
#[derive(Clone, Debug)]
pub struct Format {
    pub file: &'static str,
    pub good: Vec<u8>,
    /// Byte strings that are meaningful to the format, to insert anywhere.
    pub words: &'static [&'static [u8]],
    pub cases: u64,
}

/// The result of reading a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Read,
    Refused,
    /// The file was rejected in a wrong way, as described.
    Fault(String),
}

/// The number of cases to try: `TRAIND_FUZZ_CASES`, or `default`.
pub fn cases(default: u64) -> u64 {
    std::env::var("TRAIND_FUZZ_CASES").map_or(default, |cases| cases.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("TRAIND_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// Makes a folder for the files of a test, in memory if possible. All temporary files of this process
/// are created there from then on, including those of the readers.
pub fn folder() -> tempfile::TempDir {
    let place = Path::new(IN_MEMORY);
    if place.is_dir() {
        // Fails if it is already set, which is to the same folder.
        let _ = tempfile::env::override_temp_dir(place);
    }
    tempfile::Builder::new().prefix("traind-fuzz-").tempdir().unwrap()
}

/// Tries all cases of a format. Panics unless a share of them is rejected.
pub fn fuzz(format: &Format, read: impl Fn(&Path) -> Outcome) {
    let folder = folder();
    let path = folder.path().join(format.file);
    std::fs::write(&path, &format.good).unwrap();
    assert_eq!(read(&path), Outcome::Read, "the uncorrupted file");
    // Panics in a parser are caught. Printing thousands of them would take most of the time.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (start, before) = (Instant::now(), peak());
    let tried = try_all(format, &path, before, read);
    let (seconds, grown) = (start.elapsed().as_secs_f64(), peak().saturating_sub(before) >> 20);
    std::panic::set_hook(hook);
    let refused = tried.unwrap_or_else(|(case, fault)| {
        let kept = keep(&path);
        panic!("case {case} of seed {}, kept as {}: {fault}", seed(), kept.display())
    });
    let (file, cases) = (format.file, format.cases);
    let speed = cases as f64 / seconds;
    println!("{file}: {cases} cases, {refused} refused, {grown} MB, {speed:.0} a second");
    assert!(refused > cases / 20, "only {refused} were refused");
}

/// Returns the number of rejected cases, or the first case that went wrong.
fn try_all(
    format: &Format,
    path: &Path,
    peak_before: u64,
    read: impl Fn(&Path) -> Outcome,
) -> Result<u64, (u64, String)> {
    let mut random = Random::new(seed());
    let mut refused = 0;
    let mut unchecked = Vec::new();
    for case in 0..format.cases {
        let file = damaged(&format.good, format.words, &mut random);
        std::fs::write(path, &file).unwrap();
        match catch_unwind(AssertUnwindSafe(|| read(path))) {
            Ok(Outcome::Read) => {}
            Ok(Outcome::Refused) => refused += 1,
            Ok(Outcome::Fault(fault)) => return Err((case, fault)),
            Err(_) => return Err((case, "a panic escaped".to_owned())),
        }
        unchecked.push((case, file));
        if unchecked.len() == CASES_PER_CHECK || case + 1 == format.cases {
            if peak().saturating_sub(peak_before) > MEMORY_MAX {
                return Err(hungriest(&unchecked, path, read));
            }
            unchecked.clear();
        }
    }
    Ok(refused)
}

/// Finds the case with the highest peak of memory and leaves its file at `path`.
fn hungriest(
    cases: &[(u64, Vec<u8>)],
    path: &Path,
    read: impl Fn(&Path) -> Outcome,
) -> (u64, String) {
    let taken = |(_, file): &&(u64, Vec<u8>)| {
        std::fs::write(path, file).unwrap();
        // Resets the peak.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let _ = catch_unwind(AssertUnwindSafe(|| read(path)));
        peak()
    };
    let worst = cases.iter().max_by_key(taken).unwrap();
    let bytes = taken(&worst);
    (worst.0, format!("allocates {} MB", bytes >> 20))
}

/// Copies the file to where it survives the test's folder.
fn keep(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap().to_string_lossy();
    let kept = PathBuf::from("/tmp").join(format!("traind-fuzz-{name}"));
    std::fs::copy(path, &kept).unwrap();
    kept
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
