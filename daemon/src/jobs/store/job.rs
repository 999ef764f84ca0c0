//! A stored job, and its conversion from a row.

use std::collections::BTreeMap;
use std::str::FromStr;

use prost::Message;
use rusqlite::Row;
use rusqlite::types::Type;
use traind_job_file::Engine;
use traind_job_file::commands::PlanWarning;
use traind_proto::v1;

use crate::access::account::Account;
use crate::clock::Moment;
use crate::jobs::cluster::{Cluster, ClusterJob};
use crate::jobs::state::JobState;
use crate::notification::Receiver;

/// How often a host may fail before a job avoids it.
pub(crate) const HOST_FAILURES_MAX: u32 = 3;

/// The engine of runs that were started without the daemon.
pub(crate) const ADOPTED: &str = "adopted";

/// A stored job. Times are microseconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Primary key, in the order of submission.
    pub number: i64,
    pub id: String,
    pub name: String,
    pub owner: String,
    /// The account that its runners run as; `None` for the daemon's own.
    pub run_as: Option<Account>,
    pub request_id: String,
    pub state: JobState,
    pub waiting_reason: String,
    /// Why it was cancelled; empty if it was not.
    pub cancel_reason: String,
    pub create_time: i64,
    pub start_time: Option<i64>,
    pub end_time: Option<i64>,
    pub platform: String,
    pub core_count: u32,
    /// The cores that it holds now.
    pub cores: Vec<u32>,
    /// The checkpoint of another job that it starts with.
    pub parent: Option<Parent>,
    pub output_dir: String,
    /// YAML as submitted; empty in listings.
    pub job_file: String,
    pub base_dir: String,
    /// The resolved job file as JSON; empty in listings.
    pub resolved: String,
    pub warnings: Vec<JobWarning>,
    pub attempt: u32,
    pub priority: i64,
    /// Time limit of one attempt.
    pub max_run_seconds: Option<u64>,
    /// Limit on the wait for the first attempt.
    pub max_wait_seconds: Option<u64>,
    /// Id of the job that must complete first.
    pub after: Option<String>,
    /// When the newest attempt got its cores.
    pub place_time: Option<i64>,
    /// The running time at its submission, and at the placement of its newest attempt, in microseconds.
    pub wait_since: Option<i64>,
    pub hold_since: Option<i64>,
    /// How long earlier runs held the job's cores.
    pub billed_seconds: f64,
    /// The energy of all runs, if the host reports it.
    pub energy_joules: Option<f64>,
    pub price_per_hour: Option<f64>,
    /// The price if the host were no spot instance.
    pub on_demand_price_per_hour: Option<f64>,
    /// The receivers of its notifications.
    pub receivers: Vec<Receiver>,
    pub max_restarts: u32,
    /// Number of restarts after failures.
    pub restarts: u32,
    /// Consecutive launches that started no runner. The column is `postponed`.
    pub launch_retries: u32,
    /// Attempts ended by failures of the host since the last checkpoint. The column is `hindered`.
    pub host_retries: u32,
    /// Earliest time of the next attempt.
    pub not_before: i64,
    pub last_sequence: u64,
    pub log_offset: u64,
    pub progress: Option<v1::Step>,
    pub metrics: BTreeMap<String, f64>,
    /// The engine that starts its runners, as in the job file.
    pub engine: String,
    pub hosts: u32,
    /// The newest job in its cluster.
    pub cluster: Option<ClusterJob>,
    /// How often the cluster itself has requeued that job.
    pub cluster_restarts: u32,
    /// The hosts as the cluster writes them; empty before the job has some.
    pub host_names: String,
    /// How often each host failed.
    pub host_failures: BTreeMap<String, u32>,
    /// The last event of this attempt's runner.
    pub finished: Option<v1::Finished>,
    pub failure: Option<v1::Failure>,
}

