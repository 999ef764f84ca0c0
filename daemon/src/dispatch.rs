//! Carries out what the scheduler decides, whenever something changed.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::daemon::Daemon;
use crate::holding;
use crate::scheduler::{self, Active, Pending, Placement, Plan, Rules};
use crate::settings::Settings;
use crate::state::JobState;
use crate::store::{Job, Store, StoreError};
use crate::supervisor::Begin;

/// How long to leave a store that refuses to work alone.
const RETRY: Duration = Duration::from_secs(1);
/// How long to wait at most, in case that the clock was set.
const IDLE: Duration = Duration::from_secs(60);

/// Schedules until the daemon closes.
pub(crate) async fn run(daemon: Arc<Daemon>) {
    let mut next = IDLE;
    loop {
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = daemon.wake.notified() => {}
            () = tokio::time::sleep(next) => {}
        }
        next = schedule(&daemon).await.unwrap_or_else(|error| {
            tracing::error!(%error, "schedule; will try again");
            RETRY
        });
    }
}

/// Returns how long nothing will change by itself.
async fn schedule(daemon: &Arc<Daemon>) -> Result<Duration, StoreError> {
    let settings = daemon.settings.clone();
    let (placements, next) = daemon.store.run(move |store| decide(store, &settings)).await?;
    for Placement { id, cores } in placements {
        if daemon.draining.is_cancelled() {
            break;
        }
        match daemon.store.run(move |store| store.place(&id, &cores)).await {
            Ok(job) => {
                tracing::info!(job = job.id, cores = ?job.cores, "start");
                daemon.attend(job, Begin::Launch);
            }
            // It was cancelled a moment ago; its cores stay free.
            Err(StoreError::Illegal { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(next)
}

/// Stores why jobs wait; returns those that may start and when to look again.
fn decide(store: &Store, settings: &Settings) -> Result<(Vec<Placement>, Duration), StoreError> {
    let (mut unfinished, now) = (store.unfinished()?, clock::now());
    let next = holding::hold(store, &mut unfinished, now)?;
    let Plan { placements, waiting } = plan(&unfinished, settings, now);
    for waiting in waiting {
        store.wait(&waiting.id, &waiting.reason)?;
    }
    let until = |then: i64| Duration::from_micros(then.saturating_sub(now).unsigned_abs());
    Ok((placements, next.map_or(IDLE, until).min(IDLE)))
}

fn plan(unfinished: &[Job], settings: &Settings, now: i64) -> Plan {
    let (pending, active): (Vec<&Job>, Vec<&Job>) =
        unfinished.iter().partition(|job| job.state == JobState::Pending);
    // A runner that is out of time has its grace period before it is gone.
    let grace = micros(settings.grace_period);
    let active: Vec<Active> = active.into_iter().map(|job| as_active(job, grace)).collect();
    let pending: Vec<Pending> = pending.into_iter().map(|job| as_pending(job, grace)).collect();
    let rules = Rules {
        cores: &settings.host.cores,
        aligned: settings.host.platform == "neuron",
        cores_per_user: settings.cores_per_user,
    };
    scheduler::plan(rules, &active, &pending, now)
}

fn as_active(job: &Job, grace: i64) -> Active {
    Active {
        id: job.id.clone(),
        name: job.name.clone(),
        owner: job.owner.clone(),
        cores: job.cores.clone(),
        end: job.deadline().map(|deadline| deadline.saturating_add(grace)),
    }
}

fn as_pending(job: &Job, grace: i64) -> Pending {
    let max_run = job.max_run_seconds.map(Duration::from_secs).map(micros);
    Pending {
        id: job.id.clone(),
        name: job.name.clone(),
        owner: job.owner.clone(),
        cores: job.core_count,
        priority: job.priority,
        max_run: max_run.map(|max_run| max_run.saturating_add(grace)),
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
