//! Stores of all versions, kept as SQL: each is migrated and read. A change of the schema needs a new one,
//! which `TRAIND_WRITE_FIXTURES=1` writes.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{DataPrepared, Event, Step};

use super::{MIGRATIONS, downgrade::downgrade};
use crate::access::tokens::Token;
use crate::jobs::state::{JobState, Outcome};
use crate::jobs::store::{NewJob, Store};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stores")
}

/// Writes a store of this version.
fn write_store(path: &Path) {
    let store = Store::open_draft(path).unwrap();
    for id in ["ended", "waits"] {
        let new = NewJob {
            id: id.into(),
            name: format!("name-{id}"),
            owner: "ann".into(),
            output_dir: format!("/out/{id}"),
            resolved: "{\"checkpoint_dir\": null}".into(),
            create_time: 1_700_000_000_000_000,
            ..NewJob::default()
        };
        store.create(&new).unwrap();
    }
    store.place("ended", &[0, 1]).unwrap();
    let event = |kind| Event { sequence: 0, time: None, kind: Some(kind) };
    let prepared = DataPrepared { split: "train".into(), rows: 7, ..DataPrepared::default() };
    let step = Step { step: 3, loss: 0.5, ..Step::default() };
    let events = vec![event(Kind::DataPrepared(prepared)), event(Kind::Step(step))];
    store.record("ended", events, 9).unwrap();
    store.settle("ended", Outcome::Completed, None).unwrap();
    let token = Token {
        id: "token".into(),
        user: "ann".into(),
        role_max: None,
        digest: vec![1, 2, 3],
        create_time: 1,
        expire_time: None,
    };
    store.create_token(&token).unwrap();
    store.checkpoint().unwrap();
}

/// The tables, indexes and rows of a store as SQL.
fn dump(path: &Path) -> (String, String) {
    let connection = Connection::open(path).unwrap();
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let schema = texts(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
         ORDER BY rowid",
    );
    let schema: String = schema.into_iter().map(|sql| sql + ";\n").collect();
    let mut rows = String::new();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
                  ORDER BY rowid";
    for table in texts(tables) {
        let columns = texts(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let values: Vec<String> = columns.iter().map(|name| format!("quote({name})")).collect();
        for row in texts(&format!("SELECT {} FROM {table}", values.join(" || ', ' || "))) {
            rows += &format!("INSERT INTO {table} VALUES ({row});\n");
        }
    }
    (schema, rows)
}

/// Restores a store from SQL, as a daemon of that version left it.
fn restore(sql: &str, version: usize, path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
    connection.pragma_update(None, "user_version", version).unwrap();
}

fn check(path: &Path) {
    let store = Store::open(path).unwrap();
    let ended = store.get("ended").unwrap();
    assert_eq!((ended.state, ended.owner.as_str()), (JobState::Completed, "ann"));
    assert_eq!(ended.progress.unwrap().step, 3);
    assert_eq!(store.events(ended.number, 1, 100).unwrap().len() as u64, ended.last_sequence);
    assert_eq!(store.splits(ended.number).unwrap()[0].rows, 7);
    assert_eq!(store.tokens().unwrap()[0].user, "ann");
    assert_eq!(store.integrity().unwrap(), Vec::<String>::new());
    store.place("waits", &[0]).unwrap();
}

#[test]
fn stores_of_all_kept_versions_are_migrated_and_read() {
    let scratch = tempfile::tempdir().unwrap();
    let (own, version) = (scratch.path().join("own.db"), MIGRATIONS.len());
    write_store(&own);
    let (schema, rows) = dump(&own);
    let current = folder().join(format!("{version}.sql"));
    if std::env::var_os("TRAIND_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(folder()).unwrap();
        fs::write(&current, format!("{schema}{rows}")).unwrap();
    }
    let kept = fs::read_to_string(&current).unwrap_or_default();
    assert!(
        kept.starts_with(&schema),
        "{} is missing or not the schema of this version: set TRAIND_WRITE_FIXTURES=1, and change \
         no migration that was released",
        current.display()
    );
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let version = path.file_stem().unwrap().to_str().unwrap();
        let restored = scratch.path().join(format!("{version}.db"));
        restore(&fs::read_to_string(&path).unwrap(), version.parse().unwrap(), &restored);
        check(&restored);
    }
}

/// The schema that the `traind` of an earlier version makes.
fn schema_of(version: usize, scratch: &Path) -> String {
    let path = scratch.join(format!("schema-{version}.db"));
    let connection = Connection::open(&path).unwrap();
    for migration in &MIGRATIONS[..version] {
        connection.execute_batch(migration).unwrap();
    }
    drop(connection);
    dump(&path).0
}

/// The tables are those that the earlier version itself makes, so that it opens the store.
#[test]
fn a_store_goes_back_to_earlier_versions_and_forth_again() {
    let scratch = tempfile::tempdir().unwrap();
    let newest = MIGRATIONS.len();
    for version in [newest - 1, newest - 2, 8] {
        let (own, older) = (
            scratch.path().join(format!("{version}.db")),
            scratch.path().join(format!("to-{version}.db")),
        );
        write_store(&own);
        let downgraded = downgrade(&own, &older, Some(version)).unwrap();
        assert_eq!(downgraded.version, version);
        assert_eq!(dump(&older).0, schema_of(version, scratch.path()));
        let connection = Connection::open(&older).unwrap();
        let found: usize =
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(found, version);
        let broken = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
        assert!(!broken, "version {version}");
        drop(connection);
        check(&older);
    }
}

/// Names the tables and columns for which an earlier version has no place.
#[test]
fn a_downgrade_names_what_it_leaves_out() {
    let scratch = tempfile::tempdir().unwrap();
    let (own, older) = (scratch.path().join("own.db"), scratch.path().join("older.db"));
    write_store(&own);
    let dropped = downgrade(&own, &older, Some(4)).unwrap().dropped;
    let names: Vec<(&str, u64)> = dropped.iter().map(|it| (it.name.as_str(), it.rows)).collect();
    assert!(names.contains(&("tokens", 1)) && names.contains(&("splits", 1)), "{names:?}");
    assert!(names.iter().all(|(name, _)| *name != "jobs.run_as"), "it has no values: {names:?}");
    for wanted in [0, MIGRATIONS.len(), MIGRATIONS.len() + 3] {
        let again = scratch.path().join(format!("again-{wanted}.db"));
        let error = downgrade(&own, &again, Some(wanted)).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot go back to version {wanted}")), "{error}");
        assert!(!again.exists());
    }
}
