//! Texts of compiler and runtime on standard error. No document says that the plugin's errors repeat them: those may
//! say no more than that something failed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{Explanation, explain};

/// Standard error, where that is a file, as it is for the runner of a job.
const STDERR: &str = "/proc/self/fd/2";
/// The end of a log that is searched.
const BYTES: u64 = 64 << 10;

/// A place in a log, behind which lines are searched.
#[derive(Clone, Debug)]
pub struct LogPlace {
    path: PathBuf,
    offset: u64,
}

impl LogPlace {
    /// The end of what this process and its parents have written to standard error. `None` if that is no file.
    pub fn of_stderr() -> Option<LogPlace> {
        LogPlace::end_of(Path::new(STDERR))
    }

    fn end_of(path: &Path) -> Option<LogPlace> {
        let found = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(LogPlace { path: path.to_owned(), offset: found.len() })
    }

    /// The last line behind the place that has a code, else the last one that has a meaning, with what it means.
    pub fn explained(&self) -> Option<(Explanation, String)> {
        explain_last(&self.behind().ok()?)
    }

    fn behind(&self) -> io::Result<String> {
        let mut log = File::open(&self.path)?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(self.offset.max(length.saturating_sub(BYTES))))?;
        let mut bytes = Vec::new();
        log.take(BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The last line of an output that has a code, else the last one that has a meaning, with what it means.
pub fn explain_last(text: &str) -> Option<(Explanation, String)> {
    let lines = text.lines().rev().filter(|line| line.len() < BYTES as usize / 4);
    let mut explained: Vec<(Explanation, String)> =
        lines.filter_map(|line| Some((explain(line)?, line.trim().to_owned()))).collect();
    let coded = explained.iter().position(|(meaning, _)| !meaning.code.is_empty());
    (!explained.is_empty()).then(|| explained.swap_remove(coded.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_line_with_a_code_behind_a_place_is_explained() {
        let path = std::env::temp_dir().join(format!("traind-log-{}", std::process::id()));
        fs::write(&path, "NRT:nrt_init failed: NRT_RESOURCE\n").unwrap();
        let place = LogPlace::end_of(&path).unwrap();
        assert_eq!(place.explained(), None);
        let before = fs::read_to_string(&path).unwrap();
        let lines = "step 1\n[ERROR] [NCC_EUOC002] Operation sort\n7 ERROR  NRT:nrt_execute status=1202\nended\n";
        fs::write(&path, before + lines).unwrap();
        let (meaning, line) = place.explained().unwrap();
        assert_eq!(meaning.code, "NRT 1202 (EXEC_HW_ERR_NC_UE)");
        assert_eq!(line, "7 ERROR  NRT:nrt_execute status=1202");
        let of = |text: &str| {
            fs::write(&path, text).unwrap();
            LogPlace { path: path.clone(), offset: 0 }.explained()
        };
        let (meaning, line) = of("Could not open the nd0\nended\n").unwrap();
        assert!(meaning.code.is_empty() && line == "Could not open the nd0", "{meaning}");
        assert_eq!(of("step 1\n"), None);
        fs::remove_file(&path).unwrap();
        assert!(LogPlace::end_of(Path::new("/dev/null")).is_none());
    }
}
