//! Gang scheduling with backfill, as a pure function from cores, active jobs and pending jobs to
//! placements and waiting reasons.
//!
//! A job gets all its cores or none. Jobs are ordered by priority, then by submission. The first
//! one that does not fit is the *head*, and blocks those behind it. If `max_run_seconds` of the
//! active jobs bounds the time at which the head will fit, that time is its *reservation*, and a
//! job behind the head may start if that does not delay the reservation. A head of higher
//! priority than active jobs preempts as many of them as it needs.

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

/// The most jobs behind the head that are compared with its reservation in one run.
const BACKFILLS_MAX: usize = 1000;

/// The cores to schedule, and the rules for sharing them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub cores: &'a [u32],
    /// Gangs are ranges that begin at a multiple of their size, as Neuron requires.
    pub aligned: bool,
    /// Most cores that the jobs of one user may hold at a time.
    pub cores_per_user: Option<u32>,
}

/// A job that holds cores. Times are microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Active {
    pub id: String,
    pub name: String,
    pub owner: String,
    pub cores: Vec<u32>,
    /// The latest time at which it ends, if known.
    pub end: Option<i64>,
    pub priority: i64,
    /// When it got its cores.
    pub since: i64,
    /// Was preempted or cancelled.
    pub stopping: bool,
}

/// A job that waits for cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub id: String,
    pub name: String,
    pub owner: String,
    pub cores: u32,
    /// Jobs of higher priority come first.
    pub priority: i64,
    /// Longest time for which it holds its cores, in microseconds.
    pub max_run: Option<i64>,
}

/// A gang of cores for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub id: String,
    pub cores: Vec<u32>,
}

/// A job that waits, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub id: String,
    pub reason: Reason,
}

/// Decisions of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub placements: Vec<Placement>,
    /// In scheduling order.
    pub waiting: Vec<Waiting>,
    /// Active jobs that are to give up their cores.
    pub preemptions: Vec<Preemption>,
}

/// The first job that does not fit.
struct Head<'a> {
    job: &'a Pending,
    /// Why others wait behind it.
    reason: Reason,
    /// The latest time at which it will fit, if known.
    reservation: Option<i64>,
}

/// Schedules `pending`, which is in the order of submission.
pub(crate) fn plan(rules: Rules<'_>, active: &[Active], pending: &[Pending], now: i64) -> Plan {
    let mut ordered: Vec<&Pending> = pending.iter().collect();
    ordered.sort_by_key(|job| std::cmp::Reverse(job.priority));
    let mut active = active.to_vec();
    let mut plan = Plan::default();
    let mut backfills = BACKFILLS_MAX;
    let mut head: Option<Head<'_>> = None;
    for job in ordered {
        match decide(rules, &active, job, head.as_ref(), &mut backfills, now) {
            Ok(started) => {
                plan.placements
                    .push(Placement { id: job.id.clone(), cores: started.cores.clone() });
                active.push(started);
            }
            Err(Refusal { reason, blocks_others }) => {
                if blocks_others && head.is_none() {
                    plan.preemptions = preempt::victims(rules, &active, job);
                    // Cores that are given up for the head are for no other job.
                    let preempts = !plan.preemptions.is_empty();
                    let reservation = match preempts || active.iter().any(|job| job.stopping) {
                        true => None,
                        false => reservation(rules, &active, job, now),
                    };
                    head = Some(Head { job, reason: reason::behind(job), reservation });
                }
                plan.waiting.push(Waiting { id: job.id.clone(), reason });
            }
        }
    }
    plan
}

struct Refusal {
    reason: Reason,
    /// Whether it waits for cores that later jobs could take.
    blocks_others: bool,
}

fn decide(
    rules: Rules<'_>,
    active: &[Active],
    job: &Pending,
    head: Option<&Head<'_>>,
    backfills: &mut usize,
    now: i64,
) -> Result<Active, Refusal> {
    if let Some(reason) = beyond_limits(rules, active, job) {
        return Err(Refusal { reason, blocks_others: false });
    }
    let behind = |head: &Head<'_>| Refusal { reason: head.reason.clone(), blocks_others: true };
    // Behind a head without a reservation nothing starts.
    if let Some(head) = head
        && (head.reservation.is_none() || *backfills == 0)
    {
        return Err(behind(head));
    }
    let Some(cores) = gang(rules, active.iter(), job.cores) else {
        return Err(head.map_or_else(
            || Refusal { reason: reason::short(rules, active, job), blocks_others: true },
            behind,
        ));
    };
    *backfills = backfills.saturating_sub(usize::from(head.is_some()));
    let end = job.max_run.map(|max_run| now.saturating_add(max_run));
    let started = Active {
        id: job.id.clone(),
        name: job.name.clone(),
        owner: job.owner.clone(),
        cores,
        end,
        priority: job.priority,
        since: now,
        stopping: false,
    };
    match head {
        Some(head) if !keeps_reservation(rules, active, &started, head, now) => Err(behind(head)),
        _ => Ok(started),
    }
}

/// Whether the head's reservation is kept if `started` starts now.
fn keeps_reservation(
    rules: Rules<'_>,
    active: &[Active],
    started: &Active,
    head: &Head<'_>,
    now: i64,
) -> bool {
    let Some(reserved) = head.reservation else { return false };
    let with: Vec<Active> = active.iter().chain([started]).cloned().collect();
    // A job of the head's own user could push the head over the user's limit.
    if beyond_limits(rules, &with, head.job).is_some() {
        return false;
    }
    reservation(rules, &with, head.job, now).is_some_and(|time| time <= reserved)
}

/// The latest time at which `job` will fit, if the ends of enough active jobs are known.
fn reservation(rules: Rules<'_>, active: &[Active], job: &Pending, now: i64) -> Option<i64> {
    let mut ends: Vec<i64> = active.iter().filter_map(|job| job.end).collect();
    ends.sort_unstable();
    let fits = |time: &i64| {
        let left = active.iter().filter(|job| job.end.is_none_or(|end| end > *time));
        gang(rules, left, job.cores).is_some()
    };
    // A job past its end is about to exit.
    ends.into_iter().find(fits).map(|end| end.max(now))
}

/// Explains why a job exceeds the host or its user's limit; `None` if it does not.
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
