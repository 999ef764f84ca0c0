//! Withholds pending jobs from the scheduler that cannot be placed: they come after another job,
//! wait for their next attempt, or have waited too long.

use std::sync::Arc;

use crate::clock::Moment;
use crate::jobs::scheduler::{Reason, Waiting};
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};
use crate::jobs::supervisor::DELAY_MAX;

/// Whether a pending job may be scheduled, cores aside.
#[derive(Debug, PartialEq, Eq)]
enum Eligibility {
    /// Ready to schedule.
    Ready,
    /// Blocked for now, with a reason unless the job already has one.
    Blocked(Option<String>),
    /// Will never start, with the reason.
    Never(String),
}

/// Removes the jobs from `unfinished` that cannot be placed now, and cancels those that never
/// will. Returns why the others wait, and the next time at which one becomes eligible, in
/// microseconds since 1970.
pub(super) fn withhold_blocked_jobs(
    store: &Store,
    unfinished: &mut Vec<Arc<Job>>,
    platform: &str,
    now: Moment,
) -> Result<(Vec<Waiting>, Option<i64>), StoreError> {
    let states = store.predecessors(unfinished)?;
    let (mut waiting, mut next) = (Vec::new(), None);
    let mut ready = Vec::with_capacity(unfinished.len());
    for job in unfinished.drain(..) {
        if job.state != JobState::Pending {
            ready.push(job);
            continue;
        }
        let end = job.wait_left(now).map(|left| now.wall.saturating_add(left));
        let times = [Some(job.not_before), end].into_iter().flatten();
        next = times.filter(|time| *time > now.wall).chain(next).min();
        let after = job.after.as_ref().and_then(|id| Some((id.as_str(), *states.get(id)?)));
        match eligibility(&job, after, platform, now) {
            Eligibility::Ready => ready.push(job),
            Eligibility::Blocked(None) => {}
            Eligibility::Blocked(Some(reason)) => {
                let reason = Reason::lasting(reason);
                waiting.push(Waiting { id: job.id.clone(), reason });
            }
            Eligibility::Never(reason) => {
                store.cancel(&job.id, &reason)?;
                // Jobs that come after this one may change, too.
                next = Some(now.wall);
            }
        }
    }
    *unfinished = ready;
    Ok((waiting, next))
}

/// `after`: the job that must complete first, and its state. `platform`: the host's cores.
fn eligibility(
    job: &Job,
    after: Option<(&str, JobState)>,
    platform: &str,
    now: Moment,
) -> Eligibility {
    if job.wait_left(now).is_some_and(|left| left <= 0) {
        let seconds = job.max_wait_seconds.unwrap_or_default();
        return Eligibility::Never(format!(
            "waited longer than {seconds} s (resources.max_wait_seconds)"
        ));
    }
    match after {
        Some((_, JobState::Completed)) | None
            if job.platform != platform && job.cluster_kind().is_none() =>
        {
            let wanted = &job.platform;
            Eligibility::Blocked(Some(format!(
                "requests {wanted}, and this daemon schedules {platform} cores"
            )))
        }
        Some((_, JobState::Completed)) | None if is_delayed(job, now.wall) => {
            Eligibility::Blocked(None)
        }
        Some((_, JobState::Completed)) | None => Eligibility::Ready,
        Some((id, state)) if state.is_terminal() => {
            Eligibility::Never(format!("job {id}, which must complete first, is {state}"))
        }
        Some((id, _)) => {
            Eligibility::Blocked(Some(format!("comes after job {id}, which has not completed")))
        }
    }
}

/// Whether the job's next attempt is still delayed. A delay beyond the longest one was measured by
/// a clock that has since been set back, and does not count.
fn is_delayed(job: &Job, now: i64) -> bool {
    let longest = i64::try_from(DELAY_MAX.as_micros()).unwrap_or(i64::MAX);
    job.not_before > now && job.not_before <= now.saturating_add(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::jobs::store::NewJob;

    const NOW: i64 = 1_000_000_000;

    fn check(job: &Job, after: Option<(&str, JobState)>, expect: Eligibility) {
        let now = Moment { wall: NOW, running: 0 };
        assert_eq!(eligibility(job, after, "cpu", now), expect);
    }

    /// A clock that was set a year ahead cancels nothing, and one that was set back lets nothing wait longer.
    #[test]
    fn a_wait_ends_by_the_time_that_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob {
            id: "a".into(),
            platform: "cpu".into(),
            max_wait_seconds: Some(60),
            create_time: clock::now(),
            ..NewJob::default()
        };
        let job = store.create(&new).unwrap();
        let at = |wall: i64, seconds: i64| {
            let running = job.wait_since.unwrap() + seconds * 1_000_000;
            eligibility(&job, None, "cpu", Moment { wall, running })
        };
        for wall in [0, NOW, i64::MAX] {
            assert_eq!(at(wall, 59), Eligibility::Ready);
            let reason = "waited longer than 60 s (resources.max_wait_seconds)".to_owned();
            assert_eq!(at(wall, 60), Eligibility::Never(reason));
        }
        let began = Job { start_time: Some(0), ..job.clone() };
        let late = Moment { wall: NOW, running: i64::MAX };
        assert_eq!(eligibility(&began, None, "cpu", late), Eligibility::Ready);
    }

    #[test]
    fn a_delay_ends_even_if_the_clock_is_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob { id: "a".into(), platform: "cpu".into(), ..NewJob::default() };
        let job = store.create(&new).unwrap();
        let delayed = |seconds: i64| Job { not_before: NOW + seconds * 1_000_000, ..job.clone() };
        check(&delayed(0), None, Eligibility::Ready);
        check(&delayed(1), None, Eligibility::Blocked(None));
        check(&delayed(300), None, Eligibility::Blocked(None));
        // Delayed by a clock that was a year ahead and has been set back.
        check(&delayed(30_000_000), None, Eligibility::Ready);
        let failed = "job b, which must complete first, is failed".to_owned();
        check(&delayed(1), Some(("b", JobState::Failed)), Eligibility::Never(failed));
    }

    #[test]
    fn a_job_of_another_platform_is_blocked() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob { id: "a".into(), platform: "neuron".into(), ..NewJob::default() };
        let reason = "requests neuron, and this daemon schedules cpu cores".to_owned();
        check(&store.create(&new).unwrap(), None, Eligibility::Blocked(Some(reason)));
    }
}
