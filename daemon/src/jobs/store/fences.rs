//! Fences around sick cores, which a restart of the daemon does not remove.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use super::{Store, StoreError};

/// Tables of which no record of a job has the content, each in words.
const KEPT: [(&str, &str); 4] = [
    ("fences", "fences of cores"),
    ("host_fences", "fences of hosts"),
    ("host_suspicions", "suspicions against hosts"),
    ("removed_costs", "the costs of removed jobs"),
];
/// The most rows that are taken from a damaged table.
const ROWS_MAX: usize = 100_000;

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

    /// Copies the tables that no job's records have from a damaged store, as far as it can be read. Returns those that
    /// cannot be, in words.
    pub(crate) fn salvage(&self, damaged: &Path) -> Result<Vec<&'static str>, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let old = Connection::open_with_flags(damaged, flags).ok();
        let old = old.filter(|old| old.pragma_update(None, "trusted_schema", false).is_ok());
        let mut lost = Vec::new();
        for (table, word) in KEPT {
            match old.as_ref().and_then(|old| rows(old, table)) {
                Some(rows) => self.put_back(table, rows)?,
                None => lost.push(word),
            }
        }
        Ok(lost)
    }

    fn put_back(&self, table: &str, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
        self.in_transaction("take rows over", |transaction| {
            if table == "removed_costs" && !rows.is_empty() {
                transaction.execute("DELETE FROM removed_costs", [])?;
            }
            for row in rows {
                let places = vec!["?"; row.len()].join(", ");
                let sql = format!("INSERT OR IGNORE INTO {table} VALUES ({places})");
                // A damaged value may be none of its column's type.
                let _ = transaction.execute(&sql, params_from_iter(row));
            }
            Ok(())
        })
    }
}

/// All rows of a table; `None` where it is damaged or missing.
fn rows(store: &Connection, table: &str) -> Option<Vec<Vec<Value>>> {
    let mut rows = store.prepare(&format!("SELECT * FROM {table} LIMIT {ROWS_MAX}")).ok()?;
    let columns = rows.column_count();
    let read = rows.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    read.ok()?.collect::<rusqlite::Result<_>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_taken_from_a_damaged_store_where_they_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let [damaged, rebuilt] = ["damaged", "rebuilt"].map(|name| folder.path().join(name));
        let store = Store::open(&damaged).unwrap();
        let fence = Fence { core: 3, since: 7, reason: "wrong answer".into() };
        store.fence(&fence).unwrap();
        let host = "INSERT INTO host_fences VALUES ('slurm', 'n1', 9, 'ECC')";
        store.writer().execute(host, []).unwrap();
        store.writer().execute("UPDATE removed_costs SET cost = 4.5", []).unwrap();
        store.writer().execute("DROP TABLE host_suspicions", []).unwrap();
        store.checkpoint().unwrap();
        drop(store);
        let store = Store::open(&rebuilt).unwrap();
        assert_eq!(store.salvage(&damaged).unwrap(), ["suspicions against hosts"]);
        assert_eq!(store.fences().unwrap(), [fence]);
        assert_eq!(store.host_fences().unwrap()[0].host, "n1");
        let cost =
            store.writer().query_row("SELECT sum(cost) FROM removed_costs", [], |row| row.get(0));
        assert_eq!(cost, Ok(4.5));
        std::fs::write(&damaged, [0x5a; 40_000]).unwrap();
        assert_eq!(store.salvage(&damaged).unwrap().len(), KEPT.len());
        assert_eq!(store.fences().unwrap().len(), 1);
    }
}
