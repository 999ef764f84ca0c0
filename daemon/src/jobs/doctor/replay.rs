//! Restores one job from its folders: accepts it, and places, logs and ends each attempt. A runner
//! that is alive is left to the next daemon, which attaches to it as after any restart.

use std::fs;
use std::io::Read;
use std::time::Duration;

use traind_job_file::{RUN_SPEC_FILE, RunSpec};
use traind_proto::event_log::LoggedEvent;
use traind_proto::reasons;
use traind_proto::v1::{self, event::Kind};

use crate::clock;
use crate::host::process::Identity;
use crate::jobs::record;
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::{JobState, Outcome};
use crate::jobs::store::{ADOPTED, Job, NewJob, Store, StoreError};
use crate::jobs::supervisor;
use crate::jobs::supervisor::claim::Claim;

/// The size of the largest `run.json` that is read.
const SPEC_BYTES_MAX: u64 = 16 << 20;

const REBUILT: &str = "the store was rebuilt";

pub(super) fn replay_job(
    store: &Store,
    mut new: NewJob,
    run_dir: &RunDir,
) -> Result<(), StoreError> {
    if let Some(before) = &new.after
        && store.get(before).is_err()
    {
        new.after = None;
    }
    let id = &new.id;
    store.create(&new)?;
    let cancelled = run_dir.cancelled().exists();
    let cancel = || if cancelled { store.cancel(id, "cancelled").map(drop) } else { Ok(()) };
    let last = last_claim(run_dir);
    let Some(mut spec) = read_spec(run_dir) else {
        if let Some((attempt, _)) = last {
            store.place_attempt(id, &[], attempt, None)?;
            cancel()?;
            return end_without_log(store, run_dir, id);
        }
        // The job never had a runner.
        return cancel();
    };
    // The file is the user's, and may name another job, the cores of others, or any attempt.
    let placement = record::placement(run_dir);
    let claimed = last.as_ref().map_or(0, |(attempt, _)| *attempt);
    spec.job_id.clone_from(id);
    spec.attempt = placement.as_ref().map_or(claimed, |it| it.attempt.max(claimed));
    spec.cores = placement.map(|it| it.cores).unwrap_or_default();
    if spec.attempt == 0 {
        return cancel();
    }
    replay_events(store, run_dir, &spec)?;
    if store.get(id)?.attempt < spec.attempt {
        begin(store, &spec, spec.attempt, None)?;
    }
    cancel()?;
    match last.filter(|(attempt, _)| *attempt == spec.attempt) {
        // The next daemon asks the cluster.
        Some((_, Claim::Cluster(submitted))) => store.submitted(id, &submitted).map(drop),
        // The next daemon follows it further.
        _ if new.engine == ADOPTED => Ok(()),
        Some((_, Claim::Runner(runner))) if Identity::is_alive(&runner) => Ok(()),
        Some((_, Claim::Runner(runner))) => end_attempt(store, id, !runner.is_of_this_boot()),
        // The job was placed, but no runner started.
        _ => store.requeue(id, REBUILT).map(drop),
    }
}