/// A job about to be stored.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct NewJob {
    /// When it was accepted, in microseconds since 1970.
    pub create_time: i64,
    pub id: String,
    pub name: String,
    pub owner: String,
    #[serde(default)]
    pub run_as: Option<Account>,
    /// Empty if the client gave none.
    pub request_id: String,
    pub request_digest: Vec<u8>,
    pub platform: String,
    pub core_count: u32,
    pub priority: i64,
    pub max_run_seconds: Option<u64>,
    pub max_wait_seconds: Option<u64>,
    pub after: Option<String>,
    pub max_restarts: u32,
    #[serde(default)]
    pub price_per_hour: Option<f64>,
    /// Empty stands for `local`.
    #[serde(default)]
    pub engine: String,
    /// 0 stands for 1.
    #[serde(default)]
    pub hosts: u32,
    #[serde(default)]
    pub on_demand_price_per_hour: Option<f64>,
    #[serde(default)]
    pub receivers: Vec<Receiver>,
    pub output_dir: String,
    pub job_file: String,
    pub base_dir: String,
    pub resolved: String,
    pub warnings: Vec<JobWarning>,
    /// The checkpoint of another job that it starts with.
    #[serde(default)]
    pub parent: Option<Parent>,
}

/// A checkpoint that another job wrote.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Parent {
    pub job_id: String,
    /// The steps that the job had done.
    pub step: u64,
}

/// A warning about a valid job file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct JobWarning {
    pub code: String,
    pub message: String,
}

impl From<PlanWarning> for JobWarning {
    fn from(PlanWarning { code, message }: PlanWarning) -> JobWarning {
        JobWarning { code, message }
    }
}

/// The columns that [`Job::from_row`] reads, without the two long texts.
pub(super) const SUMMARY: &str = "number, id, name, owner, request_id, state, waiting_reason, cancel_reason, \
     create_time, start_time, end_time, platform, core_count, cores, output_dir, base_dir, \
     warnings, attempt, priority, max_run_seconds, max_wait_seconds, after, place_time, wait_since, hold_since, billed_seconds, energy_joules, price_per_hour, on_demand_price_per_hour, receivers, max_restarts, restarts, postponed, hindered, not_before, run_as, parent, engine, hosts, cluster, cluster_restarts, host_names, host_failures, last_sequence, log_offset, progress, metrics, finished, failure, \
     '' AS job_file, '' AS resolved";

/// The columns that [`Job::from_row`] reads.
pub(super) const FULL: &str = "*";

impl Job {
    /// Microseconds until the job is cancelled if no runner has started.
    pub(crate) fn wait_left(&self, now: Moment) -> Option<i64> {
        let began = self.start_time.is_some();
        let seconds = i64::try_from(self.max_wait_seconds.filter(|_| !began)?).ok()?;
        let waited = now.running.saturating_sub(self.wait_since.unwrap_or(now.running));
        Some(seconds.saturating_mul(1_000_000).saturating_sub(waited))
    }

    /// Microseconds for which the current attempt has held its cores.
    pub(crate) fn held(&self, now: Moment) -> i64 {
        now.running.saturating_sub(self.hold_since.unwrap_or(now.running)).max(0)
    }

    /// The cluster that places it; `None` if this host's daemon does.
    pub(crate) fn cluster_kind(&self) -> Option<Cluster> {
        let engine = Engine::ALL.iter().find(|engine| engine.as_str() == self.engine)?;
        Cluster::of(*engine)
    }

