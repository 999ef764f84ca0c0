//! The tables, as migrations that are never edited once released: a change is a new entry. It only adds, so that a
//! store can go back (see `downgrade`).

pub(super) mod downgrade;
#[cfg(test)]
mod formats;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;

/// Migration `n` takes a store from `user_version` n to n + 1.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE jobs (
        number         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of submission
        id             TEXT NOT NULL UNIQUE,
        name           TEXT NOT NULL,
        owner          TEXT NOT NULL,
        request_id     TEXT,                              -- NULL where the client gave none
        request_digest BLOB NOT NULL,                     -- of what was submitted
        state          TEXT NOT NULL,
        waiting_reason TEXT NOT NULL DEFAULT '',
        create_time    INTEGER NOT NULL,                  -- microseconds since 1970
        start_time     INTEGER,
        end_time       INTEGER,
        platform       TEXT NOT NULL,
        core_count     INTEGER NOT NULL,
        cores          TEXT NOT NULL DEFAULT '[]',        -- JSON
        output_dir     TEXT NOT NULL,
        job_file       TEXT NOT NULL,                     -- YAML as submitted
        base_dir       TEXT NOT NULL,
        resolved       TEXT NOT NULL,                     -- JSON, what the runner gets
        warnings       TEXT NOT NULL,                     -- JSON
        attempt        INTEGER NOT NULL DEFAULT 0,
        last_sequence  INTEGER NOT NULL DEFAULT 0,
        log_offset     INTEGER NOT NULL DEFAULT 0,        -- bytes of events.log in `events`
        progress       BLOB,                              -- newest traind.v1.Step
        metrics        TEXT NOT NULL DEFAULT '{}',        -- JSON
        finished       BLOB,                              -- traind.v1.Finished of this attempt
        failure        BLOB,                              -- traind.v1.Failure
        UNIQUE (owner, request_id)
    ) STRICT;
    CREATE INDEX jobs_by_state ON jobs (state, number);
    CREATE INDEX jobs_by_name ON jobs (name, number);
    CREATE TABLE events (
        job      INTEGER NOT NULL REFERENCES jobs (number),
        sequence INTEGER NOT NULL,
        event    BLOB NOT NULL,                           -- traind.v1.Event
        PRIMARY KEY (job, sequence)
    ) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE jobs ADD COLUMN max_restarts INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE jobs ADD COLUMN restarts     INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE jobs ADD COLUMN not_before   INTEGER NOT NULL DEFAULT 0; -- of the next attempt
",
    "
    ALTER TABLE jobs ADD COLUMN priority        INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE jobs ADD COLUMN max_run_seconds INTEGER;
    ALTER TABLE jobs ADD COLUMN place_time      INTEGER; -- of the newest attempt
",
    "
    ALTER TABLE jobs ADD COLUMN max_wait_seconds INTEGER;
    ALTER TABLE jobs ADD COLUMN after            TEXT REFERENCES jobs (id);
",
    "
    CREATE TABLE tokens (
        id          TEXT PRIMARY KEY,
        user        TEXT NOT NULL,
        role_max    TEXT,
        digest      BLOB NOT NULL,                        -- SHA-256 of the secret
        create_time INTEGER NOT NULL,                     -- microseconds since 1970
        expire_time INTEGER
    ) STRICT;
",
    "
    CREATE INDEX jobs_by_owner ON jobs (owner, number);
    CREATE INDEX jobs_by_owner_and_state ON jobs (owner, state, number);
",
    "
    ALTER TABLE jobs ADD COLUMN run_as TEXT; -- JSON; NULL for the daemon's own account
",
    "
    CREATE TABLE splits (
        job      INTEGER NOT NULL REFERENCES jobs (number),
        split    TEXT NOT NULL,
        prepared BLOB NOT NULL,                           -- newest traind.v1.DataPrepared
        UNIQUE (job, split)
    ) STRICT;
",
    "
    ALTER TABLE jobs ADD COLUMN postponed INTEGER NOT NULL DEFAULT 0; -- launches without a runner, in a row
",
    "
    ALTER TABLE jobs ADD COLUMN hindered INTEGER NOT NULL DEFAULT 0; -- attempts that the host ended, since it saved
    ALTER TABLE jobs ADD COLUMN cancel_reason TEXT NOT NULL DEFAULT '';
",
    "
    ALTER TABLE jobs ADD COLUMN parent TEXT; -- JSON; NULL for a job that starts with no other's checkpoint
",
    "
    ALTER TABLE jobs ADD COLUMN billed_seconds REAL NOT NULL DEFAULT 0; -- of runs that have ended
    ALTER TABLE jobs ADD COLUMN price_per_hour REAL;
