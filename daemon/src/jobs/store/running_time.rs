//! Running time: for how long this host has run since the store was made, without what it was switched off. Waits and
//! runs are measured by it, since the wall clock may be set.
//!
//! The store has it as of some minute and of a boot. On the same boot it continues to the microsecond, whether a daemon
//! ran meanwhile or not; after a reboot, a minute may be missing.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};

use super::{Store, StoreError};
use crate::clock::{self, Moment};
use crate::host::process::{boot_id, uptime};

/// The running time of an open store.
#[derive(Debug)]
pub(super) struct RunningTime {
    at_start: i64,
    start: Instant,
}

/// A running time, in microseconds, and when it was noted.
#[derive(Debug)]
struct Noted {
    micros: i64,
    boot: Boot,
}

/// A moment of a boot of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Boot {
    id: String,
    uptime: Duration,
}

impl Boot {
    /// This moment. Where a host says nothing of its boot, each daemon counts as one.
    fn now() -> Boot {
        Boot { id: boot_id().unwrap_or_default(), uptime: uptime().unwrap_or_default() }
    }
}

/// Continues a running time.
fn continued(noted: Option<&Noted>, now: &Boot) -> i64 {
    let Some(Noted { micros, boot }) = noted else { return 0 };
    let passed = match boot.id == now.id && !now.id.is_empty() {
        true => now.uptime.saturating_sub(boot.uptime),
        false => Duration::ZERO,
    };
    micros.saturating_add(passed.as_micros() as i64)
}

impl RunningTime {
    /// Continues the running time of a store. Jobs of an earlier version, which knew the wall clock only, get times by
    /// it.
    pub(super) fn open(writer: &Connection) -> Result<RunningTime, StoreError> {
        let open = || {
            let sql = "SELECT micros, boot_id, uptime FROM running_time";
            let read = |row: &rusqlite::Row<'_>| {
                let uptime = Duration::from_micros(row.get::<_, i64>(2)?.unsigned_abs());
                Ok(Noted { micros: row.get(0)?, boot: Boot { id: row.get(1)?, uptime } })
            };
            let noted = writer.query_row(sql, [], read).optional()?;
            let at_start = continued(noted.as_ref(), &Boot::now());
            let known = RunningTime { at_start, start: Instant::now() };
            let sql = "UPDATE jobs SET wait_since = ?1 - max(?2 - create_time, 0)
                WHERE wait_since IS NULL AND state IN ('pending', 'starting')";
            writer.execute(sql, params![at_start, clock::now()])?;
            let sql = "UPDATE jobs SET hold_since = ?1 - max(?2 - place_time, 0)
                WHERE hold_since IS NULL AND state IN ('starting', 'running', 'cancelling')";
            writer.execute(sql, params![at_start, clock::now()])?;
            Ok(known)
        };
        let known: RunningTime = open().map_err(StoreError::sqlite("read the running time"))?;
        // A full disk keeps no daemon from starting.
        if let Err(error) = known.note(writer) {
            tracing::warn!(%error, "note for how long the host has run");
        }
        Ok(known)
    }

    /// Microseconds.
    pub(super) fn now(&self) -> i64 {
        self.at_start.saturating_add(self.start.elapsed().as_micros() as i64)
    }

    fn note(&self, writer: &Connection) -> rusqlite::Result<usize> {
        let Boot { id, uptime } = Boot::now();
        let sql = "INSERT OR REPLACE INTO running_time (only, micros, boot_id, uptime)
            VALUES (1, ?1, ?2, ?3)";
        let values = params![self.now(), id, uptime.as_micros() as i64];
        writer.prepare_cached(sql)?.execute(values)
    }
}

impl Store {
    /// This moment by both clocks.
    pub(crate) fn moment(&self) -> Moment {
        Moment { wall: clock::now(), running: self.inner.running_time.now() }
    }

    /// Notes the running time for later daemons.
    pub(crate) fn note_running_time(&self) -> Result<(), StoreError> {
        let noted = self.inner.running_time.note(&self.writer());
        noted.map(drop).map_err(StoreError::sqlite("note the running time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::store::NewJob;

    #[test]
    fn running_time_continues_on_the_same_boot_and_stands_still_while_a_host_is_off() {
        let boot =
            |id: &str, seconds: u64| Boot { id: id.into(), uptime: Duration::from_secs(seconds) };
        let noted = Noted { micros: 5_000_000, boot: boot("a", 100) };
        assert_eq!(continued(None, &boot("a", 100)), 0);
        assert_eq!(continued(Some(&noted), &boot("a", 160)), 65_000_000);
        assert_eq!(continued(Some(&noted), &boot("b", 160)), 5_000_000);
        assert_eq!(continued(Some(&noted), &boot("a", 50)), 5_000_000, "a copy of another host");
        let nameless = Noted { micros: 5_000_000, boot: boot("", 100) };
        assert_eq!(continued(Some(&nameless), &boot("", 160)), 5_000_000);
    }

    #[test]
    fn waits_and_runs_go_on_when_the_store_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traind.db");
        let store = Store::open(&path).unwrap();
        let hour = 3_600_000_000;
        for id in ["waits", "runs"] {
            let (max_wait, max_run) = (Some(7200), Some(7200));
            let new = NewJob {
                id: id.into(),
                output_dir: format!("/out/{id}"),
                // As if it had been submitted an hour ago.
                create_time: clock::now() - hour,
                max_wait_seconds: max_wait,
                max_run_seconds: max_run,
                ..NewJob::default()
            };
            store.create(&new).unwrap();
        }
        store.place("runs", &[0]).unwrap();
        let check = |store: &Store, ahead: i64| {
            let Moment { wall, running } = store.moment();
            // Whatever the wall clock says.
            let moment = Moment { wall: wall + ahead, running };
            let left = store.get("waits").unwrap().wait_left(moment).unwrap();
            assert!((left - hour).abs() < 60_000_000, "{left}");
            let runs = store.get("runs").unwrap();
            assert!((0..60_000_000).contains(&runs.held(moment)), "{runs:?}");
            let end = runs.deadline(moment).unwrap();
            assert!((end - moment.wall - 2 * hour).abs() < 60_000_000, "{end}");
        };
        for ahead in [0, 9_000 * hour, -9_000 * hour] {
            check(&store, ahead);
        }
        store.note_running_time().unwrap();
        drop(store);
        check(&Store::open(&path).unwrap(), 0);
        // As an earlier version leaves it.
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("UPDATE jobs SET wait_since = NULL, hold_since = NULL").unwrap();
        drop(connection);
        check(&Store::open(&path).unwrap(), 0);
    }
}
