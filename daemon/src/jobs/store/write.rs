//! Changes to jobs. Each method is one transaction, which stores a job's row together with
//! its new events.

use std::time::Duration;

use prost::Message;
use rusqlite::{
    Connection, OptionalExtension, Transaction, TransactionBehavior, named_params, params,
};
use traind_proto::v1::{self, event::Kind};

use super::folders::refuse_shared_output;
use super::job::{Job, NewJob, SUMMARY, to_json};
use super::outbox;
use super::{Store, StoreError};
use crate::clock::{self, Moment};
use crate::jobs::limits::{limit_failure, limited_text};
use crate::jobs::one_line::one_line;
use crate::jobs::scheduler::Waiting;
use crate::jobs::state::{JobState, Outcome, Transition};
use crate::jobs::wire;
use crate::notification::Receiver;

/// The delayed start of another attempt.
#[derive(Clone, Debug)]
pub(crate) struct Restart {
    /// How the previous attempt ended.
    pub reason: String,
    /// Why the next one is delayed.
    pub wait: String,
    /// Earliest start, in microseconds since 1970.
    pub not_before: i64,
    /// The host that the previous attempt failed on, if no event of a runner names it.
    pub blamed: Option<String>,
}

impl Store {
    /// Stores a new job. A repeated request returns the job of the first one.
    pub(crate) fn create(&self, new: &NewJob) -> Result<Job, StoreError> {
        self.change(|transaction| {
            if let Some(job) = repeated(transaction, new)? {
                return Ok(job);
            }
            self.begin(transaction, new)?.save()
        })
    }

    /// Stores a job for a run that others started: its `attempt`, which began at this time, in microseconds since
    /// 1970. The job is never in the queue.
    pub(crate) fn adopt(
        &self,
        new: &NewJob,
        attempt: u32,
        began: Option<i64>,
    ) -> Result<Job, StoreError> {
        self.change(|transaction| {
            let mut draft = self.begin(transaction, new)?;
            draft.place(&[], attempt)?;
            draft.job.start_time = began;
            draft.hold_from(began);
            draft.save()
        })
    }