",
    "
    ALTER TABLE jobs ADD COLUMN engine           TEXT NOT NULL DEFAULT 'local';
    ALTER TABLE jobs ADD COLUMN hosts            INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE jobs ADD COLUMN cluster          TEXT; -- JSON; NULL for a job that no cluster has
    ALTER TABLE jobs ADD COLUMN cluster_restarts INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE jobs ADD COLUMN host_names       TEXT NOT NULL DEFAULT '';
    ALTER TABLE jobs ADD COLUMN host_failures    TEXT NOT NULL DEFAULT '{}'; -- JSON
",
    "
    ALTER TABLE jobs ADD COLUMN receivers TEXT; -- JSON; NULL for a job that notifies nobody
    CREATE TABLE notifications (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        job         INTEGER NOT NULL REFERENCES jobs (number),
        receiver    TEXT NOT NULL,                        -- JSON
        notified    TEXT NOT NULL,                        -- state that the job entered
        body        TEXT NOT NULL,                        -- JSON
        attempts    INTEGER NOT NULL DEFAULT 0,
        create_time INTEGER NOT NULL,                     -- microseconds since 1970
        not_before  INTEGER NOT NULL                      -- of the next attempt
    ) STRICT;
    CREATE INDEX notifications_by_time ON notifications (not_before);
",
    "
    ALTER TABLE jobs ADD COLUMN on_demand_price_per_hour REAL;
",
    "
    ALTER TABLE jobs ADD COLUMN energy_joules REAL; -- NULL for a job whose host does not report energy
",
    "
    CREATE INDEX jobs_by_output ON jobs (output_dir, owner, number);
    CREATE INDEX unfinished_by_output ON jobs (output_dir)
        WHERE state IN ('pending', 'starting', 'running', 'cancelling');
    CREATE INDEX unfinished_by_checkpoints
        ON jobs (CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END)
        WHERE state IN ('pending', 'starting', 'running', 'cancelling');
    CREATE INDEX jobs_by_cost
        ON jobs (billed_seconds, price_per_hour, on_demand_price_per_hour, energy_joules);
",
    "
    CREATE INDEX jobs_by_predecessor ON jobs (after);
    CREATE TABLE removals (id TEXT PRIMARY KEY) STRICT; -- removed jobs whose folders may still exist
    CREATE TABLE removed_costs (                        -- sums over removed jobs, in one row
        billed_seconds REAL NOT NULL DEFAULT 0,
        cost           REAL NOT NULL DEFAULT 0,
        saved          REAL NOT NULL DEFAULT 0,
        energy_joules  REAL
    ) STRICT;
    INSERT INTO removed_costs DEFAULT VALUES;
",
    "
    CREATE TABLE usage (
        user         TEXT PRIMARY KEY,
        core_seconds REAL NOT NULL,                       -- of runs that have ended; decays, see scheduler/usage.rs
        as_of        INTEGER NOT NULL                     -- microseconds since 1970
    ) STRICT;
",
    "
    CREATE TABLE fences (
        core   INTEGER PRIMARY KEY,
        since  INTEGER NOT NULL,                          -- microseconds since 1970
        reason TEXT NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE host_suspicions (
        engine  TEXT NOT NULL,                            -- of the cluster
        host    TEXT NOT NULL,
        witness TEXT NOT NULL,                            -- a user, or a job of the daemon's own account
        time    INTEGER NOT NULL,                         -- microseconds since 1970
        reason  TEXT NOT NULL,
        PRIMARY KEY (engine, host, witness)
    ) STRICT;
    CREATE TABLE host_fences (
        engine TEXT NOT NULL,
        host   TEXT NOT NULL,
        since  INTEGER NOT NULL,                          -- microseconds since 1970
        reason TEXT NOT NULL,
        PRIMARY KEY (engine, host)
    ) STRICT;
",
    "
    ALTER TABLE jobs ADD COLUMN wait_since INTEGER; -- microseconds of running time, see running_time.rs
    ALTER TABLE jobs ADD COLUMN hold_since INTEGER; -- likewise, of the newest attempt
    CREATE TABLE running_time (                     -- one row
        only    INTEGER PRIMARY KEY,
        micros  INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        uptime  INTEGER NOT NULL                    -- of that boot at `micros`, in microseconds
    ) STRICT;
",
];

/// Migrates the store to the newest version, each step in its own transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let version = user_version(connection)?;
    if version > MIGRATIONS.len() {
        return Err(StoreError::Newer { found: version, known: MIGRATIONS.len() });
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(version) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(StoreError::sqlite("begin"))?;
        apply(&transaction, migration, index + 1).map_err(StoreError::sqlite("migrate"))?;
        transaction.commit().map_err(StoreError::sqlite("commit a migration"))?;
    }
    Ok(())
}

fn apply(transaction: &Transaction<'_>, sql: &str, version: usize) -> rusqlite::Result<()> {
    transaction.execute_batch(sql)?;
    transaction.pragma_update(None, "user_version", version)
}

pub(super) fn user_version(connection: &Connection) -> Result<usize, StoreError> {
    let version = connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
    let version = version.map_err(StoreError::sqlite("read the version"))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}
