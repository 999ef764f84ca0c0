//! Gang scheduling with backfill, as a pure function from cores, active jobs and pending jobs to
//! placements and waiting reasons.
//!
//! A job gets all its cores or none. Jobs are ordered by priority, then by fair shares if there are
//! any, then by submission. The first one that does not fit is the *head*, and blocks those behind
//! it. If `max_run_seconds` of the active jobs bounds the time at which the head will fit, that time
//! is its *reservation*, and a job behind the head may start if that does not delay the reservation.
//! A head preempts as many active jobs as it needs of those that have a lower priority, or hold cores
//! that its group lent.

#[cfg(test)]
mod fair_tests;
mod forecast;
mod gang;
mod held;
mod order;
mod preempt;
mod reason;
mod standing;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use forecast::{Forecast, forecast};
pub(crate) use preempt::Preemption;
pub(crate) use reason::Reason;
pub(crate) use standing::due_cores;
pub(crate) use usage::Usage;

use crate::access::sharing::Sharing;
use gang::gang;
use held::Held;
use order::Order;
use standing::Standing;

/// The most jobs behind the head that are compared with its reservation in one run.
const BACKFILLS_MAX: usize = 1000;

/// The cores to schedule, and the rules for sharing them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules<'a> {
    pub cores: &'a [u32],
    /// How many more cores the host has, which are fenced or tested.
    pub withheld: usize,
    /// Gangs are ranges that begin at a multiple of their size, as Neuron requires.
    pub aligned: bool,
    /// The most cores that the jobs of one user may hold at a time.
    pub cores_per_user: Option<u32>,
    /// Groups of users; `None` if there are none.
    pub sharing: Option<&'a Arc<Sharing>>,
    /// Core seconds that users have used of late, running jobs included; for fair shares alone.
    pub usage: Option<&'a HashMap<String, f64>>,
}

impl Rules<'_> {
    /// The number of a user's group.
    fn group_of(&self, owner: &str) -> Option<usize> {
        self.sharing?.number_of(owner)
    }
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
    /// The longest time for which it holds its cores, in microseconds.
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
    /// Jobs that wait, in scheduling order.
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
    let mut state = State::new(rules, active);
    let mut order = Order::new(rules, &mut state.standing, pending);
    let mut plan = Plan::default();
    let mut head: Option<Head<'_>> = None;
    while let Some(job) = order.next(&state.standing) {
        match state.decide(rules, job, head.as_ref(), now) {
            Ok(started) => {
                plan.placements
                    .push(Placement { id: job.id.clone(), cores: started.cores.clone() });
                state.start(rules, started);
                state.standing.consider(job, true);
            }
            Err(Refusal { reason, blocks_others }) => {
                if blocks_others && head.is_none() {
                    plan.preemptions = state.victims(rules, job, now);
                    head = Some(state.head(rules, job, !plan.preemptions.is_empty(), now));
                }
                if blocks_others {
                    state.standing.consider(job, false);
                }
                plan.waiting.push(Waiting { id: job.id.clone(), reason });
            }
        }
    }
    plan
}

/// Jobs that hold cores, those that the plan starts included.
struct State {
    active: Vec<Active>,
    /// How many of them ran before.
    running: usize,
    held: Held,
    standing: Standing,
    /// How many more jobs behind the head are compared with its reservation.
    backfills: usize,
}

struct Refusal {
    reason: Reason,
    /// Whether it waits for cores that later jobs could take.
    blocks_others: bool,
}

impl State {
    fn new(rules: Rules<'_>, active: &[Active]) -> State {
        State {
            active: active.to_vec(),
            running: active.len(),
            held: Held::by(rules, active),
            standing: Standing::new(rules, active),
            backfills: BACKFILLS_MAX,
        }
    }

    fn start(&mut self, rules: Rules<'_>, job: Active) {
        self.held.add(rules, &job);
        self.active.push(job);
    }

    fn victims(&self, rules: Rules<'_>, head: &Pending, now: i64) -> Vec<Preemption> {
        preempt::victims(rules, &self.active, self.running, &self.standing, head, now)
    }

    /// Makes `job` the head of the queue, for which others may be preempted.
    fn head<'a>(&self, rules: Rules<'_>, job: &'a Pending, preempts: bool, now: i64) -> Head<'a> {
        // Cores that are given up for the head are for no other job.
        let reservation = match preempts || self.active.iter().any(|job| job.stopping) {
            true => None,
            false => reservation(rules, &self.active, job, now),
        };
        let standing = self.standing.describe(rules, &job.owner);
        Head { job, reason: reason::behind(job, standing), reservation }
    }

    fn decide(
        &mut self,
        rules: Rules<'_>,
        job: &Pending,
        head: Option<&Head<'_>>,
        now: i64,
    ) -> Result<Active, Refusal> {
        if let Some(reason) = self.held.objection(rules, job) {
            return Err(Refusal { reason, blocks_others: false });
        }
        let behind = |head: &Head<'_>| Refusal { reason: head.reason.clone(), blocks_others: true };
        // Behind a head without a reservation nothing starts.
        if let Some(head) = head
            && (head.reservation.is_none() || self.backfills == 0)
        {
            return Err(behind(head));
        }
        let active = &self.active;
        let Some(cores) = gang(rules, active.iter(), job.cores) else {
            return Err(head.map_or_else(
                || Refusal { reason: reason::short(rules, active, job), blocks_others: true },
                behind,
            ));
        };
        self.backfills = self.backfills.saturating_sub(usize::from(head.is_some()));
        let started = started(job, cores, now);
        match head {
            Some(head) if !self.keeps_reservation(rules, &started, head, now) => Err(behind(head)),
            _ => Ok(started),
        }
    }

    /// Whether the head's reservation is kept if `started` starts now.
    fn keeps_reservation(
        &self,
        rules: Rules<'_>,
        started: &Active,
        head: &Head<'_>,
        now: i64,
    ) -> bool {
        let Some(reserved) = head.reservation else { return false };
        let mut held = self.held.clone();
        held.add(rules, started);
        // A job of the head's own user could push the head over the user's limit.
        if held.objection(rules, head.job).is_some() {
            return false;
        }
        let with: Vec<Active> = self.active.iter().chain([started]).cloned().collect();
        reservation(rules, &with, head.job, now).is_some_and(|time| time <= reserved)
    }
}

/// The job once it starts, at `now`.
fn started(job: &Pending, cores: Vec<u32>, now: i64) -> Active {
    Active {
        id: job.id.clone(),
        name: job.name.clone(),
        owner: job.owner.clone(),
        cores,
        end: job.max_run.map(|max_run| now.saturating_add(max_run)),
        priority: job.priority,
        since: now,
        stopping: false,
    }
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