/// Reads the `run.json` of a run folder, which may be its user's.
fn read_spec(run_dir: &RunDir) -> Option<RunSpec> {
    let mut text = Vec::new();
    let file = run_dir.open(&run_dir.path().join(RUN_SPEC_FILE)).ok()?;
    file.take(SPEC_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Stores the logged events, each attempt's after its placement. Reads a damaged log as far as
/// possible.
fn replay_events(store: &Store, run_dir: &RunDir, spec: &RunSpec) -> Result<(), StoreError> {
    let mut offset = 0;
    while let Ok(logged) = run_dir.open_events_log().and_then(|log| log.read_batch(offset)) {
        let Some(last) = logged.last() else { break };
        offset = last.next_offset;
        for chunk in logged.chunk_by(|_, next| attempt(next).is_none()) {
            let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { continue };
            if let Some(attempt) = attempt(first) {
                let time = first.event.time.as_ref().map(clock::micros);
                begin(store, spec, attempt, time)?;
            }
            let events = chunk.iter().map(|logged| logged.event.clone()).collect();
            store.record(&spec.job_id, events, last.next_offset)?;
        }
    }
    Ok(())
}

/// Returns the attempt that begins with this event, if any.
fn attempt(logged: &LoggedEvent) -> Option<u32> {
    match &logged.event.kind {
        Some(Kind::Started(started)) => Some(started.attempt),
        _ => None,
    }
}

/// Places an attempt, after ending the one in progress, if any.
fn begin(store: &Store, spec: &RunSpec, attempt: u32, time: Option<i64>) -> Result<(), StoreError> {
    let (id, job) = (&spec.job_id, store.get(&spec.job_id)?);
    if job.state.is_active() {
        match restart(&job, &failure_of(&job)) {
            Some(restart) => store.restart(id, &restart)?,
            None => store.requeue(id, REBUILT)?,
        };
    }
    // The log is the user's file, and may contain anything.
    let next = job.attempt.saturating_add(1);
    let attempt = attempt.clamp(next, spec.attempt.max(next));
    store.place_attempt(id, &spec.cores, attempt, time).map(drop)
}

/// Ends the attempt in progress, whose runner has ended.
fn end_attempt(store: &Store, id: &str, rebooted: bool) -> Result<(), StoreError> {
    let job = store.get(id)?;
    let time = last_time(store, &job)?;
    let outcome = job.finished.as_ref().map(v1::Finished::outcome);
    let job = match outcome {
        Some(v1::Outcome::Completed) => store.settle_at(id, Outcome::Completed, None, time)?,
        // The runner was stopped for a drain or a preemption.
        Some(v1::Outcome::Cancelled) if job.state != JobState::Cancelling => {
            store.requeue(id, REBUILT)?
        }
        // The machine went down.
        None if rebooted && job.state != JobState::Cancelling => store.requeue(id, REBUILT)?,
        None | Some(v1::Outcome::Cancelled) if job.state == JobState::Cancelling => {
            store.settle_at(id, Outcome::Cancelled, None, time)?
        }
        _ => match failure_of(&job) {
            failure if failure.transient => store.requeue(id, REBUILT)?,
            failure => return fail(store, &job, failure, time),
        },
    };
    tracing::debug!(job = job.id, state = %job.state, "restored");
    Ok(())
}

/// Ends a job whose run folder is gone, and kills its runner, which could no longer report.
fn end_without_log(store: &Store, run_dir: &RunDir, id: &str) -> Result<(), StoreError> {
    if let Err(error) = supervisor::end_processes(run_dir, id) {
        tracing::warn!(job = id, %error, "kill the job's processes");
    }
    let job = store.get(id)?;
    if job.state == JobState::Cancelling {
        return store.settle(id, Outcome::Cancelled, None).map(drop);
    }
    let folder = run_dir.path().display();
    let failure = v1::Failure {
        reason: reasons::RUN_DIRECTORY_FAILED.to_owned(),
        message: format!("{folder} was removed, and with it the runner's event log"),
        ..Default::default()
    };
    fail(store, &job, failure, clock::now())
}

fn fail(store: &Store, job: &Job, failure: v1::Failure, time: i64) -> Result<(), StoreError> {
    match restart(job, &failure) {
        Some(restart) => store.restart(&job.id, &restart).map(drop),
        None => store.settle_at(&job.id, Outcome::Failed, Some(failure), time).map(drop),
    }
}

/// The next attempt, if any. It starts at once: the job has waited since the store was damaged.
fn restart(job: &Job, failure: &v1::Failure) -> Option<crate::jobs::store::Restart> {
    supervisor::restart(job, failure, Duration::ZERO).filter(|_| job.state != JobState::Cancelling)
}

fn failure_of(job: &Job) -> v1::Failure {
    let reported = job.finished.as_ref().and_then(|finished| finished.failure.clone());
    reported.unwrap_or_else(|| v1::Failure {
        reason: reasons::RUNNER_DIED.to_owned(),
        message: "the cause was lost with the store".to_owned(),
        ..Default::default()
    })
}

/// The time of the newest event, in microseconds since 1970.
fn last_time(store: &Store, job: &Job) -> Result<i64, StoreError> {
    let last = store.events(job.number, job.last_sequence, 1)?.pop();
    Ok(last.and_then(|event| event.time).map_or_else(clock::now, |time| clock::micros(&time)))
}

/// Returns the newest attempt that was claimed, with its claim.
fn last_claim(run_dir: &RunDir) -> Option<(u32, Claim)> {
    let read = |attempt: u32| {
        let bytes = fs::read(run_dir.claim(attempt)).ok()?;
        Some((attempt, serde_json::from_slice(&bytes).ok()?))
    };
    run_dir.claimed_attempts().into_iter().rev().find_map(read)
}