    /// Whether others than this daemon start its runners, most likely on other hosts.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.cluster_kind().is_some() || self.is_adopted()
    }

    /// Whether the daemon follows a run that was started without it.
    pub(crate) fn is_adopted(&self) -> bool {
        self.engine == ADOPTED
    }

    /// Hosts that failed so often that its next run avoids them.
    pub(crate) fn avoided_hosts(&self) -> Vec<String> {
        let failed = self.host_failures.iter().filter(|(_, count)| **count >= HOST_FAILURES_MAX);
        failed.map(|(host, _)| host.clone()).collect()
    }

    /// Counts a failure of `host`. A runner's words name it, so the number of hosts is bounded.
    pub(crate) fn blame_host(&mut self, host: &str) {
        const HOSTS_MAX: usize = 1000;
        const NAME_BYTES_MAX: usize = 256;
        let is_known = self.host_failures.contains_key(host);
        if !is_known && (self.host_failures.len() >= HOSTS_MAX || host.len() > NAME_BYTES_MAX) {
            return;
        }
        *self.host_failures.entry(host.to_owned()).or_default() += 1;
    }

    /// When the current attempt must end, in microseconds since 1970.
    pub(crate) fn deadline(&self, now: Moment) -> Option<i64> {
        let seconds = i64::try_from(self.max_run_seconds?).ok()?;
        self.place_time?;
        let left = seconds.saturating_mul(1_000_000).saturating_sub(self.held(now));
        Some(now.wall.saturating_add(left))
    }

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Job> {
        #[cfg(test)]
        DECODED.set(DECODED.get() + 1);
        let request_id: Option<String> = row.get("request_id")?;
        Ok(Job {
            number: row.get("number")?,
            id: row.get("id")?,
            name: row.get("name")?,
            owner: row.get("owner")?,
            run_as: optional(row, "run_as")?,
            request_id: request_id.unwrap_or_default(),
            state: state(row, "state")?,
            waiting_reason: row.get("waiting_reason")?,
            cancel_reason: row.get("cancel_reason")?,
            create_time: row.get("create_time")?,
            start_time: row.get("start_time")?,
            end_time: row.get("end_time")?,
            platform: row.get("platform")?,
            core_count: row.get("core_count")?,
            cores: parsed(row, "cores", |text| serde_json::from_str(text))?,
            parent: optional(row, "parent")?,
            output_dir: row.get("output_dir")?,
            job_file: row.get("job_file")?,
            base_dir: row.get("base_dir")?,
            resolved: row.get("resolved")?,
            warnings: parsed(row, "warnings", |text| serde_json::from_str(text))?,
            attempt: row.get("attempt")?,
            priority: row.get("priority")?,
            max_run_seconds: row.get("max_run_seconds")?,
            max_wait_seconds: row.get("max_wait_seconds")?,
            after: row.get("after")?,
            place_time: row.get("place_time")?,
            wait_since: row.get("wait_since")?,
            hold_since: row.get("hold_since")?,
            billed_seconds: row.get("billed_seconds")?,
            energy_joules: row.get("energy_joules")?,
            price_per_hour: row.get("price_per_hour")?,
            on_demand_price_per_hour: row.get("on_demand_price_per_hour")?,
            receivers: optional::<Vec<Receiver>>(row, "receivers")?.unwrap_or_default(),
            max_restarts: row.get("max_restarts")?,
            restarts: row.get("restarts")?,
            launch_retries: row.get("postponed")?,
            host_retries: row.get("hindered")?,
            not_before: row.get("not_before")?,
            last_sequence: row.get("last_sequence")?,
            log_offset: row.get("log_offset")?,
            progress: message(row, "progress")?,
            metrics: parsed(row, "metrics", |text| serde_json::from_str(text))?,
            engine: row.get("engine")?,
            hosts: row.get("hosts")?,
            cluster: optional(row, "cluster")?,
            cluster_restarts: row.get("cluster_restarts")?,
            host_names: row.get("host_names")?,
            host_failures: parsed(row, "host_failures", |text| serde_json::from_str(text))?,
            finished: message(row, "finished")?,
            failure: message(row, "failure")?,
        })
    }
}

#[cfg(test)]
thread_local! {
    static DECODED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The number of jobs that this thread has read.
#[cfg(test)]
pub(crate) fn decoded() -> usize {
    DECODED.get()
}

pub(super) fn state(row: &Row<'_>, column: &str) -> rusqlite::Result<JobState> {
    parsed(row, column, JobState::from_str)
}

/// Writes a column of JSON.
pub(super) fn to_json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Reads JSON, or NULL.
pub(super) fn optional<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: &str,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| unreadable(Type::Text, error))
}

pub(super) fn parsed<T, E>(
    row: &Row<'_>,
    column: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> rusqlite::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    parse(&text).map_err(|error| unreadable(Type::Text, error))
}

fn message<M: Message + Default>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<M>> {
    let bytes: Option<Vec<u8>> = row.get(column)?;
    let decode = |bytes: Vec<u8>| M::decode(bytes.as_slice());
    bytes.map(decode).transpose().map_err(|error| unreadable(Type::Blob, error))
}

pub(super) fn unreadable(
    kind: Type,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(error))
}
