//! Suspicions against hosts of clusters, which fence a host once two witnesses agree. A restart of the daemon does not
//! remove them.

use rusqlite::params;

use super::{Job, Store, StoreError};
use crate::jobs::cluster::host_list;

/// How many witnesses fence a host: one may be wrong, or a user who reports what they like.
const WITNESSES: u32 = 2;
/// A suspicion that nobody has confirmed for so long is dropped, in microseconds.
const UNCONFIRMED_MAX: i64 = 30 * 24 * 3600 * 1_000_000;

/// A failure of a device on a host, as a job reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostSuspicion {
    /// The cluster, as the job file names its engine.
    pub engine: String,
    pub host: String,
    /// The origin of the report: reports of one origin count once.
    pub witness: String,
    /// Microseconds since 1970.
    pub time: i64,
    pub reason: String,
}

/// A host of a cluster that gets no jobs until it is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFence {
    pub engine: String,
    pub host: String,
    /// Microseconds since 1970.
    pub since: i64,
    pub reason: String,
}

impl HostFence {
    /// Whether the host is one of those that a job has now.
    pub(crate) fn is_around(&self, job: &Job) -> bool {
        job.engine == self.engine && host_list::contains(&job.host_names, &self.host)
    }
}

impl Store {
    /// Notes a suspicion. Returns the fence of the host if it is the one that completes it.
    pub(crate) fn suspect_host(
        &self,
        suspicion: &HostSuspicion,
    ) -> Result<Option<HostFence>, StoreError> {
        let HostSuspicion { engine, host, witness, time, reason } = suspicion;
        let is_fenced = self.in_transaction("suspect a host", |transaction| {
            let known = "SELECT EXISTS (SELECT 1 FROM host_fences WHERE engine = ?1 AND host = ?2)";
            if transaction.query_row(known, params![engine, host], |row| row.get(0))? {
                return Ok(false);
            }
            transaction.execute(
                "DELETE FROM host_suspicions WHERE time < ?1",
                [time.saturating_sub(UNCONFIRMED_MAX)],
            )?;
            transaction.execute(
                "INSERT OR IGNORE INTO host_suspicions (engine, host, witness, time, reason)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![engine, host, witness, time, reason],
            )?;
            let fenced = transaction.execute(
                "INSERT INTO host_fences (engine, host, since, reason)
                 SELECT ?1, ?2, ?3, ?4 FROM host_suspicions WHERE engine = ?1 AND host = ?2
                 GROUP BY engine HAVING count(*) >= ?5",
                params![engine, host, time, reason, WITNESSES],
            )?;
            Ok(fenced > 0)
        })?;
        Ok(is_fenced.then(|| HostFence {
            engine: engine.clone(),
            host: host.clone(),
            since: *time,
            reason: reason.clone(),
        }))
    }

    /// Lists the fenced hosts of all clusters, by name.
    pub(crate) fn host_fences(&self) -> Result<Vec<HostFence>, StoreError> {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(HostFence {
                engine: row.get(0)?,
                host: row.get(1)?,
                since: row.get(2)?,
                reason: row.get(3)?,
            })
        };
        let sql = "SELECT engine, host, since, reason FROM host_fences ORDER BY host, engine";
        self.many(sql, [], read, "list fenced hosts")
    }

    /// Removes the fences of a host, and all suspicions against it.
    pub(crate) fn return_host(&self, host: &str) -> Result<(), StoreError> {
        self.in_transaction("return a host", |transaction| {
            for table in ["host_fences", "host_suspicions"] {
                transaction.execute(&format!("DELETE FROM {table} WHERE host = ?1"), [host])?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600 * 1_000_000;

    fn suspicion(host: &str, witness: &str, day: i64) -> HostSuspicion {
        HostSuspicion {
            engine: "slurm".into(),
            host: host.into(),
            witness: witness.into(),
            time: day * DAY,
            reason: format!("of {witness}"),
        }
    }

    #[test]
    fn two_witnesses_fence_a_host_and_one_does_not_however_often_it_speaks() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        for day in 0..3 {
            assert_eq!(store.suspect_host(&suspicion("n1", "ann", day)).unwrap(), None);
        }
        assert_eq!(store.suspect_host(&suspicion("n2", "bob", 3)).unwrap(), None);
        let fence = store.suspect_host(&suspicion("n1", "bob", 4)).unwrap().unwrap();
        let expect = ("n1", 4 * DAY, "of bob");
        assert_eq!((fence.host.as_str(), fence.since, fence.reason.as_str()), expect);
        assert_eq!(store.suspect_host(&suspicion("n1", "eve", 5)).unwrap(), None, "it is known");
        assert_eq!(store.host_fences().unwrap(), [fence]);
        store.return_host("n1").unwrap();
        assert_eq!(store.host_fences().unwrap(), []);
        assert_eq!(store.suspect_host(&suspicion("n1", "bob", 6)).unwrap(), None, "from the start");
    }

    #[test]
    fn a_suspicion_and_the_fence_that_it_completes_are_stored_together() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        store.suspect_host(&suspicion("n1", "ann", 0)).unwrap();
        let full = "CREATE TRIGGER full BEFORE INSERT ON host_fences BEGIN SELECT RAISE(ABORT, 'full'); END";
        store.writer().execute_batch(full).unwrap();
        assert!(store.suspect_host(&suspicion("n1", "bob", 1)).is_err());
        let count = "SELECT count(*) FROM host_suspicions";
        let count = store.writer().query_row(count, [], |row| row.get::<_, u32>(0));
        assert_eq!(count.unwrap(), 1, "that of bob is asked for again");
    }

    #[test]
    fn a_suspicion_that_nobody_confirms_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        assert_eq!(store.suspect_host(&suspicion("n1", "ann", 0)).unwrap(), None);
        assert_eq!(store.suspect_host(&suspicion("n1", "bob", 31)).unwrap(), None);
    }
}
