//! When those who wait will start, as far as anybody can tell: they are played through in
//! their order, each with what its predecessors leave. Who is at the limit of their user waits for
//! that user's jobs, and is in nobody's way.

use super::{Active, Pending, Rules, beyond_limits, gang};

/// A waiting job's prospects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forecast {
    pub id: String,
    /// 1 for who is next.
    pub position: u32,
    /// Microseconds since 1970; unknown where a job before it may run for ever.
    pub start: Option<i64>,
}

/// `active` with expected ends; `waiting` in the order of their turns.
pub(crate) fn forecast(
    rules: Rules<'_>,
    active: &[Active],
    waiting: &[&Pending],
    now: i64,
) -> Vec<Forecast> {
    let mut active = active.to_vec();
    let mut turn = Some(now);
    // Those at the limits of their users, once they have started.
    let mut aside: Vec<Active> = Vec::new();
    let mut forecasts = Vec::with_capacity(waiting.len());
    for (job, position) in waiting.iter().zip(1..) {
        // Nobody starts before the job ahead of it: backfill only makes it sooner.
        let own = aside.iter().filter(|other| other.owner == job.owner);
        let others: Vec<Active> = active.iter().chain(own).cloned().collect();
        let found = turn.and_then(|turn| earliest(rules, &others, job, turn));
        let start = found.as_ref().map(|(start, _)| *start);
        let started = found.map(|(start, cores)| started(job, start, cores));
        if beyond_limits(rules, &others, job).is_some() {
            aside.extend(started);
        } else {
            active.retain(|other| other.end.is_none_or(|end| start.is_none_or(|at| end > at)));
            active.extend(started);
            turn = start;
        }
        forecasts.push(Forecast { id: job.id.clone(), position, start });
    }
    forecasts
}

fn started(job: &Pending, start: i64, cores: Vec<u32>) -> Active {
    let end = job.max_run.map(|max_run| start.saturating_add(max_run));
    let (id, owner) = (job.id.clone(), job.owner.clone());
    Active { id, owner, cores, end, ..Active::default() }
}

/// When, not before `from`, and on which cores `job` fits.
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
        if beyond_limits(rules, &left, job).is_some() {
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
        let rules = Rules { cores: &[0, 1], aligned: false, cores_per_user: None };
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
    fn each_starts_when_those_before_it_leave_enough() {
        let waiting = [pending("a", 1, Some(10)), pending("b", 2, Some(7)), pending("c", 1, None)];
        let expect = [(1, Some(20)), (2, Some(40)), (3, Some(47))];
        check([Some(20), Some(40)], &waiting, &expect);
    }

    #[test]
    fn a_user_at_the_limit_waits_for_own_jobs_and_holds_up_nobody() {
        let own = |id: &str, cores| Pending { owner: "ann".into(), ..pending(id, cores, Some(10)) };
        let rules = Rules { cores: &[0, 1, 2], aligned: false, cores_per_user: Some(1) };
        let running =
            Active { cores: vec![0], owner: "ann".into(), end: Some(20), ..Active::default() };
        let waiting = [own("a", 1), own("b", 1), own("wide", 4), pending("c", 1, None)];
        let waiting: Vec<&Pending> = waiting.iter().collect();
        let seen = forecast(rules, &[running], &waiting, 5);
        let seen: Vec<_> = seen.iter().map(|f| f.start).collect();
        assert_eq!(seen, [Some(20), Some(30), None, Some(5)]);
    }

    #[test]
    fn behind_a_job_without_an_end_nothing_is_known() {
        let waiting = [pending("a", 1, None), pending("b", 2, None), pending("c", 1, None)];
        check([Some(20), None], &waiting, &[(1, Some(20)), (2, None), (3, None)]);
    }
}
