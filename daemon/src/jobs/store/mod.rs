//! The durable store of jobs and their events: SQLite in WAL mode with full sync.
//!
//! Changes are on disk when a method returns. Events get their sequence numbers here, and the
//! offset up to which the runner's log was read is stored in the same transaction, so that a
//! crash neither loses nor duplicates an event.

mod billing;
mod bulletin;
mod clusters;
mod error;
mod fences;
mod folders;
mod host_fences;
mod job;
mod outbox;
mod preparation;
mod read;
mod removal;
mod runner_events;
mod running_time;
mod schema;
#[cfg(test)]
mod tests;
mod tokens;
mod unfinished;
mod usage;
mod write;

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub(crate) use bulletin::Subscription;
pub(crate) use error::StoreError;
pub(crate) use fences::Fence;
pub(crate) use folders::JobFolders;
pub(crate) use host_fences::{HostFence, HostSuspicion};
pub(crate) use job::{ADOPTED, HOST_FAILURES_MAX, Job, JobWarning, NewJob, Parent};
pub(crate) use outbox::{Delivery, PAUSE_MAX};
pub(crate) use read::{Billed, Resolved};
pub(crate) use removal::{Beyond, Removable};
pub(crate) use schema::downgrade::{Downgraded, downgrade, store_version};
pub(crate) use write::Restart;

use bulletin::Bulletin;
use running_time::RunningTime;
use tokio::sync::Notify;
use unfinished::Unfinished;

use crate::notification::Receiver;

/// How long to wait for another program's lock on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for it when the daemon starts, as after a backup that another program makes.
const BUSY_TIMEOUT_AT_START: Duration = Duration::from_secs(30);

/// The half-life of core time where no fair shares are set.
const HALF_LIFE_SECONDS_DEFAULT: u64 = 24 * 3600;

/// A handle to the store; clones share it.
#[derive(Clone)]
pub(crate) struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    /// Reads while the writer writes, which WAL permits. Dropped first: the last connection to close
    /// checkpoints the log, and must be able to write.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
    bulletin: Bulletin,
    unfinished: Unfinished,
    /// Whether the past is stored, and not what happens now.
    is_draft: bool,
    /// The receivers of notifications that the operator named.
    receivers: OnceLock<Vec<Receiver>>,
    /// Notified when notifications are stored.
    outbox: Notify,
    /// The half-life of core time in fair shares.
    half_life_seconds: AtomicU64,
    running_time: RunningTime,
}

