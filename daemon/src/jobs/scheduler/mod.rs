//! Gang scheduling as a pure function: cores, active jobs and pending jobs in,
//! placements and waiting reasons out.
//!
//! A job gets all its cores or none. The first job in order of priority, then of
//! submission, that does not fit is the *head*, and holds back those behind it. Where
//! `max_run_seconds` of the active jobs says when the head will fit at the latest, that time is
//! its *promise*, and a job behind it may start now if the promise stays as it is. A head of
//! higher priority than active jobs has as many of them stopped as it needs.

mod forecast;
mod gang;
mod preempt;
mod reason;
#[cfg(test)]
mod tests;

pub(crate) use forecast::{Forecast, forecast};
pub(crate) use preempt::Preemption;
pub(crate) use reason::Reason;

use gang::gang;

/// What there is to share, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub cores: &'a [u32],
    /// Gangs are ranges that begin at a multiple of their size, as Neuron wants them.
    pub aligned: bool,
    /// Most cores that the jobs of one user hold at a time.
    pub cores_per_user: Option<u32>,
}

/// A job that holds cores. Times are microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Active {
    pub id: String,
    pub name: String,
    pub owner: String,
    pub cores: Vec<u32>,
    /// When it is gone at the latest, if that is known.
    pub end: Option<i64>,
    pub priority: i64,
    /// When it got its cores.
    pub since: i64,
    /// It was told to stop.
    pub leaving: bool,
}

/// A job that waits for cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub id: String,
    pub name: String,
    pub owner: String,
    pub cores: u32,
    /// The higher, the sooner.
    pub priority: i64,
    /// How long it holds its cores at the most, in microseconds.
    pub max_run: Option<i64>,
}

/// A gang of cores for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub id: String,
    pub cores: Vec<u32>,
}

/// A job that waits, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub id: String,
    pub reason: Reason,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub placements: Vec<Placement>,
    /// In the order in which they come to their turns.
    pub waiting: Vec<Waiting>,
    /// Active jobs that have to make room.
    pub preemptions: Vec<Preemption>,
}

/// The first job that does not fit.
struct Head<'a> {
    job: &'a Pending,
    promise: Option<i64>,
}

/// Decides over `pending`, which is in the order of submission.
pub(crate) fn plan(rules: Rules<'_>, active: &[Active], pending: &[Pending], now: i64) -> Plan {
    let mut ordered: Vec<&Pending> = pending.iter().collect();
    ordered.sort_by_key(|job| std::cmp::Reverse(job.priority));
    let mut active = active.to_vec();
    let mut plan = Plan::default();
    let mut head: Option<Head<'_>> = None;
    for job in ordered {
        match decide(rules, &active, job, head.as_ref(), now) {
            Ok(started) => {
                plan.placements
                    .push(Placement { id: job.id.clone(), cores: started.cores.clone() });
                active.push(started);
            }
            Err(Refusal { reason, holds_back }) => {
                if holds_back && head.is_none() {
                    plan.preemptions = preempt::victims(rules, &active, job);
                    // What is given up for the head is for nobody else.
                    let makes_room = !plan.preemptions.is_empty();
                    let makes_room = makes_room || active.iter().any(|job| job.leaving);
                    let promise = || promise(rules, &active, job, now);
                    let promise = if makes_room { None } else { promise() };
                    head = Some(Head { job, promise });
                }
                plan.waiting.push(Waiting { id: job.id.clone(), reason });
            }
        }
    }
    plan
}

struct Refusal {
    reason: Reason,
    /// Whether it waits for what others could take.
    holds_back: bool,
}

fn decide(
    rules: Rules<'_>,
    active: &[Active],
    job: &Pending,
    head: Option<&Head<'_>>,
    now: i64,
) -> Result<Active, Refusal> {
    if let Some(reason) = beyond_limits(rules, active, job) {
        return Err(Refusal { reason, holds_back: false });
    }
    let Some(cores) = gang(rules, active.iter(), job.cores) else {
        let reason =
            head.map_or_else(|| reason::short(rules, active, job), |head| reason::behind(head.job));
        return Err(Refusal { reason, holds_back: true });
    };
    let end = job.max_run.map(|max_run| now.saturating_add(max_run));
    let started = Active {
        id: job.id.clone(),
        name: job.name.clone(),
        owner: job.owner.clone(),
        cores,
        end,
        priority: job.priority,
        since: now,
        // Not before it has begun.
        leaving: false,
    };
    match head {
        Some(head) if !keeps_promise(rules, active, &started, head, now) => {
            Err(Refusal { reason: reason::behind(head.job), holds_back: true })
        }
        _ => Ok(started),
    }
}

/// Whether the head starts as early as without `started`.
fn keeps_promise(
    rules: Rules<'_>,
    active: &[Active],
    started: &Active,
    head: &Head<'_>,
    now: i64,
) -> bool {
    let Some(promised) = head.promise else { return false };
    let with: Vec<Active> = active.iter().chain([started]).cloned().collect();
    // A head that its own user's job pushes over the limit would hold back nobody any more.
    if beyond_limits(rules, &with, head.job).is_some() {
        return false;
    }
    promise(rules, &with, head.job, now).is_some_and(|promise| promise <= promised)
}

/// When `job` fits at the latest, as far as the active jobs have ends.
fn promise(rules: Rules<'_>, active: &[Active], job: &Pending, now: i64) -> Option<i64> {
    let mut ends: Vec<i64> = active.iter().filter_map(|job| job.end).collect();
    ends.sort_unstable();
    let fits = |time: &i64| {
        let left = active.iter().filter(|job| job.end.is_none_or(|end| end > *time));
        gang(rules, left, job.cores).is_some()
    };
    // A job that should be gone by now is on its way.
    ends.into_iter().find(fits).map(|end| end.max(now))
}

/// Why a job cannot start that waits for nobody but its own user.
fn beyond_limits(rules: Rules<'_>, active: &[Active], job: &Pending) -> Option<Reason> {
    let total = rules.cores.len();
    if job.cores as usize > total {
        return Some(reason::too_wide(job, total));
    }
    let limit = rules.cores_per_user? as usize;
    let own = active.iter().filter(|active| active.owner == job.owner);
    let held: usize = own.map(|active| active.cores.len()).sum();
    (held + job.cores as usize > limit).then(|| reason::beyond_limit(job, held, limit))
}
