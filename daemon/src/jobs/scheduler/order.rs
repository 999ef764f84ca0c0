//! The order in which waiting jobs are considered: by priority, then by fair shares, then by submission.
//!
//! Within a priority, the next job is of the group that has used least of its share of late, and there
//! of the user who has used least. Cores that jobs hold count for some time in advance, and so do those of
//! jobs that were considered before: groups and users alternate, whatever the length of their queues.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::standing::Standing;
use super::{Pending, Rules};

/// Waiting jobs that remain to be considered.
pub(super) enum Order<'a> {
    /// Jobs by priority and submission.
    Plain(VecDeque<&'a Pending>),
    Fair(FairOrder<'a>),
}

impl<'a> Order<'a> {
    /// Sorts `pending`, which is in the order of submission.
    pub(super) fn new(
        rules: Rules<'_>,
        standing: &mut Standing,
        pending: &'a [Pending],
    ) -> Order<'a> {
        if standing.is_fair() {
            return Order::Fair(FairOrder::new(rules, standing, pending));
        }
        let mut jobs: Vec<&Pending> = pending.iter().collect();
        jobs.sort_by_key(|job| Reverse(job.priority));
        Order::Plain(jobs.into())
    }

    pub(super) fn next(&mut self, standing: &Standing) -> Option<&'a Pending> {
        match self {
            Order::Plain(jobs) => jobs.pop_front(),
            Order::Fair(order) => order.next(standing),
        }
    }
}

/// Jobs of one priority at a time.
pub(super) struct FairOrder<'a> {
    /// Jobs by priority.
    tiers: BTreeMap<i64, Vec<Numbered<'a>>>,
    tier: Tier<'a>,
}

/// A job with the number of its user and of its submission.
struct Numbered<'a> {
    user: usize,
    submission: usize,
    job: &'a Pending,
}

/// The place of a group or user: how much it has used, then its first submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    level: Level,
    submission: usize,
    number: usize,
}

/// A finite number.
#[derive(Clone, Copy, Debug)]
struct Level(f64);

impl PartialEq for Level {
    fn eq(&self, other: &Level) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Level) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Level) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The jobs of one priority.
#[derive(Default)]
struct Tier<'a> {
    groups: BTreeSet<Place>,
    /// The users with jobs, by the number of their group.
    users: HashMap<usize, BTreeSet<Place>>,
    /// Jobs in the order of submission, by the number of the user.
    jobs: HashMap<usize, VecDeque<(usize, &'a Pending)>>,
    /// The group and user of the job before, whose places may have changed since.
    taken: Option<(usize, usize)>,
}

impl<'a> FairOrder<'a> {
    fn new(rules: Rules<'_>, standing: &mut Standing, pending: &'a [Pending]) -> FairOrder<'a> {
        let mut tiers: BTreeMap<i64, Vec<_>> = BTreeMap::new();
        for (submission, job) in pending.iter().enumerate() {
            let user = standing.user(rules, &job.owner);
            tiers.entry(job.priority).or_default().push(Numbered { user, submission, job });
        }
        FairOrder { tiers, tier: Tier::default() }
    }

    fn next(&mut self, standing: &Standing) -> Option<&'a Pending> {
        loop {
            if let Some(job) = self.tier.next(standing) {
                return Some(job);
            }
            let (_, jobs) = self.tiers.pop_last()?;
            self.tier = Tier::new(jobs, standing);
        }
    }
}

impl<'a> Tier<'a> {
    fn new(all: Vec<Numbered<'a>>, standing: &Standing) -> Tier<'a> {
        let mut tier = Tier::default();
        for Numbered { user, submission, job } in all {
            tier.jobs.entry(user).or_default().push_back((submission, job));
        }
        let users: Vec<usize> = tier.jobs.keys().copied().collect();
        for user in users {
            let group = standing.group_of(user);
            let place = tier.place_of_user(user, standing);
            tier.users.entry(group).or_default().extend(place);
        }
        let groups: Vec<usize> = tier.users.keys().copied().collect();
        tier.groups =
            groups.into_iter().filter_map(|it| tier.place_of_group(it, standing)).collect();
        tier
    }

    fn next(&mut self, standing: &Standing) -> Option<&'a Pending> {
        if let Some((group, user)) = self.taken.take() {
            let place = self.place_of_user(user, standing);
            self.users.entry(group).or_default().extend(place);
            self.groups.extend(self.place_of_group(group, standing));
        }
        let group = self.groups.pop_first()?.number;
        let user = self.users.get_mut(&group)?.pop_first()?.number;
        self.taken = Some((group, user));
        self.jobs.get_mut(&user)?.pop_front().map(|(_, job)| job)
    }

    fn place_of_user(&self, number: usize, standing: &Standing) -> Option<Place> {
        let (submission, _) = self.jobs.get(&number)?.front()?;
        let level = Level(standing.level_of_user(number));
        Some(Place { level, submission: *submission, number })
    }

    fn place_of_group(&self, number: usize, standing: &Standing) -> Option<Place> {
        let first = self.users.get(&number)?.first()?;
        let level = Level(standing.level_of_group(number));
        Some(Place { level, submission: first.submission, number })
    }
}