    fn begin<'a>(
        &'a self,
        connection: &'a Connection,
        new: &NewJob,
    ) -> Result<Draft<'a>, StoreError> {
        refuse_shared_output(connection, new)?;
        let wait_since = running_at(self.moment(), new.create_time);
        insert(connection, new, wait_since).map_err(StoreError::sqlite("insert a job"))?;
        let mut draft = self.draft(connection, &new.id)?;
        draft.append(Kind::StateChanged(v1::StateChanged {
            from: v1::JobState::Unspecified.into(),
            to: wire::job_state(JobState::Pending).into(),
            reason: String::new(),
        }))?;
        draft.notify(None, "")?;
        Ok(draft)
    }

    /// Gives a pending job its cores, for its next attempt.
    pub(crate) fn place(&self, id: &str, cores: &[u32]) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            let attempt = draft.job.attempt + 1;
            draft.place(cores, attempt)
        })
    }

    /// Restores a placement of a known attempt. `began`: when its runner started, if it did, in
    /// microseconds since 1970.
    pub(crate) fn place_attempt(
        &self,
        id: &str,
        cores: &[u32],
        attempt: u32,
        began: Option<i64>,
    ) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            let began = began.map(|time| time.max(draft.job.create_time));
            draft.job.start_time = draft.job.start_time.or(began);
            draft.place(cores, attempt)?;
            draft.hold_from(began);
            Ok(())
        })
    }

    /// Returns a job to the queue.
    pub(crate) fn requeue(&self, id: &str, reason: &str) -> Result<Job, StoreError> {
        self.edit(id, |draft| draft.apply(Transition::Requeue, reason))
    }

    /// Requeues a job whose attempt failed. A cancelling job ends instead.
    pub(crate) fn restart(&self, id: &str, restart: &Restart) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            draft.requeue(restart)?;
            draft.job.restarts += u32::from(draft.job.state == JobState::Pending);
            Ok(())
        })
    }

    /// Requeues a job whose runner could not be started.
    pub(crate) fn retry_launch(&self, id: &str, restart: &Restart) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            draft.requeue(restart)?;
            draft.job.launch_retries += 1;
            Ok(())
        })
    }

    /// Requeues a job whose attempt a failure of the host ended.
    pub(crate) fn retry_run(&self, id: &str, restart: &Restart) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            draft.requeue(restart)?;
            draft.job.host_retries += u32::from(draft.job.state == JobState::Pending);
            Ok(())
        })
    }

    /// Adds energy that a job has used.
    pub(crate) fn add_energy(&self, id: &str, joules: f64) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            *draft.job.energy_joules.get_or_insert_default() += joules;
            Ok(())
        })
    }

    /// Stores the reasons of waiting jobs, all in one transaction, since a queue may be long. An
    /// unchanged reason is no event.
    pub(crate) fn wait(&self, waiting: &[Waiting]) -> Result<(), StoreError> {
        let changed = self.change_all(|transaction| {
            let mut changed = Vec::new();
            for Waiting { id, reason } in waiting {
                let mut draft = self.draft(transaction, id)?;
                let known = draft.job.waiting_reason == reason.lasting;
                if draft.job.state == JobState::Pending && !known {
                    draft.wait(&reason.lasting)?;
                    changed.push(draft.save()?);
                }
            }
            Ok(changed)
        });
        changed.map(drop)
    }

    /// Cancels a job. A job that was cancelled before keeps its first reason.
    pub(crate) fn cancel(&self, id: &str, reason: &str) -> Result<Job, StoreError> {
        self.edit(id, |draft| match draft.job.state {
            JobState::Cancelling | JobState::Cancelled => Ok(()),
            _ => {
                draft.apply(Transition::Cancel, reason)?;
                draft.job.cancel_reason = reason.to_owned();
                Ok(())
            }
        })
    }

    /// Stores events of the job's runner, and the offset up to which its log was read.
    pub(crate) fn record(
        &self,
        id: &str,
        events: Vec<v1::Event>,
        log_offset: u64,
    ) -> Result<Job, StoreError> {
        self.edit(id, |draft| draft.record_all(events, log_offset))
    }

    /// Stores how a job ended.
    pub(crate) fn settle(
        &self,
        id: &str,
        outcome: Outcome,
        failure: Option<v1::Failure>,
    ) -> Result<Job, StoreError> {
        self.settle_at(id, outcome, failure, clock::now())
    }

    /// Stores how a job ended and when, in microseconds since 1970.
    pub(crate) fn settle_at(
        &self,
        id: &str,
        outcome: Outcome,
        mut failure: Option<v1::Failure>,
        time: i64,
    ) -> Result<Job, StoreError> {
        failure.iter_mut().for_each(limit_failure);
        self.edit(id, |draft| {
            let reason = failure.as_ref().map(summary).unwrap_or_default();
            draft.job.failure = failure;
            draft.apply(Transition::Settle(outcome), &reason)?;
            draft.job.end_time = Some(time);
            Ok(())
        })
    }

    pub(super) fn edit(
        &self,
        id: &str,
        work: impl FnOnce(&mut Draft<'_>) -> Result<(), StoreError>,
    ) -> Result<Job, StoreError> {
        self.change(|transaction| {
            let mut draft = self.draft(transaction, id)?;
            work(&mut draft)?;
            draft.save()
        })
    }

    fn draft<'a>(&'a self, connection: &'a Connection, id: &str) -> Result<Draft<'a>, StoreError> {
        let operators = self.inner.receivers.get().map_or(&[][..], Vec::as_slice);
        Ok(Draft {
            connection,
            job: load(connection, id)?,
            operators,
            is_past: self.inner.is_draft,
            half_life: self.half_life(),
            now: self.moment(),
        })
    }

    fn change(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<Job, StoreError>,
    ) -> Result<Job, StoreError> {
        let mut changed = self.change_all(|transaction| Ok(vec![work(transaction)?]))?;
        Ok(changed.remove(0))
    }

    fn change_all(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<Vec<Job>, StoreError>,
    ) -> Result<Vec<Job>, StoreError> {
        let mut writer = self.writer();
        // Takes the lock for writing at once: one that is taken after the first read cannot be waited for.
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(StoreError::sqlite("begin"))?;
        let changed = work(&transaction)?;
        transaction.commit().map_err(StoreError::sqlite("commit"))?;
        self.inner.unfinished.note(&changed);
        for job in &changed {
            self.inner.bulletin.publish(job.number, job.last_sequence);
        }
        let operators = self.inner.receivers.get().is_some_and(|receivers| !receivers.is_empty());
        if operators || changed.iter().any(|job| !job.receivers.is_empty()) {
            self.inner.outbox.notify_one();
        }
        Ok(changed)
    }
}

/// Summarizes a failure in one line.
fn summary(failure: &v1::Failure) -> String {
    format!("{}: {}", failure.reason, one_line(&failure.message))
}

/// A job that is being changed within a transaction. Nothing is stored before `save`.
pub(super) struct Draft<'a> {
    pub(super) connection: &'a Connection,
    pub(super) job: Job,
    operators: &'a [Receiver],
    /// Whether the change happened before, and is restored from the runner's log.
    pub(super) is_past: bool,
    /// The half-life of core time in fair shares.
    pub(super) half_life: Duration,
    pub(super) now: Moment,
}

/// The running time at an earlier moment, in microseconds since 1970.
fn running_at(now: Moment, time: i64) -> i64 {
    now.running.saturating_sub(now.wall.saturating_sub(time).max(0))
}

