//! Queries for jobs and events.

use std::collections::HashSet;

use prost::Message;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};
use traind_proto::v1;

use super::job::{FULL, SUMMARY, unreadable};
use super::{Job, Store, StoreError};
use crate::jobs::state::JobState;

/// Bounds what a page of events, and the statistics of all splits, take in memory: a runner's events may be its user's
/// words, of a megabyte each.
const EVENTS_BYTES_MAX: usize = 256 << 10;
const SPLITS_BYTES_MAX: usize = 4 << 20;

/// The result of resolving a reference to a job.
#[derive(Debug)]
pub(crate) enum Resolved {
    Job(Box<Job>),
    Nothing,
    /// The reference is a prefix of several ids, some of which are listed.
    Several(Vec<String>),
}

/// Sums over the ended runs of all jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Billed {
    pub seconds: f64,
    pub cost: f64,
    /// How much more they would have cost on demand.
    pub saved: f64,
    /// The energy of all jobs whose hosts report it.
    pub energy_joules: Option<f64>,
}

impl Billed {
    fn plus(self, other: Billed) -> Billed {
        let energy = [self.energy_joules, other.energy_joules].into_iter().flatten();
        Billed {
            seconds: self.seconds + other.seconds,
            cost: self.cost + other.cost,
            saved: self.saved + other.saved,
            energy_joules: energy.reduce(|one, other| one + other),
        }
    }
}

/// Read from an index alone: rows of jobs are long.
pub(super) const BILLED_SQL: &str = "SELECT total(billed_seconds),
    total(billed_seconds * price_per_hour) / 3600,
    total(billed_seconds * (on_demand_price_per_hour - price_per_hour)) / 3600,
    sum(energy_joules) FROM jobs
    UNION ALL SELECT billed_seconds, cost, saved, energy_joules FROM removed_costs";

