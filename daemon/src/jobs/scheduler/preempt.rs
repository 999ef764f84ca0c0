//! Preemption: which active jobs give up their cores for a job of higher priority, or for a job of the
//! group that lent them.

use std::cmp::Reverse;

use super::standing::Standing;
use super::{Active, Pending, Rules, gang};

/// An active job that is to stop, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub id: String,
    pub reason: String,
}

/// Selects jobs to preempt so that `head` can start: those of the lowest priority first, and
/// among equals those that started last. Empty if preemption would not help, or if enough jobs
/// are stopping already. Only the first `running` of `active` can stop: the others start now.
pub(super) fn victims(
    rules: Rules<'_>,
    active: &[Active],
    running: usize,
    standing: &Standing,
    head: &Pending,
    now: i64,
) -> Vec<Preemption> {
    let remaining: Vec<&Active> = active.iter().filter(|job| !job.stopping).collect();
    if gang(rules, remaining.iter().copied(), head.cores).is_some() {
        return Vec::new();
    }
    let mut loans = standing.lenders(head);
    let mut lower: Vec<&Active> = active[..running].iter().filter(|job| !job.stopping).collect();
    lower.retain(|job| job.priority <= head.priority);
    lower.sort_by_key(|job| (job.priority, Reverse(job.since)));
    lower.retain(|job| {
        // Called for all, since those of lower priority give back cores as well.
        let gives_back = loans.as_mut().is_some_and(|loans| standing.gives_back(loans, job, now));
        gives_back || job.priority < head.priority
    });
    let fits_without = |victims: &[&Active]| {
        let is_victim = |job: &Active| victims.iter().any(|victim| victim.id == job.id);
        let left = remaining.iter().copied().filter(|job| !is_victim(job));
        gang(rules, left, head.cores).is_some()
    };
    let enough = (1..=lower.len()).find(|count| fits_without(&lower[..*count]));
    let Some(mut victims) = enough.map(|count| lower[..count].to_vec()) else { return Vec::new() };
    // Some of them may hold cores outside the gang's range.
    for job in victims.clone() {
        let others: Vec<&Active> =
            victims.iter().copied().filter(|other| other.id != job.id).collect();
        if fits_without(&others) {
            victims = others;
        }
    }
    let reason = |job: &Active| match &loans {
        Some(loans) if job.priority == head.priority => loans.reason(rules, head),
        _ => format!("makes room for job {} of priority {}", head.id, head.priority),
    };
    victims.into_iter().map(|job| Preemption { id: job.id.clone(), reason: reason(job) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(id: &str, cores: &[u32], priority: i64) -> Active {
        let since = i64::from(cores[0]);
        Active { id: id.into(), cores: cores.to_vec(), priority, since, ..Active::default() }
    }

    fn check(active: &[Active], cores: u32, priority: i64, expect: &[&str]) {
        let all: Vec<u32> = (0..4).collect();
        let rules = Rules { cores: &all, aligned: true, ..Rules::default() };
        let (id, name, owner) = ("head".into(), String::new(), String::new());
        let head = Pending { id, name, owner, cores, priority, max_run: None };
        let victims = victims(rules, active, active.len(), &Standing::default(), &head, 0);
        let ids: Vec<String> = victims.into_iter().map(|victim| victim.id).collect();
        assert_eq!(ids, expect);
    }

    #[test]
    fn the_lowest_priority_and_newest_are_preempted() {
        let three = [active("a", &[0, 1], 0), active("b", &[2], 0), active("c", &[3], 1)];
        check(&three, 1, 2, &["b"]);
        check(&three, 2, 1, &["a"]);
        check(&three, 2, 0, &[]);
        check(&three, 4, 1, &[]);
        check(&three, 4, 2, &["b", "a", "c"]);
    }

    #[test]
    fn jobs_that_are_stopping_count_as_gone() {
        let stopping = Active { stopping: true, ..active("b", &[2], 0) };
        check(&[active("a", &[0, 1], 0), stopping, active("c", &[3], 0)], 1, 5, &[]);
    }
}