fn load(connection: &Connection, id: &str) -> Result<Job, StoreError> {
    let sql = format!("SELECT {SUMMARY} FROM jobs WHERE id = ?1");
    let found = connection.query_row(&sql, [id], Job::from_row).optional();
    let found = found.map_err(StoreError::sqlite("read a job"))?;
    found.ok_or_else(|| StoreError::NoJob { id: id.to_owned() })
}

impl Draft<'_> {
    pub(super) fn apply(&mut self, transition: Transition, reason: &str) -> Result<(), StoreError> {
        let from = self.job.state;
        let to = from
            .after(transition)
            .map_err(|source| StoreError::Illegal { id: self.job.id.clone(), source })?;
        if to == from {
            return Ok(());
        }
        self.job.state = to;
        self.job.waiting_reason.clear();
        if from.is_active() && !to.is_active() {
            self.bill()?;
        }
        if !to.is_active() {
            self.job.cores.clear();
        }
        if to.is_terminal() {
            self.job.end_time = Some(clock::now());
        }
        self.append(Kind::StateChanged(v1::StateChanged {
            from: wire::job_state(from).into(),
            to: wire::job_state(to).into(),
            reason: limited_text(reason),
        }))?;
        self.notify(Some(from), reason)
    }

    /// Stores the notifications of a change of state. A rebuild repeats changes whose notifications were sent.
    fn notify(&self, from: Option<JobState>, reason: &str) -> Result<(), StoreError> {
        if self.is_past {
            return Ok(());
        }
        outbox::store(self.connection, self.operators, &self.job, from, reason).map(drop)
    }

    pub(super) fn place(&mut self, cores: &[u32], attempt: u32) -> Result<(), StoreError> {
        self.apply(Transition::Place, "")?;
        self.job.cores = cores.to_vec();
        self.job.attempt = attempt;
        self.job.host_names.clear();
        self.hold_from(Some(self.now.wall));
        self.job.finished = None;
        Ok(())
    }

    /// Counts the attempt from a time, in microseconds since 1970, if that is known.
    pub(super) fn hold_from(&mut self, time: Option<i64>) {
        let Some(time) = time else { return };
        self.job.place_time = Some(time);
        self.job.hold_since = Some(running_at(self.now, time));
    }

    /// Requeues the job with a delay. A cancelling job ends instead.
    fn requeue(&mut self, restart: &Restart) -> Result<(), StoreError> {
        self.apply(Transition::Requeue, &restart.reason)?;
        if let Some(host) = &restart.blamed {
            self.job.blame_host(host);
        }
        if self.job.state != JobState::Pending {
            return Ok(());
        }
        self.job.not_before = restart.not_before;
        self.wait(&restart.wait)
    }

    /// Stores why a placed job waits, unless that is known.
    pub(super) fn wait_in_cluster(&mut self, reason: &str) -> Result<(), StoreError> {
        match self.job.state == JobState::Starting && self.job.waiting_reason != reason {
            true => self.wait(reason),
            false => Ok(()),
        }
    }

    pub(super) fn pause_in_cluster(&mut self, reason: &str) -> Result<(), StoreError> {
        match self.job.state == JobState::Running && self.job.waiting_reason != reason {
            true => self.wait(reason),
            false => self.wait_in_cluster(reason),
        }
    }

    fn wait(&mut self, reason: &str) -> Result<(), StoreError> {
        let limited = limited_text(reason);
        // Those who wait compare whole reasons.
        if limited.len() < reason.len() && self.job.waiting_reason == limited {
            return Ok(());
        }
        self.job.waiting_reason.clone_from(&limited);
        self.append(Kind::Waiting(v1::Waiting { reason: limited }))
    }

    pub(super) fn append(&mut self, kind: Kind) -> Result<(), StoreError> {
        let time = Some(clock::timestamp(clock::now()));
        self.store(v1::Event { sequence: 0, time, kind: Some(kind) })
    }

    pub(super) fn store(&mut self, mut event: v1::Event) -> Result<(), StoreError> {
        self.job.last_sequence += 1;
        event.sequence = self.job.last_sequence;
        let sql = "INSERT INTO events (job, sequence, event) VALUES (?1, ?2, ?3)";
        let values = params![self.job.number, event.sequence, event.encode_to_vec()];
        let insert = || self.connection.prepare_cached(sql)?.execute(values);
        insert().map(drop).map_err(StoreError::sqlite("store an event"))
    }

    fn save(self) -> Result<Job, StoreError> {
        update(self.connection, &self.job).map_err(StoreError::sqlite("save a job"))?;
        Ok(self.job)
    }
}

