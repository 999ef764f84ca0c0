//! Pending jobs that the scheduler is not asked about yet, or not any more: those that come
//! after another job, wait for their next attempt, or have waited too long.

use std::collections::HashMap;

use crate::jobs::scheduler::{Reason, Waiting};
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};
use crate::jobs::supervisor::DELAY_MAX;

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
    platform: &str,
    now: i64,
) -> Result<(Vec<Waiting>, Option<i64>), StoreError> {
    let states = match unfinished.iter().any(|job| job.after.is_some()) {
        true => store.predecessors()?,
        false => HashMap::new(),
    };
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
        match judge(&job, after, platform, now) {
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

/// `after`: the job that has to be completed before, and how it stands. `platform`: of the cores.
fn judge(job: &Job, after: Option<(&str, JobState)>, platform: &str, now: i64) -> Hold {
    if job.wait_deadline().is_some_and(|deadline| deadline <= now) {
        let seconds = job.max_wait_seconds.unwrap_or_default();
        return Hold::Give(format!("waited longer than {seconds} s (resources.max_wait_seconds)"));
    }
    match after {
        Some((_, JobState::Completed)) | None if job.platform != platform => {
            let wanted = &job.platform;
            Hold::Wait(Some(format!(
                "asks for {wanted}, and this daemon schedules {platform} cores"
            )))
        }
        Some((_, JobState::Completed)) | None if rests(job, now) => Hold::Wait(None),
        Some((_, JobState::Completed)) | None => Hold::Due,
        Some((id, state)) if state.is_terminal() => {
            Hold::Give(format!("job {id}, which has to be completed before, is {state}"))
        }
        Some((id, _)) => Hold::Wait(Some(format!("comes after job {id}, which is not completed"))),
    }
}

/// Whether its next attempt does not begin yet. A time further off than any is put was that of a
/// clock which has been set back since.
fn rests(job: &Job, now: i64) -> bool {
    let longest = i64::try_from(DELAY_MAX.as_micros()).unwrap_or(i64::MAX);
    job.not_before > now && job.not_before <= now.saturating_add(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::store::NewJob;

    const NOW: i64 = 1_000_000_000;

    fn check(job: &Job, after: Option<(&str, JobState)>, expect: Hold) {
        assert_eq!(judge(job, after, "cpu", NOW), expect);
    }

    #[test]
    fn a_job_rests_no_longer_than_it_was_told_to_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob { id: "a".into(), platform: "cpu".into(), ..NewJob::default() };
        let job = store.create(&new).unwrap();
        let resting = |seconds: i64| Job { not_before: NOW + seconds * 1_000_000, ..job.clone() };
        check(&resting(0), None, Hold::Due);
        check(&resting(1), None, Hold::Wait(None));
        check(&resting(300), None, Hold::Wait(None));
        // Put off in a year to come, which the clock has been set back from.
        check(&resting(30_000_000), None, Hold::Due);
        let failed = "job b, which has to be completed before, is failed".to_owned();
        check(&resting(1), Some(("b", JobState::Failed)), Hold::Give(failed));
    }

    #[test]
    fn a_job_of_another_platform_waits_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob { id: "a".into(), platform: "neuron".into(), ..NewJob::default() };
        let reason = "asks for neuron, and this daemon schedules cpu cores".to_owned();
        check(&store.create(&new).unwrap(), None, Hold::Wait(Some(reason)));
    }
}
