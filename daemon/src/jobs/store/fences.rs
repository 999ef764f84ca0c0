//! Fences around sick cores, which a restart of the daemon does not remove.

use rusqlite::params;

use super::{Store, StoreError};

/// A core that gets no jobs until it is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub core: u32,
    /// Microseconds since 1970.
    pub since: i64,
    pub reason: String,
}

impl Store {
    /// Lists all fences, by core.
    pub(crate) fn fences(&self) -> Result<Vec<Fence>, StoreError> {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Fence { core: row.get(0)?, since: row.get(1)?, reason: row.get(2)? })
        };
        self.many("SELECT core, since, reason FROM fences ORDER BY core", [], read, "list fences")
    }

    /// Fences a core. One that is fenced keeps its first reason.
    pub(crate) fn fence(&self, fence: &Fence) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO fences (core, since, reason) VALUES (?1, ?2, ?3)";
        let values = params![fence.core, fence.since, fence.reason];
        let inserted = self.writer().execute(sql, values);
        inserted.map(drop).map_err(StoreError::sqlite("fence a core"))
    }

    /// Removes the fence of a core.
    pub(crate) fn return_core(&self, core: u32) -> Result<(), StoreError> {
        let removed = self.writer().execute("DELETE FROM fences WHERE core = ?1", [core]);
        removed.map(drop).map_err(StoreError::sqlite("return a core"))
    }
}