fn update(connection: &Connection, job: &Job) -> rusqlite::Result<usize> {
    let sql = "UPDATE jobs SET state = :state, waiting_reason = :waiting_reason, cancel_reason = :cancel_reason,
            start_time = :start_time, end_time = :end_time, cores = :cores, attempt = :attempt,
            place_time = :place_time, hold_since = :hold_since, billed_seconds = :billed_seconds, energy_joules = :energy_joules,
            restarts = :restarts, postponed = :postponed, hindered = :hindered, not_before = :not_before, cluster = :cluster,
            cluster_restarts = :cluster_restarts, host_names = :host_names, host_failures = :host_failures,
            last_sequence = :last_sequence, log_offset = :log_offset, progress = :progress,
            metrics = :metrics, finished = :finished, failure = :failure
        WHERE number = :number";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":number": job.number,
        ":state": job.state.name(),
        ":waiting_reason": job.waiting_reason,
        ":cancel_reason": job.cancel_reason,
        ":start_time": job.start_time,
        ":end_time": job.end_time,
        ":cores": to_json(&job.cores)?,
        ":attempt": job.attempt,
        ":place_time": job.place_time,
        ":hold_since": job.hold_since,
        ":billed_seconds": job.billed_seconds,
        ":energy_joules": job.energy_joules,
        ":restarts": job.restarts,
        ":postponed": job.launch_retries,
        ":hindered": job.host_retries,
        ":not_before": job.not_before,
        ":cluster": job.cluster.as_ref().map(to_json).transpose()?,
        ":cluster_restarts": job.cluster_restarts,
        ":host_names": job.host_names,
        ":host_failures": to_json(&job.host_failures)?,
        ":last_sequence": job.last_sequence,
        ":log_offset": job.log_offset,
        ":progress": job.progress.as_ref().map(Message::encode_to_vec),
        ":metrics": to_json(&job.metrics)?,
        ":finished": job.finished.as_ref().map(Message::encode_to_vec),
        ":failure": job.failure.as_ref().map(Message::encode_to_vec),
    })
}

fn insert(connection: &Connection, new: &NewJob, wait_since: i64) -> rusqlite::Result<usize> {
    let sql = "INSERT INTO jobs (id, name, owner, run_as, request_id, request_digest, state, create_time, wait_since,
            platform, core_count, priority, max_run_seconds, max_wait_seconds, after, max_restarts, output_dir, job_file, base_dir, resolved, warnings, parent, price_per_hour, engine, hosts, receivers, on_demand_price_per_hour)
        VALUES (:id, :name, :owner, :run_as, :request_id, :request_digest, :state, :create_time, :wait_since,
            :platform, :core_count, :priority, :max_run_seconds, :max_wait_seconds, :after, :max_restarts, :output_dir, :job_file, :base_dir, :resolved, :warnings, :parent, :price_per_hour, :engine, :hosts, :receivers, :on_demand_price_per_hour)";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":id": new.id,
        ":name": new.name,
        ":owner": new.owner,
        ":run_as": new.run_as.map(|account| to_json(&account)).transpose()?,
        ":request_id": Some(&new.request_id).filter(|id| !id.is_empty()),
        ":request_digest": new.request_digest,
        ":state": JobState::Pending.name(),
        ":create_time": new.create_time,
        ":wait_since": wait_since,
        ":platform": new.platform,
        ":core_count": new.core_count,
        ":priority": new.priority,
        ":max_run_seconds": new.max_run_seconds,
        ":max_wait_seconds": new.max_wait_seconds,
        ":after": new.after,
        ":max_restarts": new.max_restarts,
        ":output_dir": new.output_dir,
        ":job_file": new.job_file,
        ":base_dir": new.base_dir,
        ":resolved": new.resolved,
        ":warnings": to_json(&new.warnings)?,
        ":price_per_hour": new.price_per_hour,
        ":engine": if new.engine.is_empty() { "local" } else { &new.engine },
        ":hosts": new.hosts.max(1),
        ":on_demand_price_per_hour": new.on_demand_price_per_hour,
        ":receivers": Some(&new.receivers).filter(|all| !all.is_empty()).map(to_json).transpose()?,
        ":parent": new.parent.as_ref().map(to_json).transpose()?,
    })
}

fn repeated(connection: &Connection, new: &NewJob) -> Result<Option<Job>, StoreError> {
    if new.request_id.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT id, request_digest FROM jobs WHERE owner = ?1 AND request_id = ?2";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = connection.query_row(sql, [&new.owner, &new.request_id], read).optional();
    let found: Option<(String, Vec<u8>)> = found.map_err(StoreError::sqlite("read a request"))?;
    match found {
        None => Ok(None),
        Some((id, digest)) if digest == new.request_digest => load(connection, &id).map(Some),
        Some((id, _)) => Err(StoreError::RequestReused { request_id: new.request_id.clone(), id }),
    }
}