impl Store {
    /// Opens or creates the store at `path`, checks its integrity and migrates it.
    pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
        Store::open_as(path, false)
    }

    fn open_as(path: &Path, is_draft: bool) -> Result<Store, StoreError> {
        // SQLite gives better errors about the file.
        let _ = restrict_to_owner(path);
        let mut writer = connect(path, OpenFlags::default())?;
        writer.busy_timeout(BUSY_TIMEOUT_AT_START).map_err(StoreError::sqlite("configure"))?;
        check(&writer, path)?;
        schema::migrate(&mut writer)?;
        let running_time = RunningTime::open(&writer)?;
        writer.busy_timeout(BUSY_TIMEOUT).map_err(StoreError::sqlite("configure"))?;
        let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = connect(path, read_only)?;
        let inner = Inner {
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            bulletin: Bulletin::default(),
            unfinished: Unfinished::default(),
            is_draft,
            receivers: OnceLock::new(),
            outbox: Notify::new(),
            half_life_seconds: AtomicU64::new(HALF_LIFE_SECONDS_DEFAULT),
            running_time,
        };
        Ok(Store { inner: Arc::new(inner) })
    }

    /// Opens or creates a store that no daemon uses yet. It writes without syncing; the caller syncs
    /// the file when done.
    pub(crate) fn open_draft(path: &Path) -> Result<Store, StoreError> {
        let store = Store::open_as(path, true)?;
        let configured = store.writer().pragma_update(None, "synchronous", "OFF");
        configured.map_err(StoreError::sqlite("configure"))?;
        Ok(store)
    }

    /// Moves the contents of the write-ahead log into the database file.
    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        let moved = self.writer().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        moved.map_err(StoreError::sqlite("checkpoint"))
    }

    /// Counts an attempt for jobs that wait for their first one, since they may have had one after what the store
    /// knows. Their next attempt then continues from a checkpoint of their own, if there is one.
    pub(crate) fn expect_checkpoints(&self) -> Result<(), StoreError> {
        let sql = "UPDATE jobs SET attempt = 1 WHERE attempt = 0 AND state = 'pending'";
        let counted = self.writer().execute(sql, []);
        counted.map(drop).map_err(StoreError::sqlite("count attempts"))
    }

    /// Runs `work` on a thread that may block: SQLite waits for the disk.
    pub(crate) async fn run<T, W>(&self, work: W) -> T
    where
        T: Send + 'static,
        W: FnOnce(&Store) -> T + Send + 'static,
    {
        let store = self.clone();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// Subscribes to new events of a job.
    pub(crate) fn subscribe(&self, job: &Job) -> Subscription {
        self.inner.bulletin.subscribe(job.number)
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        // A panic cannot leave a transaction behind: dropping it rolls it back.
        self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes several changes of which all or none are stored.
    fn in_transaction<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut writer = self.writer();
        let changed = writer.transaction_with_behavior(TransactionBehavior::Immediate).and_then(
            |transaction| {
                let changed = work(&transaction)?;
                transaction.commit().map(|()| changed)
            },
        );
        changed.map_err(StoreError::sqlite(action))
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.inner.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies the store at `path`, which a daemon may be writing to, as of one moment to the new file
/// `copy`. Returns the ids of its jobs.
pub(crate) fn snapshot(path: &Path, copy: &Path) -> Result<Vec<String>, StoreError> {
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open =
        |path| Connection::open_with_flags(path, read_only).map_err(StoreError::sqlite("open"));
    let store = open(path)?;
    store.busy_timeout(BUSY_TIMEOUT).map_err(StoreError::sqlite("configure"))?;
    let copied = store.execute("VACUUM INTO ?1", [copy.to_string_lossy()]);
    copied.map_err(|source| open_error(path, "copy", source))?;
    let copy = open(copy)?;
    let list = || -> rusqlite::Result<Vec<String>> {
        let mut ids = copy.prepare("SELECT id FROM jobs ORDER BY number")?;
        ids.query_map([], |row| row.get(0))?.collect()
    };
    list().map_err(StoreError::sqlite("list the ids"))
}

/// The version of the store at `path`, whose integrity is checked and which is not changed.
pub(crate) fn version_of(path: &Path) -> Result<usize, StoreError> {
    // The last connection to close removes the log, and must be able to write.
    let existing = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(path, existing).map_err(StoreError::sqlite("open"))?;
    store.busy_timeout(BUSY_TIMEOUT_AT_START).map_err(StoreError::sqlite("configure"))?;
    check(&store, path)?;
    schema::user_version(&store)
}

/// Makes the store at `path` one file, without a write-ahead log, until it is opened again. Fails while another
/// program has it open.
pub(crate) fn end_log(path: &Path) -> Result<(), StoreError> {
    let end = || -> rusqlite::Result<()> {
        let store = Connection::open(path)?;
        store.busy_timeout(BUSY_TIMEOUT)?;
        store.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        let locked = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        match store.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))?.as_str() {
            "delete" => Ok(()),
            _ => Err(rusqlite::Error::SqliteFailure(locked, None)),
        }
    };
    end().map_err(StoreError::sqlite("end the log"))
}

/// Whether there is no store at `path`. An existing store is never empty.
pub(crate) fn is_blank(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Creates the file with mode 0600, which SQLite would not. Its journal files get the same mode.
fn restrict_to_owner(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection =
        Connection::open_with_flags(path, flags).map_err(StoreError::sqlite("open"))?;
    configure(&connection).map_err(|source| open_error(path, "configure", source))?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)
}

fn check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let verdict = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match verdict {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(detail) => Err(StoreError::Corrupt { path: path.to_owned(), detail }),
        Err(source) => Err(open_error(path, "check", source)),
    }
}

/// Distinguishes a corrupt database from one that cannot be accessed now.
fn open_error(path: &Path, action: &'static str, source: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match source.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => {
            StoreError::Corrupt { path: path.to_owned(), detail: source.to_string() }
        }
        _ => StoreError::Sqlite { action, source },
    }
}
