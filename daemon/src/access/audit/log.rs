//! The audit log: the main log, of which each user may fill a part, and the overflow, which has the other lines.

use std::io;
use std::path::Path;
use std::time::Instant;

use super::entry::{Event, Noted};
use super::parts::{BURST, Parts, Place};
use super::ring::{Files, Ring};

const FILE_BYTES_MAX: u64 = 16 << 20;
const MAIN: Files = Files { prefix: "audit", bytes_max: FILE_BYTES_MAX, count_max: 64 };
const OVERFLOW: Files = Files { prefix: "overflow", bytes_max: FILE_BYTES_MAX, count_max: 16 };

/// The log of one daemon.
#[derive(Debug)]
pub(crate) struct AuditLog {
    main: Ring,
    overflow: Ring,
    parts: Parts,
}

impl AuditLog {
    /// Opens or creates the log in a folder that only the daemon can read.
    pub(crate) fn open(folder: &Path) -> io::Result<AuditLog> {
        AuditLog::open_with(folder, MAIN, OVERFLOW, Parts::new(BURST))
    }

    fn open_with(
        folder: &Path,
        main: Files,
        overflow: Files,
        parts: Parts,
    ) -> io::Result<AuditLog> {
        let (main, overflow) = (Ring::open(folder, main)?, Ring::open(folder, overflow)?);
        Ok(AuditLog { main, overflow, parts })
    }

    /// Appends a line, which is on disk on return. After an error it waits in memory, and is written with the next one.
    pub(crate) fn append(&self, event: Event) -> io::Result<()> {
        match self.parts.place(&event.user, Instant::now()) {
            Place::Main => self.main.append(Noted::now(event, None)),
            Place::LastInMain => {
                self.main.append(Noted::now(event, Some(self.overflow.next_number())))
            }
            Place::Overflow => self.overflow.append(Noted::now(event, None)),
        }
    }

    /// Returns some lines of the main log or the overflow, from the one with the number `from` on, or from the
    /// oldest one.
    pub(crate) fn lines(&self, from: u64, of_overflow: bool) -> io::Result<Vec<String>> {
        if of_overflow { self.overflow.lines(from) } else { self.main.lines(from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::audit::Chain;

    /// The lines of a part, whose chain is whole.
    fn verified(log: &AuditLog, of_overflow: bool) -> Vec<String> {
        let (mut chain, mut lines) = (Chain::default(), Vec::new());
        loop {
            let from = chain.last().map_or(0, |(number, _)| number + 1);
            let page = log.lines(from, of_overflow).unwrap();
            if page.is_empty() {
                return lines;
            }
            page.iter().for_each(|line| chain.check(line).unwrap());
            lines.extend(page);
        }
    }

    #[test]
    fn a_user_who_calls_without_end_pushes_out_no_lines_of_others() {
        let folder = tempfile::tempdir().unwrap();
        // Files for far fewer lines than eve writes.
        let main = Files { bytes_max: 4_000, count_max: 4, ..MAIN };
        let overflow = Files { bytes_max: 4_000, count_max: 2, ..OVERFLOW };
        let log = AuditLog::open_with(folder.path(), main, overflow, Parts::new(10)).unwrap();
        let call = |user: &str, outcome: &str| {
            let (user, outcome) = (user.to_owned(), outcome.to_owned());
            log.append(Event { user, outcome, ..Event::default() }).unwrap();
        };
        call("bob", "Ok");
        call("eve", "before");
        (0..200).for_each(|_| call("eve", "NotFound"));
        call("eve", "newest");
        call("ann", "Ok");
        let main = verified(&log, false);
        assert_eq!(main.len(), 12, "{main:?}");
        assert!(main[0].contains("bob") && main[1].contains("before"), "{main:?}");
        let marked = &main[10];
        assert!(marked.contains("eve") && marked.ends_with(r#""overflow":1}"#), "{marked}");
        assert!(main[11].contains("ann"), "{main:?}");
        let overflow = verified(&log, true);
        assert!(overflow.len() < 100, "the oldest were removed: {}", overflow.len());
        assert!(overflow.last().unwrap().contains("newest"), "{overflow:?}");
    }
}
