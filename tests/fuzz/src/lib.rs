//! Damaged files: a reader of files is given one after the other, and each is read or refused
//! with an error that names it, in bounded memory, and no panic gets out.
//!
//! `TRAIND_FUZZ_CASES` sets how many of each format are tried, `TRAIND_FUZZ_SEED` which; a
//! failure prints the seed and keeps the file. What is tried is the reader, so that the files
//! lie in memory where the system has a file system there: on a disk, a case would wait for it.

// What cannot be set up is a failed test.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod damage;
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use damage::damaged;
pub use random::Random;

/// Bytes more than before that any case may take.
const MEMORY_MAX: u64 = 1 << 30;
/// To ask for the peak takes as long as a case.
const CASES_A_LOOK: usize = 100;
/// A file system in memory, on Linux.
const IN_MEMORY: &str = "/dev/shm";

/// What is damaged, and how.
#[derive(Clone, Debug)]
pub struct Format {
    pub file: &'static str,
    pub good: Vec<u8>,
    /// What a mutation may put anywhere: pieces that mean something to the format.
    pub words: &'static [&'static [u8]],
    pub cases: u64,
}

/// What a reader made of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Read,
    Refused,
    /// What is wrong with how it was refused.
    Fault(String),
}

/// How many cases to try: those of the environment, or `default`.
pub fn cases(default: u64) -> u64 {
    std::env::var("TRAIND_FUZZ_CASES").map_or(default, |cases| cases.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("TRAIND_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// A folder for the files of a test, in memory where that can be. From then on all temporary
/// files of this process are there: what readers keep aside is not on a disk either.
pub fn folder() -> tempfile::TempDir {
    let place = Path::new(IN_MEMORY);
    if place.is_dir() {
        // Whoever was first has said the same.
        let _ = tempfile::env::override_temp_dir(place);
    }
    tempfile::Builder::new().prefix("traind-fuzz-").tempdir().unwrap()
}

/// Tries all cases of a format; fails unless some of them are refused.
pub fn fuzz(format: &Format, read: impl Fn(&Path) -> Outcome) {
    let folder = folder();
    let path = folder.path().join(format.file);
    std::fs::write(&path, &format.good).unwrap();
    assert_eq!(read(&path), Outcome::Read, "the file that is not damaged");
    // A panic inside of a parser is caught; printing thousands of them takes most of the time.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (start, before) = (Instant::now(), peak());
    let tried = try_all(format, &path, before, read);
    let (seconds, grown) = (start.elapsed().as_secs_f64(), (peak() - before) >> 20);
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

/// How many were refused, or the first case that should not have gone as it did.
fn try_all(
    format: &Format,
    path: &Path,
    peak_before: u64,
    read: impl Fn(&Path) -> Outcome,
) -> Result<u64, (u64, String)> {
    let mut random = Random::new(seed());
    let mut refused = 0;
    let mut unseen = Vec::new();
    for case in 0..format.cases {
        let file = damaged(&format.good, format.words, &mut random);
        std::fs::write(path, &file).unwrap();
        match catch_unwind(AssertUnwindSafe(|| read(path))) {
            Ok(Outcome::Read) => {}
            Ok(Outcome::Refused) => refused += 1,
            Ok(Outcome::Fault(fault)) => return Err((case, fault)),
            Err(_) => return Err((case, "a panic got out".to_owned())),
        }
        unseen.push((case, file));
        if unseen.len() == CASES_A_LOOK || case + 1 == format.cases {
            if peak() - peak_before > MEMORY_MAX {
                return Err(hungriest(&unseen, path, read));
            }
            unseen.clear();
        }
    }
    Ok(refused)
}

/// The case that takes most memory, which is left at `path`.
fn hungriest(
    cases: &[(u64, Vec<u8>)],
    path: &Path,
    read: impl Fn(&Path) -> Outcome,
) -> (u64, String) {
    let taken = |(_, file): &&(u64, Vec<u8>)| {
        std::fs::write(path, file).unwrap();
        // Linux forgets the peak.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let _ = catch_unwind(AssertUnwindSafe(|| read(path)));
        peak()
    };
    let worst = cases.iter().max_by_key(taken).unwrap();
    let bytes = taken(&worst);
    (worst.0, format!("it takes {} MB", bytes >> 20))
}

/// Where people can look at it: its folder goes with the test.
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
