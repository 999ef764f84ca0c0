//! Who makes room for a job of higher priority.

use super::{Active, Pending, Rules, gang};

/// An active job that is to stop, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub id: String,
    pub reason: String,
}

/// The fewest losses that let `head` start: jobs of lower priority, the lowest first, and
/// among equals those that began last. Nobody, where that would not help or enough of them
/// are on their way out.
pub(super) fn victims(rules: Rules<'_>, active: &[Active], head: &Pending) -> Vec<Preemption> {
    let stay: Vec<&Active> = active.iter().filter(|job| !job.leaving).collect();
    if gang(rules, stay.iter().copied(), head.cores).is_some() {
        return Vec::new();
    }
    let mut lower: Vec<&Active> =
        stay.iter().copied().filter(|job| job.priority < head.priority).collect();
    lower.sort_by_key(|job| (job.priority, std::cmp::Reverse(job.since)));
    let fits_without = |gone: &[&Active]| {
        let left = stay.iter().copied().filter(|job| !gone.iter().any(|one| one.id == job.id));
        gang(rules, left, head.cores).is_some()
    };
    let enough = (1..=lower.len()).find(|count| fits_without(&lower[..*count]));
    let Some(mut gone) = enough.map(|count| lower[..count].to_vec()) else { return Vec::new() };
    // Some of them may have held cores elsewhere than where the gang found its place.
    for job in gone.clone() {
        let others: Vec<&Active> = gone.iter().copied().filter(|one| one.id != job.id).collect();
        if fits_without(&others) {
            gone = others;
        }
    }
    let reason = format!("makes room for job {} of priority {}", head.id, head.priority);
    gone.into_iter().map(|job| Preemption { id: job.id.clone(), reason: reason.clone() }).collect()
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
        let rules = Rules { cores: &all, aligned: true, cores_per_user: None };
        let (id, name, owner) = ("head".into(), String::new(), String::new());
        let head = Pending { id, name, owner, cores, priority, max_run: None };
        let ids: Vec<String> = victims(rules, active, &head).into_iter().map(|v| v.id).collect();
        assert_eq!(ids, expect);
    }

    #[test]
    fn the_least_important_and_youngest_make_room() {
        let three = [active("a", &[0, 1], 0), active("b", &[2], 0), active("c", &[3], 1)];
        check(&three, 1, 2, &["b"]);
        check(&three, 2, 1, &["a"]);
        check(&three, 2, 0, &[]);
        check(&three, 4, 1, &[]);
        check(&three, 4, 2, &["b", "a", "c"]);
    }

    #[test]
    fn who_leaves_already_is_counted_on() {
        let leaving = Active { leaving: true, ..active("b", &[2], 0) };
        check(&[active("a", &[0, 1], 0), leaving, active("c", &[3], 0)], 1, 5, &[]);
    }
}
