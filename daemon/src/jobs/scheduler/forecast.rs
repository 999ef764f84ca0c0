//! Forecasts of when waiting jobs will start: simulates them in scheduling order, each with the
//! cores that its predecessors leave. A job at the limit of its user or group waits for their jobs and
//! blocks no other.

use super::{Active, Held, Pending, Rules, gang, started};

/// The position and expected start of a waiting job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forecast {
    pub id: String,
    /// 1 for the next job.
    pub position: u32,
    /// Microseconds since 1970; unknown if a job before it has no time limit.
    pub start: Option<i64>,
}

/// Forecasts all waiting jobs. `active` has expected ends; `waiting` is in scheduling order.
pub(crate) fn forecast(
    rules: Rules<'_>,
    active: &[Active],
    waiting: &[&Pending],
    now: i64,
) -> Vec<Forecast> {
    let mut active = active.to_vec();
    let mut earliest_start = Some(now);
    // Jobs at their users' limits, once started.
    let mut limited: Vec<Active> = Vec::new();
    let mut forecasts = Vec::with_capacity(waiting.len());
    for (job, position) in waiting.iter().zip(1..) {
        // A job starts no earlier than the one before it: backfill can only improve on that.
        let group = rules.group_of(&job.owner);
        let shares_limit = |other: &&Active| {
            other.owner == job.owner
                || group.is_some_and(|it| rules.group_of(&other.owner) == Some(it))
        };
        let own = limited.iter().filter(shares_limit);
        let others: Vec<Active> = active.iter().chain(own).cloned().collect();
        let found = earliest_start.and_then(|from| earliest(rules, &others, job, from));
        let start = found.as_ref().map(|(start, _)| *start);
        let started = found.map(|(start, cores)| started(job, cores, start));
        if Held::by(rules, &others).objection(rules, job).is_some() {
            limited.extend(started);
        } else {
            active.retain(|other| other.end.is_none_or(|end| start.is_none_or(|at| end > at)));
            active.extend(started);
            earliest_start = start;
        }
        forecasts.push(Forecast { id: job.id.clone(), position, start });
    }
    forecasts
}

/// The earliest time, not before `from`, at which `job` fits, and its cores.
fn earliest(
    rules: Rules<'_>,
    active: &[Active],
    job: &Pending,
    from: i64,
) -> Option<(i64, Vec<u32>)> {
    let ends = active.iter().filter_map(|job| job.end).filter(|end| *end > from);
    let mut times: Vec<i64> = std::iter::once(from).chain(ends).collect();
    times.sort_unstable();
    times.into_iter().find_map(|time| {
        let left = active.iter().filter(|job| job.end.is_none_or(|end| end > time));
        let left: Vec<Active> = left.cloned().collect();
        if Held::by(rules, &left).objection(rules, job).is_some() {
            return None;
        }
        Some((time, gang(rules, left.iter(), job.cores)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(id: &str, cores: u32, max_run: Option<i64>) -> Pending {
        let (name, owner) = (String::new(), String::new());
        Pending { id: id.into(), name, owner, cores, priority: 0, max_run }
    }

    fn check(ends: [Option<i64>; 2], waiting: &[Pending], expect: &[(u32, Option<i64>)]) {
        let rules = Rules { cores: &[0, 1], ..Rules::default() };
        let active = ends.into_iter().zip(0..);
        let active: Vec<Active> = active
            .map(|(end, core)| Active { cores: vec![core], end, ..Active::default() })
            .collect();
        let waiting: Vec<&Pending> = waiting.iter().collect();
        let seen = forecast(rules, &active, &waiting, 5);
        let seen: Vec<_> = seen.iter().map(|f| (f.position, f.start)).collect();
        assert_eq!(seen, expect);
    }

    #[test]
    fn each_job_starts_when_those_before_it_leave_enough_cores() {
        let waiting = [pending("a", 1, Some(10)), pending("b", 2, Some(7)), pending("c", 1, None)];
        let expect = [(1, Some(20)), (2, Some(40)), (3, Some(47))];
        check([Some(20), Some(40)], &waiting, &expect);
    }

    #[test]
    fn a_job_at_its_users_limit_waits_for_that_users_jobs_and_blocks_no_other() {
        let own = |id: &str, cores| Pending { owner: "ann".into(), ..pending(id, cores, Some(10)) };
        let rules = Rules { cores: &[0, 1, 2], cores_per_user: Some(1), ..Rules::default() };
        let running =
            Active { cores: vec![0], owner: "ann".into(), end: Some(20), ..Active::default() };
        let waiting = [own("a", 1), own("b", 1), own("wide", 4), pending("c", 1, None)];
        let waiting: Vec<&Pending> = waiting.iter().collect();
        let seen = forecast(rules, &[running], &waiting, 5);
        let seen: Vec<_> = seen.iter().map(|f| f.start).collect();
        assert_eq!(seen, [Some(20), Some(30), None, Some(5)]);
    }

    #[test]
    fn the_start_behind_a_job_without_a_time_limit_is_unknown() {
        let waiting = [pending("a", 1, None), pending("b", 2, None), pending("c", 1, None)];
        check([Some(20), None], &waiting, &[(1, Some(20)), (2, None), (3, None)]);
    }
}
