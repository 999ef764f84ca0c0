//! Pending jobs that the scheduler is not asked about yet, or not any more: those that come
//! after another job, wait for their next attempt, or have waited too long.

use std::collections::HashMap;

use crate::scheduler::{Reason, Waiting};
use crate::state::JobState;
use crate::store::{Job, Store, StoreError};

/// What to do with a pending job before cores are looked at.
#[derive(Debug, PartialEq, Eq)]
enum Hold {
    /// Nothing is in its way but the lack of cores.
    Due,
    /// It waits; the reason, where it does not have one already.
    Wait(Option<String>),
    /// It never starts, and why.
    Give(String),
}

/// Takes the jobs out of `unfinished` that cannot be placed now. Returns why, and when one of
/// them changes by itself, in microseconds since 1970.
pub(crate) fn hold(
    store: &Store,
    unfinished: &mut Vec<Job>,
    now: i64,
) -> Result<(Vec<Waiting>, Option<i64>), StoreError> {
    let mut states = HashMap::new();
    for id in unfinished.iter().filter_map(|job| job.after.clone()) {
        let state = store.get(&id)?.state;
        states.insert(id, state);
    }
    let (mut waiting, mut next) = (Vec::new(), None);
    let mut due = Vec::with_capacity(unfinished.len());
    for job in unfinished.drain(..) {
        if job.state != JobState::Pending {
            due.push(job);
            continue;
        }
        let times = [Some(job.not_before), job.wait_deadline()].into_iter().flatten();
        next = times.filter(|time| *time > now).chain(next).min();
        let after = job.after.as_ref().and_then(|id| Some((id.as_str(), *states.get(id)?)));
        match judge(&job, after, now) {
            Hold::Due => due.push(job),
            Hold::Wait(None) => {}
            Hold::Wait(Some(reason)) => {
                let reason = Reason::lasting(reason);
                waiting.push(Waiting { id: job.id.clone(), reason });
            }
            Hold::Give(reason) => {
                store.cancel(&job.id, &reason)?;
                // Others may come after this one.
                next = Some(now);
            }
        }
    }
    *unfinished = due;
    Ok((waiting, next))
}

/// `after`: the job that has to be completed before, and how it stands.
fn judge(job: &Job, after: Option<(&str, JobState)>, now: i64) -> Hold {
    if job.wait_deadline().is_some_and(|deadline| deadline <= now) {
        let seconds = job.max_wait_seconds.unwrap_or_default();
        return Hold::Give(format!("waited longer than {seconds} s (resources.max_wait_seconds)"));
    }
    match after {
        Some((_, JobState::Completed)) | None if job.not_before <= now => Hold::Due,
        Some((_, JobState::Completed)) | None => Hold::Wait(None),
        Some((id, state)) if state.is_terminal() => {
            Hold::Give(format!("job {id}, which has to be completed before, is {state}"))
        }
        Some((id, _)) => Hold::Wait(Some(format!("comes after job {id}, which is not completed"))),
    }
}
