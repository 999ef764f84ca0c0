//! Core time of users for fair shares, stored when a run ends.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::{Store, StoreError};
use crate::access::sharing::FairShares;
use crate::clock;
use crate::jobs::scheduler::Usage;

impl Store {
    /// Sets the time after which the core time of later runs counts half; without fair shares it stays. What is
    /// stored keeps its weight until then.
    pub(crate) fn set_half_life(&self, fair_shares: Option<FairShares>) {
        if let Some(half_life) = fair_shares.map(FairShares::half_life) {
            self.inner.half_life_seconds.store(half_life.as_secs().max(1), Ordering::Relaxed);
        }
    }

    pub(super) fn half_life(&self) -> Duration {
        Duration::from_secs(self.inner.half_life_seconds.load(Ordering::Relaxed))
    }

    /// The core time of all users who have had a run. Without the runs that have not ended.
    pub(crate) fn usage(&self) -> Result<HashMap<String, Usage>, StoreError> {
        let now = clock::now();
        let read = |row: &rusqlite::Row<'_>| {
            let stored = Usage { core_seconds: row.get(1)?, as_of: row.get(2)? };
            Ok((row.get(0)?, stored.not_after(now)))
        };
        let sql = "SELECT user, core_seconds, as_of FROM usage";
        Ok(self.many(sql, [], read, "read the usage")?.into_iter().collect())
    }

    /// Adds core time that processes used for a user without holding cores, as of now.
    pub(crate) fn charge(&self, user: &str, core_seconds: f64) -> Result<(), StoreError> {
        let half_life = self.half_life();
        change(&self.writer(), user, |before| before.with(core_seconds, clock::now(), half_life))
    }
}

/// Adds a run that has ended.
pub(super) fn add_run(
    connection: &Connection,
    user: &str,
    cores: usize,
    since: i64,
    until: i64,
    half_life: Duration,
) -> Result<(), StoreError> {
    change(connection, user, |before| before.with_ended_run(cores, since, until, half_life))
}

/// Changes the core time of a user.
fn change(
    connection: &Connection,
    user: &str,
    add: impl FnOnce(Usage) -> Usage,
) -> Result<(), StoreError> {
    let change = || {
        let mut known =
            connection.prepare_cached("SELECT core_seconds, as_of FROM usage WHERE user = ?1")?;
        let read =
            |row: &rusqlite::Row<'_>| Ok(Usage { core_seconds: row.get(0)?, as_of: row.get(1)? });
        let before = known.query_row([user], read).optional()?.unwrap_or_default();
        let Usage { core_seconds, as_of } = add(before.not_after(clock::now()));
        let sql = "INSERT OR REPLACE INTO usage (user, core_seconds, as_of) VALUES (?1, ?2, ?3)";
        connection.prepare_cached(sql)?.execute(params![user, core_seconds, as_of])
    };
    change().map(drop).map_err(StoreError::sqlite("store the usage"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::state::Outcome;
    use crate::jobs::store::NewJob;

    #[test]
    fn core_time_that_is_stored_as_of_the_future_decays_from_now_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let ahead = clock::now() + 365 * 24 * 3600 * 1_000_000;
        let sql = "INSERT INTO usage (user, core_seconds, as_of) VALUES ('ann', 100, ?1)";
        store.writer().execute(sql, [ahead]).unwrap();
        assert!(store.usage().unwrap()["ann"].as_of <= clock::now());
        let job = NewJob { id: "a".into(), owner: "ann".into(), ..NewJob::default() };
        store.create(&job).unwrap();
        store.place("a", &[0]).unwrap();
        store.settle("a", Outcome::Completed, None).unwrap();
        let sql = "SELECT as_of FROM usage WHERE user = 'ann'";
        let as_of = store.writer().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert!(as_of <= clock::now(), "{as_of}");
        assert!(store.usage().unwrap()["ann"].core_seconds >= 99.0);
    }

    #[test]
    fn core_time_without_a_run_is_added_to_that_of_runs() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        store.charge("ann", 2.5).unwrap();
        store.charge("ann", 4.0).unwrap();
        store.charge("bob", 1.0).unwrap();
        let usage = store.usage().unwrap();
        for (user, seconds) in [("ann", 6.5), ("bob", 1.0)] {
            assert!((usage[user].core_seconds - seconds).abs() < 1e-3, "{usage:?}");
        }
    }

    #[test]
    fn the_core_time_of_runs_is_kept_by_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traind.db");
        let store = Store::open(&path).unwrap();
        let start = |id: &str, owner: &str, cores: &[u32]| {
            let (id, owner) = (id.to_owned(), owner.to_owned());
            let output_dir = format!("/out/{id}");
            store
                .create(&NewJob { id: id.clone(), owner, output_dir, ..NewJob::default() })
                .unwrap();
            store.place(&id, cores).unwrap();
        };
        start("a", "ann", &[0, 1]);
        start("b", "bob", &[2]);
        assert!(store.usage().unwrap().is_empty(), "nothing has ended");
        store.requeue("a", "").unwrap();
        store.settle("b", Outcome::Completed, None).unwrap();
        drop(store);
        let usage = Store::open(&path).unwrap().usage().unwrap();
        assert_eq!(usage.len(), 2);
        for (user, cores) in [("ann", 2.0), ("bob", 1.0)] {
            // Each run was shorter than the shortest that counts.
            let difference = usage[user].core_seconds - 5.0 * cores;
            assert!(difference.abs() < 1e-3, "{user}: {usage:?}");
        }
    }
}