impl Store {
    /// Returns the job with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Job, StoreError> {
        let found = self.one("id = ?1", id)?;
        found.ok_or_else(|| StoreError::NoJob { id: id.to_owned() })
    }

    /// Resolves an id, a name (to the newest job of that name) or a prefix of an id, among the jobs
    /// of `owner` or all.
    pub(crate) fn resolve(
        &self,
        reference: &str,
        owner: Option<&str>,
    ) -> Result<Resolved, StoreError> {
        if let Some(job) = self.owned("id = ?1", reference, owner)? {
            return Ok(Resolved::Job(Box::new(job)));
        }
        if let Some(job) = self.owned("name = ?1", reference, owner)? {
            return Ok(Resolved::Job(Box::new(job)));
        }
        if reference.is_empty() {
            return Ok(Resolved::Nothing);
        }
        let mut ids = self.ids_with_prefix(reference, owner)?;
        match ids.len() {
            0 => Ok(Resolved::Nothing),
            1 => Ok(Resolved::Job(Box::new(self.get(&ids.remove(0))?))),
            _ => Ok(Resolved::Several(ids)),
        }
    }

    /// Lists jobs with numbers below `before`, newest first: of `owner` or all, in one of `states`
    /// or all if that is empty.
    pub(crate) fn list(
        &self,
        states: &[JobState],
        owner: Option<&str>,
        before: i64,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {SUMMARY} FROM jobs WHERE number IN ({}) ORDER BY number DESC LIMIT ?2",
            newest(states, owner.is_some())
        );
        let action = "list jobs";
        match owner {
            Some(owner) => self.many(&sql, params![before, limit, owner], Job::from_row, action),
            None => self.many(&sql, params![before, limit], Job::from_row, action),
        }
    }

    /// Lists jobs that hold cores, in the order of submission.
    pub(crate) fn active(&self) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {SUMMARY} FROM jobs
             WHERE state IN ('starting', 'running', 'cancelling') ORDER BY number"
        );
        self.many(&sql, [], Job::from_row, "list active jobs")
    }

    /// Counts jobs by state. States without jobs are left out.
    pub(crate) fn count_by_state(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let sql = "SELECT state, count(*) FROM jobs GROUP BY state";
        self.many(sql, [], |row| Ok((row.get(0)?, row.get(1)?)), "count jobs")
    }

    /// Returns at most `limit` events of a job, from sequence `from` on, and fewer where they are large.
    pub(crate) fn events(
        &self,
        job: i64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<v1::Event>, StoreError> {
        let sql = "SELECT event FROM events WHERE job = ?1 AND sequence >= ?2
                   ORDER BY sequence LIMIT ?3";
        self.up_to(EVENTS_BYTES_MAX, sql, params![job, from, limit], "read events")
    }

    /// Returns sums over the ended runs of all jobs, removed ones included, and their energy.
    pub(crate) fn billed(&self) -> Result<Billed, StoreError> {
        let read = |row: &Row<'_>| {
            Ok(Billed {
                seconds: row.get(0)?,
                cost: row.get(1)?,
                saved: row.get(2)?,
                energy_joules: row.get(3)?,
            })
        };
        let sums = self.many(BILLED_SQL, [], read, "sum up costs")?;
        Ok(sums.into_iter().fold(Billed::default(), Billed::plus))
    }

    /// Returns statistics of a job's splits, in the order in which they were prepared; the first ones where they are
    /// large.
    pub(crate) fn splits(&self, job: i64) -> Result<Vec<v1::DataPrepared>, StoreError> {
        let sql = "SELECT prepared FROM splits WHERE job = ?1 ORDER BY rowid";
        self.up_to(SPLITS_BYTES_MAX, sql, [job], "read statistics of splits")
    }

    /// Returns the job created by an earlier request, and that request's digest.
    pub(crate) fn by_request(
        &self,
        owner: &str,
        request_id: &str,
    ) -> Result<Option<(Job, Vec<u8>)>, StoreError> {
        let sql = format!("SELECT {FULL} FROM jobs WHERE owner = ?1 AND request_id = ?2");
        let read = |row: &Row<'_>| Ok((Job::from_row(row)?, row.get("request_digest")?));
        let found = self.reader().query_row(&sql, [owner, request_id], read).optional();
        found.map_err(StoreError::sqlite("look up a request"))
    }

    /// Returns the id of the newest job of `owner` with this output folder.
    pub(crate) fn newest_with_output(
        &self,
        owner: &str,
        output_dir: &str,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id FROM jobs WHERE owner = ?1 AND output_dir = ?2
                   ORDER BY number DESC LIMIT 1";
        let found = self.reader().query_row(sql, [owner, output_dir], |row| row.get(0)).optional();
        found.map_err(StoreError::sqlite("look up an output folder"))
    }

    /// Returns whether any job has this output folder.
    pub(crate) fn has_output(&self, output_dir: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM jobs WHERE output_dir = ?1)";
        let found = self.reader().query_row(sql, [output_dir], |row| row.get(0));
        found.map_err(StoreError::sqlite("look up an output folder"))
    }

    /// Returns the ids of all jobs, and of removed ones whose folders may still exist.
    pub(crate) fn ids(&self) -> Result<HashSet<String>, StoreError> {
        let ids = self.many(
            "SELECT id FROM jobs UNION ALL SELECT id FROM removals",
            [],
            |row| row.get(0),
            "list all ids",
        )?;
        Ok(ids.into_iter().collect())
    }

    /// Runs SQLite's integrity check. Returns at most a hundred problems.
    pub(crate) fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let sql = "PRAGMA integrity_check(100)";
        let mut found = self.many(sql, [], |row| row.get(0), "check the integrity")?;
        found.retain(|line: &String| line != "ok");
        Ok(found)
    }

    /// Lists triggers and views, which no store of traind has.
    pub(crate) fn code(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT type || ' ' || name FROM sqlite_schema WHERE type IN ('trigger', 'view')";
        self.many(sql, [], |row| row.get(0), "list triggers and views")
    }

    /// Checks that the store answers.
    pub(crate) fn ping(&self) -> Result<(), StoreError> {
        let answer = self.reader().query_row("SELECT 1", [], |_| Ok(()));
        answer.map_err(StoreError::sqlite("ping"))
    }

    fn one(&self, condition: &str, value: &str) -> Result<Option<Job>, StoreError> {
        let sql = format!("SELECT {FULL} FROM jobs WHERE {condition}");
        let found = self.reader().query_row(&sql, [value], Job::from_row).optional();
        found.map_err(StoreError::sqlite("look up a job"))
    }

    /// Returns the newest job that meets a condition.
    fn owned(
        &self,
        condition: &str,
        value: &str,
        owner: Option<&str>,
    ) -> Result<Option<Job>, StoreError> {
        let sql = format!(
            "SELECT {FULL} FROM jobs WHERE {condition} AND (?2 IS NULL OR owner = ?2)
             ORDER BY number DESC LIMIT 1"
        );
        let read = self.reader().query_row(&sql, params![value, owner], Job::from_row).optional();
        read.map_err(StoreError::sqlite("look up a job"))
    }

    fn ids_with_prefix(
        &self,
        prefix: &str,
        owner: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        // Ids are lower-case ASCII, so those with a prefix lie between it and prefix + DEL.
        let sql = "SELECT id FROM jobs WHERE id >= ?1 AND id < ?1 || char(127)
                   AND (?2 IS NULL OR owner = ?2) ORDER BY id LIMIT 4";
        self.many(sql, params![prefix, owner], |row| row.get(0), "look up a job")
    }

    /// Decodes the messages in the first column, up to the one with which they have `bytes_max`.
    fn up_to<M: Message + Default>(
        &self,
        bytes_max: usize,
        sql: &str,
        params: impl rusqlite::Params,
        action: &'static str,
    ) -> Result<Vec<M>, StoreError> {
        let reader = self.reader();
        let read = || {
            let mut statement = reader.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            let (mut messages, mut bytes) = (Vec::new(), 0);
            while bytes < bytes_max
                && let Some(row) = rows.next()?
            {
                bytes += row.get_ref(0)?.as_blob()?.len();
                messages.push(decoded(row)?);
            }
            Ok(messages)
        };
        read().map_err(StoreError::sqlite(action))
    }

    pub(super) fn many<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        action: &'static str,
    ) -> Result<Vec<T>, StoreError> {
        let reader = self.reader();
        let query = || {
            let mut statement = reader.prepare_cached(sql)?;
            statement.query_map(params, read)?.collect::<rusqlite::Result<Vec<T>>>()
        };
        query().map_err(StoreError::sqlite(action))
    }
}

/// SQL for the numbers of candidates for a page: the newest ones of each state, so that each
/// subquery scans an index and the cost does not depend on the number of jobs.
fn newest(states: &[JobState], owned: bool) -> String {
    let owner = if owned { "AND owner = ?3" } else { "" };
    let page = |condition: &str| {
        format!(
            "SELECT * FROM (SELECT number FROM jobs WHERE number < ?1 {owner} {condition}
             ORDER BY number DESC LIMIT ?2)"
        )
    };
    if states.is_empty() {
        return page("");
    }
    let pages = states.iter().map(|state| page(&format!("AND state = '{state}'")));
    pages.collect::<Vec<_>>().join(" UNION ALL ")
}

/// Decodes the message in the first column.
fn decoded<M: Message + Default>(row: &Row<'_>) -> rusqlite::Result<M> {
    let bytes: Vec<u8> = row.get(0)?;
    M::decode(bytes.as_slice()).map_err(|error| unreadable(Type::Blob, error))
}
