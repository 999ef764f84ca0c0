//! Copies a store into the tables of an earlier version, for the `traind` of that version.
//!
//! Migrations only add tables, columns and indexes, so that the columns that both versions have are all that
//! the earlier one knew.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};

use super::{MIGRATIONS, user_version};
use crate::jobs::store::{StoreError, connect, restrict_to_owner};

/// A store of an earlier version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Downgraded {
    pub version: usize,
    /// The tables and columns with values for which that version has no place.
    pub dropped: Vec<Dropped>,
}

/// A table or a column that an earlier version does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub name: String,
    /// The number of rows with a value.
    pub rows: u64,
}

/// The version of the stores that this program writes.
pub(crate) fn store_version() -> usize {
    MIGRATIONS.len()
}

/// Copies the store at `path`, which is of this version and which nobody uses, to the new file `copy` in the
/// tables of `version`, by default the previous one.
pub(crate) fn downgrade(
    path: &Path,
    copy: &Path,
    version: Option<usize>,
) -> Result<Downgraded, StoreError> {
    let found = user_version(&connect(path, OpenFlags::default())?)?;
    let version = version.unwrap_or(found.saturating_sub(1));
    if version == 0 || version >= found {
        return Err(StoreError::NotEarlier { found, wanted: version });
    }
    // SQLite gives better errors about the file.
    let _ = restrict_to_owner(copy);
    let mut older = Connection::open(copy).map_err(StoreError::sqlite("open"))?;
    let dropped = copy_tables(&mut older, path, version);
    Ok(Downgraded { version, dropped: dropped.map_err(StoreError::sqlite("downgrade"))? })
}

fn copy_tables(
    older: &mut Connection,
    path: &Path,
    version: usize,
) -> rusqlite::Result<Vec<Dropped>> {
    // Rows are copied table by table, and refer to rows of others.
    older.pragma_update(None, "foreign_keys", false)?;
    // As bytes: SQLite would take a path with other characters for that of a new store.
    let path = ToSqlOutput::Borrowed(ValueRef::Text(path.as_os_str().as_bytes()));
    older.execute("ATTACH ?1 AS newer", [path])?;
    let transaction = older.transaction()?;
    for migration in &MIGRATIONS[..version] {
        transaction.execute_batch(migration)?;
    }
    let kept = tables(&transaction, "main")?;
    let mut dropped = Vec::new();
    for table in tables(&transaction, "newer")? {
        match kept.contains(&table) {
            true => dropped.extend(copy_table(&transaction, &table)?),
            false => dropped.push(count(&transaction, &table, &table, "TRUE")?),
        }
    }
    transaction.execute_batch(
        "DELETE FROM main.sqlite_sequence;
         INSERT INTO main.sqlite_sequence SELECT name, seq FROM newer.sqlite_sequence
             WHERE name IN (SELECT name FROM main.sqlite_master)",
    )?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()?;
    dropped.retain(|dropped| dropped.rows > 0);
    Ok(dropped)
}

/// Copies the columns that both versions have. Returns the others.
fn copy_table(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Dropped>> {
    let kept = columns(connection, "main", table)?;
    let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let list = quoted.join(", ");
    // Migrations may have inserted rows.
    connection.execute(&format!("DELETE FROM main.\"{table}\""), [])?;
    let copy =
        format!("INSERT INTO main.\"{table}\" ({list}) SELECT {list} FROM newer.\"{table}\"");
    connection.execute(&copy, [])?;
    let all = columns(connection, "newer", table)?.into_iter();
    let others = all.filter(|(name, _)| !names.contains(&name.as_str()));
    let count_values = |(name, default): (String, Option<String>)| {
        let has_value = format!("\"{name}\" IS NOT ({})", default.as_deref().unwrap_or("NULL"));
        count(connection, &format!("{table}.{name}"), table, &has_value)
    };
    others.map(count_values).collect()
}

fn count(
    connection: &Connection,
    name: &str,
    table: &str,
    condition: &str,
) -> rusqlite::Result<Dropped> {
    let sql = format!("SELECT count(*) FROM newer.\"{table}\" WHERE {condition}");
    let rows: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
    Ok(Dropped { name: name.to_owned(), rows: rows.unsigned_abs() })
}

/// Names of the tables in one of the two attached stores.
fn tables(connection: &Connection, store: &str) -> rusqlite::Result<Vec<String>> {
    let sql = format!(
        "SELECT name FROM {store}.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
         ORDER BY rowid"
    );
    connection.prepare(&sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Names of a table's columns, with the SQL of their defaults.
fn columns(
    connection: &Connection,
    store: &str,
    table: &str,
) -> rusqlite::Result<Vec<(String, Option<String>)>> {
    let mut statement =
        connection.prepare("SELECT name, dflt_value FROM pragma_table_info(?1, ?2)")?;
    statement.query_map([table, store], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}
